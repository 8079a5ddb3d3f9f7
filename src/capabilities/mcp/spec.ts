/**
 * Converts descriptions of MCP servers, from the configuration and from agents, to the form of `servers.ts`. Decides which
 * variables a program inherits, which folder it works in and which secrets are sent.
 */
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { digestOfJson } from '../../base/canonical-json.ts';
import { childEnvironment } from '../../base/child-environment.ts';
import { MAX_DELAY_MS } from '../../base/deadlines.ts';
import { handfastHome } from '../../base/handfast-home.ts';
import { isInside } from '../../base/is-inside.ts';
import { headerProblem } from '../../base/secret-text.ts';
import { outsideWorkspace, shown as shortened } from '../../base/workspace/file-error.ts';
import type { PathGuard } from '../../base/workspace/protected-paths.ts';
import { McpAuthorization } from '../../mcp/authorization.ts';
import type { McpAddress, McpLogLevel } from '../../mcp/definition.ts';
import { memoryEra } from '../../mcp/era.ts';
import type { OAuthSettings } from '../../mcp/oauth-settings.ts';
import { START_MS } from '../../mcp/server.ts';
import { SignInFile } from '../../mcp/sign-in-file.ts';
import { memoryPins } from '../../mcp/tool-pins.ts';
import type { Principal } from '../../session/principal.ts';
import { named, variableRights } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import type { EraFile } from './eras.ts';
import { failure } from './errors.ts';
import type { ServerConfig } from './mcp.schema.ts';
import type { PinFile } from './pins.ts';
import { coveringCommand, coversUrl } from './rights.ts';
import type { Question, ServerSpec } from './servers.ts';
import { isPlainServer } from './tool-name.ts';

type Texts = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/** A server of the configuration. */
export interface ServerSettings {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[];
  readonly cwd?: string | undefined;
  readonly env?: Texts;
  readonly passEnv?: readonly string[];
  readonly url?: string | undefined;
  readonly headers?: Texts;
  readonly headersEnv?: Texts;
  readonly oauth?: OAuthOptions | undefined;
  readonly tools?: readonly string[] | undefined;
  readonly required?: boolean;
  readonly perSession?: boolean;
  readonly startTimeoutS?: number | undefined;
  readonly timeoutS?: number | undefined;
  readonly logLevel?: McpLogLevel | undefined;
  readonly disabled?: boolean;
  readonly mayAsk?: readonly Question[];
}

/** The settings of a sign-in to a server. */
export interface OAuthOptions extends Omit<OAuthSettings, 'clientSecret'> {
  readonly clientSecretEnv?: string | undefined;
  readonly privateKeyEnv?: string | undefined;
}

type Variables = Readonly<Record<string, string | undefined>>;

const TIMEOUT_S = 300;

const pairs = (texts: Texts = {}): [string, string][] =>
  texts instanceof Map ? [...texts] : Object.entries(texts as Readonly<Record<string, string>>);

/** Returns a server of the configuration. Fails with `config_invalid` if a variable that it needs is not set. */
export function configuredServer(
  settings: ServerSettings,
  workspace: string,
  { pins, eras }: { readonly pins: PinFile; readonly eras: EraFile },
  env: Variables,
): ServerSpec {
  const { name, command, args = [], cwd = workspace, url, tools, required = false, perSession = false } = settings;
  const { startTimeoutS, timeoutS = TIMEOUT_S, disabled = false, mayAsk = [] } = settings;
  const variable = (wanted: string): string => {
    const value = env[wanted];
    if (value !== undefined || disabled) return value ?? '';
    throw fail('config_invalid', `the MCP server ${name} needs the variable ${wanted}, which is not set`);
  };
  const secrets = pairs(settings.headersEnv).map(([header, from]) => [header, variable(from)] as const);
  const headers = Object.fromEntries([...pairs(settings.headers), ...secrets]);
  const wrong = wrongHeader(headers);
  if (wrong !== undefined) throw fail('config_invalid', `the MCP server ${name}: ${wrong}`);
  const passed = (settings.passEnv ?? []).map((each) => [each, variable(each)] as const);
  const onlyEnv = { ...childEnvironment({}, env), ...Object.fromEntries([...passed, ...pairs(settings.env)]) };
  const address: McpAddress =
    command === undefined ? { http: { url: url as string, headers } } : { stdio: { command, args, onlyEnv } };
  const key = `${name} ${digestOfJson({ command, args, url }).slice(0, 16)}`;
  return {
    id: name,
    name,
    address,
    authorization: authorizationOf(settings, env),
    cwd,
    tools: tools && ((each) => named(tools, each)),
    required,
    isDisabled: disabled,
    isShared: !perSession,
    isRegistered: false,
    keepRunning: required,
    startTimeoutMs: startTimeoutS === undefined ? undefined : startTimeoutS * 1_000,
    timeoutMs: timeoutS * 1_000,
    logLevel: settings.logLevel,
    mayAsk,
    root: workspace,
    pins: pins.of(key),
    era: eras.of(key),
  };
}

/**
 * Returns the sign-in to a server of the configuration. Undefined for a program, and if a header identifies the host. Servers
 * that agents add have none: they must not get the sign-ins of this user. Fails with `config_invalid` if its variable is not
 * set.
 */
export function authorizationOf(settings: ServerSettings, env: Variables): McpAuthorization | undefined {
  const { name, url, oauth: { clientSecretEnv, privateKeyEnv, ...oauth } = {}, disabled = false } = settings;
  const headers = [...pairs(settings.headers), ...pairs(settings.headersEnv)];
  if (url === undefined || headers.some(([header]) => header.toLowerCase() === 'authorization')) return undefined;
  const secretOf = (variable: string | undefined): string | undefined => {
    const value = variable === undefined ? undefined : env[variable];
    if (variable === undefined || value !== undefined || disabled) return value;
    throw fail('config_invalid', `the MCP server ${name} needs the variable ${variable}, which is not set`);
  };
  const [clientSecret, privateKey] = [secretOf(clientSecretEnv), secretOf(privateKeyEnv)];
  const { clientCredentials = false, clientId, issuer } = oauth;
  // A person who signs in sees the issuer; here the configuration must name it.
  if (
    clientCredentials &&
    (clientId === undefined || issuer === undefined || (clientSecretEnv ?? privateKeyEnv) === undefined)
  ) {
    const needed = 'client_id, issuer, and client_secret_env or private_key_env';
    throw fail('config_invalid', `the MCP server ${name} has oauth.client_credentials, which needs ${needed}`);
  }
  const file = new SignInFile(join(handfastHome(env), 'mcp'), name, new URL(url).href);
  return new McpAuthorization({ name, url, file, settings: { ...oauth, clientSecret, privateKey } });
}

const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$/;

/** The agent that adds a server, and its surroundings. */
interface Registration {
  readonly principal: Principal;
  readonly workspace: string;
  /** Paths that the program must not reach; undefined for the program of an administrator. */
  readonly guard: PathGuard | undefined;
  readonly env: Variables;
  readonly newId: () => string;
}

/**
 * Returns a server that an agent adds. Fails with `mcp.not_allowed` unless a pattern covers it, with `mcp.invalid` for fields
 * that do not fit, and with `tool_denied` for a folder outside of the workspace or a variable that the agent may not set.
 * @param newId 8 letters or digits
 */
export async function registeredServer(
  config: ServerConfig,
  patterns: readonly string[],
  { principal, workspace, guard, env, newId }: Registration,
): Promise<ServerSpec> {
  const { transport = 'stdio', cmd = [], cwd = '', url = '', headers = {}, tool_allow_list: tools = [] } = config;
  const { resource_allow_list: resources = [] } = config;
  const id = config.server_id || newId();
  // A rule about the tools of one server, such as `files__*`, must not cover those of a server that an agent names `files__more`.
  if (!ID.test(id) || !isPlainServer(id)) {
    throw failure(
      'invalid',
      'server_id must be 1 to 32 letters, digits, "_" or "-", without "__" and without "_" at its end',
      { field: 'server_id' },
    );
  }
  const address = transport === 'stdio' ? programOf() : webOf();
  // A longer timer would fire at once.
  const timeoutMs = Math.min((config.timeout || TIMEOUT_S) * 1_000, MAX_DELAY_MS);
  return {
    id,
    name: config.name || id,
    address,
    cwd: await folderOf(workspace, cwd),
    tools: tools.length === 0 ? undefined : (each) => tools.includes(each),
    resources: resources.length === 0 ? undefined : (uri, name) => resources.includes(uri) || resources.includes(name),
    required: false,
    isDisabled: false,
    isShared: false,
    isRegistered: true,
    keepRunning: config.auto_reconnect ?? true,
    timeoutMs,
    startTimeoutMs: Math.min(START_MS, timeoutMs),
    // It can only ask the agent that added it.
    mayAsk: ['sampling', 'elicitation', 'roots'],
    root: workspace,
    pins: memoryPins(),
    era: memoryEra(),
  };

  function programOf(): McpAddress {
    const [command, ...args] = cmd;
    if (command === undefined) throw failure('invalid', 'a server on stdio needs a cmd', { field: 'cmd' });
    const rules = coveringCommand(patterns, cmd);
    const [first] = rules;
    if (first === undefined) throw notAllowed(cmd.join(' '), patterns);
    const sets = (name: string, value: string) => rules.some((rule) => rule.sets(name, value));
    const how = (name: string) =>
      `a pattern of register allows it: ${JSON.stringify([`${name}=*`, ...first.words].join(' '))}`;
    const onlyEnv = childEnvironment({ ...config.env }, env, variableRights(principal, sets, how));
    return { stdio: { command, args, onlyEnv, cover: guard && { guard, workspace } } };
  }

  function webOf(): McpAddress {
    if (transport !== 'sse' && transport !== 'http') {
      const message = `the transport ${JSON.stringify(transport.slice(0, 32))} is not supported; use stdio or sse`;
      throw failure('invalid', message, { field: 'transport' });
    }
    if (!URL.canParse(url)) throw failure('invalid', 'url is not an address', { field: 'url' });
    if (!coversUrl(patterns, new URL(url))) throw notAllowed(url, patterns);
    const wrong = wrongHeader(headers);
    if (wrong !== undefined) throw failure('invalid', wrong, { field: 'headers' });
    return { http: { url, headers } };
  }
}

/** Describes the first wrong header, only by its name: values are secrets. */
function wrongHeader(headers: Readonly<Record<string, string>>): string | undefined {
  for (const [header, value] of Object.entries(headers)) {
    const problem = headerProblem(value);
    if (problem !== undefined) return `the header ${shortened(header)} has ${problem}; correct its value`;
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(header)) return `${shortened(header)} is not the name of a header`;
  }
  return undefined;
}

function notAllowed(what: string, patterns: readonly string[]) {
  const shown = what.length > 120 ? `${what.slice(0, 120)}…` : what;
  const message = `this principal may not add the MCP server ${JSON.stringify(shown)}; its grant mcp.register names what it may`;
  return failure('not_allowed', message, { register: patterns });
}

/** Returns the folder, by its real path within the workspace. */
async function folderOf(workspace: string, cwd: string): Promise<string> {
  if (cwd === '') return workspace;
  const real = await realpath(resolve(workspace, cwd)).catch(() => undefined);
  if (real === undefined) throw failure('invalid', 'cwd is not a folder', { field: 'cwd' });
  if (!isInside(workspace, real)) throw outsideWorkspace(cwd);
  return real;
}

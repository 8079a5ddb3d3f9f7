/**
 * The configuration of an executor and of the MCP servers beside it, out of their settings and the environment of the process.
 *
 * For workers, and for subagents that an executor runs.
 */
import { pathToFileURL } from 'node:url';
import { headerProblem } from '../../base/secret-text.ts';
import type { WorkerConfig } from '../../config/fleet-config.ts';
import type { ExecutorSettings, McpServerSettings } from '../../config/worker.schema.ts';
import type { ExecutorConfig } from '../../fleet/executors/config.ts';
import type { TaskFunction } from '../../fleet/executors/function.ts';
import type { McpServerOptions } from '../../fleet/worker/mcp-servers.ts';
import { fail } from '../../wire/errors.ts';
import { secretReader } from './secret-reader.ts';

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Returns the configuration of an executor, out of its settings. Fails with `config_invalid` for a module that cannot be
 * loaded.
 */
export async function executorOf(settings: ExecutorSettings, env: Variables): Promise<ExecutorConfig> {
  const { kind, command, args, model, timeoutS, startTimeoutS, sandbox } = settings;
  const program = {
    ...(command !== undefined && { command }),
    args,
    env: Object.fromEntries(settings.env),
    ...(timeoutS !== undefined && { timeoutMs: timeoutS * 1000 }),
  };
  switch (kind) {
    case 'claude':
      return { kind, ...program, model, role: settings.role, mcpConfig: settings.mcpConfig };
    case 'codex':
      return { kind, ...program, model, ...(typeof sandbox === 'string' && { sandbox }) };
    case 'opencode':
      return { kind, ...program, model, agent: settings.agent };
    case 'agy':
      return { kind, ...program, sandbox: sandbox === true, conversationsFile: settings.conversationsFile };
    case 'command':
      return { kind, ...program, command: command ?? '', output: settings.output };
    case 'acp':
      return {
        kind,
        command: command ?? '',
        args,
        env: program.env,
        model,
        mode: settings.mode,
        permissions: settings.permissions,
        mcpServers: settings.mcpServers.map((server) => acpServerOf(server, env)),
        startTimeoutMs: startTimeoutS === undefined ? undefined : startTimeoutS * 1000,
      };
    case 'a2a':
      return { kind, url: settings.url ?? '', token: secretReader(settings, env) };
    case 'function':
      return { kind, ...(await functionOf(settings.module ?? '')) };
    case 'rehearsal':
      return { kind };
  }
}

/** Loads the `run` of a module. */
async function functionOf(file: string): Promise<{ readonly run: TaskFunction; readonly label: string }> {
  const loaded: { readonly run?: unknown } = await import(pathToFileURL(file).href).catch((error: unknown) => {
    throw fail('config_invalid', `cannot load the module of an executor: ${file}: ${String(error)}`, {}, error);
  });
  if (typeof loaded.run !== 'function') throw fail('config_invalid', `${file} must export a function named run`);
  return { run: loaded.run as TaskFunction, label: file };
}

/** Returns an MCP server of a worker. Fails with `not_configured` for a variable that is not set. */
export function mcpServerOf(server: WorkerConfig['mcpServers'][number], variables: Variables): McpServerOptions {
  const { name, command, args, url, disabled, passEnv } = server;
  const passed = passEnv.map((each) => [each, secretOf(each, name, variables)] as const);
  const env = Object.fromEntries([...passed, ...server.env]);
  return {
    name,
    disabled,
    ...(command !== undefined && { stdio: { command, args, env } }),
    ...(url !== undefined && { http: { url, headers: headersOf(server, variables) } }),
  };
}

/** Returns a server in the form of the Agent Client Protocol. */
function acpServerOf(server: ExecutorSettings['mcpServers'][number], variables: Variables): Record<string, unknown> {
  const { name, command, args, env, url, type } = server;
  if (url !== undefined) return { name, type, url, headers: headersOf(server, variables) };
  return { name, command, args, env: Object.fromEntries(env) };
}

/** Returns the headers for a server. A missing secret fails here, instead of sending the request without it. */
function headersOf(
  { name, headers, headersEnv }: Omit<McpServerSettings, 'disabled' | 'passEnv'>,
  variables: Variables,
): Record<string, string> {
  const secret = [...headersEnv].map(([header, variable]) => [header, secretOf(variable, name, variables)] as const);
  const all = [...headers, ...secret];
  for (const [header, value] of all) {
    const problem = headerProblem(value);
    if (problem === undefined) continue;
    throw fail('not_configured', `the header ${header} of the MCP server ${name} has ${problem}; correct its value`);
  }
  return Object.fromEntries(all);
}

function secretOf(variable: string, server: string, variables: Variables): string {
  const value = variables[variable];
  if (value) return value;
  throw fail('not_configured', `the environment variable ${variable}, for the MCP server ${server}, is not set`);
}

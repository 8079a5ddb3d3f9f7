/**
 * The `auth.tokens` part of the configuration: reads tokens from files, variables and the file itself, and stores only
 * their digests.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { readBounded } from '../base/bounded-file.ts';
import { secretProblem } from '../base/secret-text.ts';
import { fileProblem } from '../base/workspace/file-error.ts';
import { MAX_TOKEN_CHARACTERS, type PrincipalTokens, tokenDigest } from '../session/auth.ts';
import type { Grants } from '../session/principal.ts';
import { principalWith, ROLES } from '../session/roles.ts';
import type { HandfastSettings } from './handfast.schema.ts';
import { MIN_TOKEN_CHARACTERS, tokensOf } from './local-token.ts';
import type { OpenedConfig } from './open-config.ts';
import { meant } from './reader.ts';

/** Longest token file read. */
const MAX_TOKEN_FILE_BYTES = 64 * 1024;

/** The file, and the environment its settings may refer to. */
export interface Loading extends OpenedConfig<HandfastSettings> {
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A token and the setting that named it. */
interface FoundToken {
  readonly token: string;
  readonly at: string;
}

/** Grants by capability, and the setting that holds them. */
export interface CapabilityGrants {
  /** `auth.tokens[0].grants` */
  readonly path: string;
  readonly grants: Readonly<Record<string, unknown>>;
}

/** Returns the grants within capabilities of all tokens and roles, in the order of the file. */
export function capabilityGrants({ settings, item }: Pick<Loading, 'settings' | 'item'>): CapabilityGrants[] {
  const { tokens = [], roles = new Map() } = settings.auth ?? {};
  const all = [
    ...tokens.map((token, index) => [item('auth.tokens', index), token?.grants] as const),
    ...[...roles].map(([name, role]) => [`auth.roles.${name}`, role?.grants] as const),
  ];
  return all.flatMap(([path, grants]) => (grants === undefined ? [] : [{ path: `${path}.grants`, grants }]));
}

/** Returns the grants of all listed tokens; every problem is reported to `loading`. */
export async function readConfigTokens(loading: Loading): Promise<PrincipalTokens[]> {
  const { settings, item, problem } = loading;
  const tokens = settings.auth?.tokens ?? [];
  if (settings.auth?.required === false && tokens.length > 0) {
    problem('auth.required', 'expected true, because tokens are listed, got false');
  }
  const grants: PrincipalTokens[] = [];
  const names = new Set<string>();
  const owners = new Map<string, string>();
  const customRoles = rolesOf(loading);
  for (const [index, entry] of tokens.entries()) {
    if (entry === undefined) continue;
    const path = item('auth.tokens', index);
    const { tokenFile: _file, tokenEnv: _env, token: _token, name, roles = [], ...granted } = entry;
    if (names.has(name)) problem(`${path}.name`, 'expected a name of its own, got one that was used before');
    names.add(name);
    const digests: Uint8Array[] = [];
    for (const { token, at } of findTokens(entry, path, loading)) {
      if (token.length < MIN_TOKEN_CHARACTERS) {
        problem(at, `expected a token of at least ${MIN_TOKEN_CHARACTERS} characters, got ${token.length}`);
      }
      if (token.length > MAX_TOKEN_CHARACTERS) {
        problem(at, `expected a token of at most ${MAX_TOKEN_CHARACTERS} characters, got ${token.length}`);
      }
      const has = secretProblem(token);
      if (has !== undefined) problem(at, `expected a token without control characters, got one with ${has}`);
      const digest = tokenDigest(token);
      const key = Buffer.from(digest).toString('hex');
      const owner = owners.get(key);
      if (owner !== undefined) problem(at, `expected a token of its own, got one of ${JSON.stringify(owner)}`);
      owners.set(key, name);
      digests.push(digest);
    }
    const principal = principalWith(name, knownRoles(roles, path, loading), realFolders(granted), customRoles);
    grants.push(Object.freeze({ principal, digests: Object.freeze(digests) }));
  }
  return grants;
}

/** Returns the roles of the file; a role with a built-in name is a problem. */
function rolesOf({ settings, problem }: Loading): Readonly<Record<string, Grants>> {
  const roles = settings.auth?.roles ?? new Map();
  for (const name of roles.keys()) {
    if (Object.hasOwn(ROLES, name))
      problem(`auth.roles.${name}`, `expected a name of its own, got the built-in ${name}`);
  }
  return Object.fromEntries([...roles].map(([name, role]) => [name, realFolders(role ?? {})]));
}

/** Returns the known roles of a token; others are problems. */
function knownRoles(
  roles: readonly (string | undefined)[],
  path: string,
  { settings, item, problem }: Loading,
): string[] {
  const names = [...Object.keys(ROLES), ...(settings.auth?.roles?.keys() ?? [])];
  return roles.filter((role, index): role is string => {
    if (role === undefined) return false;
    if (names.includes(role)) return true;
    problem(
      item(`${path}.roles`, index),
      `expected a role (${names.join(', ')}), got ${JSON.stringify(role)}${meant(role, names)}`,
    );
    return false;
  });
}

/** Rights compare real paths: a folder that is not there yet stays as it is written. */
function realFolders(grants: Grants): Grants {
  if (grants.folders === undefined) return grants;
  return { ...grants, folders: grants.folders.map((folder) => (existsSync(folder) ? realpathSync(folder) : folder)) };
}

function findTokens(entry: HandfastSettings['auth']['tokens'][number], path: string, loading: Loading): FoundToken[] {
  const { env, item, problem, warn } = loading;
  const found: FoundToken[] = [];
  for (const [index, file] of (entry.tokenFile ?? []).entries()) {
    const at = item(`${path}.token_file`, index);
    if (file !== undefined) found.push(...tokensInFile(file, at, loading));
  }
  for (const [index, name] of (entry.tokenEnv ?? []).entries()) {
    if (name === undefined) continue;
    const at = item(`${path}.token_env`, index);
    const token = env[name]?.trim();
    if (token) found.push({ token, at });
    else problem(at, `expected the environment variable ${name} to be set, got nothing`);
  }
  for (const [index, token] of (entry.token ?? []).entries()) {
    if (token === undefined) continue;
    const at = item(`${path}.token`, index);
    found.push({ token, at });
    warn(at, 'expected token_file or token_env, got the token itself: every reader of this file can use it');
  }
  return found;
}

function tokensInFile(
  file: string,
  at: string,
  { problem, warn }: Pick<Loading, 'problem' | 'warn'>,
): readonly FoundToken[] {
  try {
    // Secrets that are mounted into containers are links. A pipe or a device would be read without end.
    const found = readBounded(realpathSync(file), MAX_TOKEN_FILE_BYTES);
    const stats = statSync(file);
    if (found.kind !== 'file') {
      const got = stats.isDirectory() ? 'a folder' : found.kind === 'absent' ? 'nothing' : `one that ${found.reason}`;
      problem(at, `expected a readable file, got ${got}: ${file}`);
      return [];
    }
    const { mode } = stats;
    // Secrets mounted into containers are often readable by all, so this is no error.
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      warn(at, `expected a file only its owner can read, got mode ${(mode & 0o777).toString(8)}`);
    }
    const tokens = tokensOf(found.bytes.toString('utf8'));
    if (tokens.length === 0) problem(at, 'expected a file with a token, one a line, got none');
    return tokens.map((token) => ({ token, at }));
  } catch (cause) {
    problem(at, `expected a readable file; ${fileProblem(cause)}: ${file}`);
    return [];
  }
}

/**
 * Loads `handfast.yaml`: one file in, one frozen and fully defaulted {@link HostConfig} out, or every problem at once
 * with file, line and column. Without a file nothing is read and `yaml` is never loaded.
 *
 * What single settings may be is in `config-schema.ts`; here is what depends on several of them, on other files, or on
 * the environment. Called by the command line before a host is made.
 */
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { TokenGrant } from './auth.ts';
import type { Position, Reading } from './config-fields.ts';
import { meant } from './config-fields.ts';
import { type Loading, readGrants } from './config-grants.ts';
import { builtinPlugins, configRoot, type FileSettings } from './config-schema.ts';
import { checkBind } from './listen-address.ts';
import { handfastHome } from './local-token.ts';

export { configSchema } from './config-schema.ts';

/** A configuration file is read whole; a real one has a few kilobytes. */
const MAX_FILE_BYTES = 1024 * 1024;

/** One thing that is wrong, or should be looked at, and where. Line and column count from 1. */
export interface ConfigProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** The setting: `limits.max_depth`, `auth.tokens[0].name`; `''` for the file as a whole. */
  readonly path: string;
  /** `expected …, got …`; never holds the value of a secret. */
  readonly message: string;
}

/** One plugin to load. */
export interface PluginConfig {
  /** The name of a built-in plugin, or the absolute path of a module. */
  readonly use: string;
  readonly builtin: boolean;
  readonly priority: number;
  readonly exclusive: boolean;
  /** For built-in plugins checked, with camelCase keys; for others as written. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** The configuration of a host: every value set, every path absolute, everything frozen. */
export interface HostConfig extends Omit<FileSettings, 'workspace' | 'auth' | 'journal' | 'audit' | 'plugins'> {
  /** The file it came from; undefined when there was none. */
  readonly file: string | undefined;
  /** The user's Handfast folder (see `handfastHome`). */
  readonly home: string;
  /** Real path of the folder file tools are confined to. */
  readonly workspace: string;
  readonly auth: {
    /** A token is needed to connect. With no grants, the local token (`ensureLocalToken`) is that token. */
    readonly required: boolean;
    readonly grants: readonly TokenGrant[];
  };
  readonly journal: FileSettings['journal'] & { readonly file: string };
  readonly audit: FileSettings['audit'] & { readonly file: string };
  readonly plugins: readonly PluginConfig[];
  /** Worth a line in the log: what is allowed but unwise. */
  readonly warnings: readonly ConfigProblem[];
}

/** What the configuration may depend on besides its file. */
export interface ConfigSurroundings {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** True: as if the file said `insecure_bind: true`. For whoever starts the host and says so there. */
  readonly insecureBind?: boolean;
}

/**
 * Loads the configuration from `file`, or the defaults when it is undefined. Relative paths in the file start at its
 * folder; the environment is read only where a `*_env` setting names a variable.
 *
 * Fails with `config_invalid`; `detail.problems` lists every {@link ConfigProblem}, the message says them all, one a
 * line, as `file:line:column: at <setting>: expected …, got …`.
 */
export async function loadConfig(file: string | undefined, surroundings: ConfigSurroundings = {}): Promise<HostConfig> {
  const { env = process.env, cwd = process.cwd(), insecureBind = false } = surroundings;
  const absolute = file === undefined ? undefined : resolve(cwd, file);
  const shown = absolute === undefined ? 'defaults' : shownPath(absolute, cwd);
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const reading: Reading = {
    problem: (at, path, message) => problems.push({ file: shown, line: at.line, column: at.column, path, message }),
    positions: new Map(),
    secret: false,
  };

  const node = absolute === undefined ? undefined : await readTree(absolute, reading);
  const unreadable = problems.length > 0 && node === undefined;
  const said = unreadable ? undefined : configRoot.read(node, '', reading);
  if (said === undefined) throw invalid(shown, problems);
  const settings = insecureBind ? { ...said, insecureBind } : said;

  const tell = (into: ConfigProblem[]) => (path: string, message: string) => {
    const { line, column } = placeOf(path, reading.positions);
    into.push({ file: shown, line, column, path, message });
  };
  const loading: Loading = {
    settings,
    folder: absolute === undefined ? cwd : dirname(absolute),
    env,
    item: (path, index) => (reading.positions.has(`${path}[${index}]`) ? `${path}[${index}]` : path),
    problem: tell(problems),
    warn: tell(warnings),
  };
  const home = handfastHome(env);
  const grants = await readGrants(loading);
  const config: HostConfig = {
    ...settings,
    file: absolute,
    home,
    workspace: workspaceOf(loading),
    listen: listenOf(loading),
    auth: Object.freeze({ required: settings.auth?.required, grants: Object.freeze(grants) }),
    ...storesOf(loading, home),
    plugins: Object.freeze(pluginsOf(loading)),
    warnings: Object.freeze(warnings),
  };
  if (problems.length > 0) throw invalid(shown, problems);
  return Object.freeze(config);
}

/**
 * Reads and parses the file; undefined when it is empty or unusable, which is then among the problems. Read
 * synchronously, as all files here: nothing else runs yet, and a host without a file must start in no time.
 */
async function readTree(file: string, reading: Reading) {
  const start: Position = { line: 1, column: 1 };
  try {
    const { size } = statSync(file);
    if (size > MAX_FILE_BYTES) {
      reading.problem(start, '', `expected at most ${MAX_FILE_BYTES} bytes, got ${size}`);
      return undefined;
    }
    const bytes = readFileSync(file);
    const source = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const { parseLines } = await import('./config-lines.ts');
    return await parseLines(source, reading);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'something that is not UTF-8' : code;
    if (why === undefined) throw cause;
    reading.problem(start, '', `expected a readable file, got ${why}`);
    return undefined;
  }
}

function workspaceOf({ settings, folder, problem }: Loading): string {
  const wanted = resolve(folder, settings.workspace ?? '.');
  const found = whatIs(wanted);
  if (found === 'a folder') return realpathSync(wanted);
  problem('workspace', `expected a folder, got ${found}: ${wanted}`);
  return wanted;
}

/** Applies the rule for addresses other machines can reach, and makes the paths of Unix sockets absolute. */
function listenOf({ settings, folder, item, problem }: Loading): readonly string[] {
  const hasToken = (settings.auth?.tokens ?? []).length > 0;
  const addresses = (settings.listen ?? []).map((address, index) => {
    if (address === undefined) return address;
    try {
      const parsed = checkBind(address, { hasToken, insecure: settings.insecureBind });
      return parsed.kind === 'unix' ? `unix://${resolve(folder, parsed.path)}` : address;
    } catch (refusal) {
      problem(item('listen', index), (refusal as HandfastError).message);
      return address;
    }
  });
  return Object.freeze(addresses);
}

/** Where journal and audit are kept. */
function storesOf({ settings, folder, problem }: Loading, home: string): Pick<HostConfig, 'journal' | 'audit'> {
  const { journal, audit } = settings;
  // Hosts of one user must not write into each other's files, so each has a folder by its name.
  const own = join(home, 'hosts', settings.hostId ?? '');
  if (journal?.file !== undefined && journal.kind === 'memory') {
    problem('journal.file', 'expected kind: sqlite beside a file, got kind: memory');
  }
  return {
    journal: Object.freeze({ ...journal, file: resolve(folder, journal?.file ?? join(own, 'journal.db')) }),
    audit: Object.freeze({ ...audit, file: resolve(folder, audit?.file ?? join(own, 'audit.jsonl')) }),
  };
}

function pluginsOf({ settings, folder, item, problem }: Loading): PluginConfig[] {
  const plugins: PluginConfig[] = [];
  const builtins = new Set<string>();
  for (const [index, plugin] of (settings.plugins ?? []).entries()) {
    if (plugin?.use === undefined) continue;
    const path = item('plugins', index);
    const { use, priority, exclusive, options } = plugin;
    const builtin = Object.hasOwn(builtinPlugins, use);
    if (builtin) {
      // Once as a name and once as a map is twice all the same.
      if (builtins.has(use)) problem(path, `expected each built-in plugin once, got ${JSON.stringify(use)} again`);
      builtins.add(use);
      plugins.push(Object.freeze({ use, builtin, priority, exclusive, options }));
      continue;
    }
    const names = Object.keys(builtinPlugins);
    if (!/^\.{0,2}\//.test(use) && !isAbsolute(use)) {
      const expected = `expected a built-in plugin (${names.join(', ')}) or a path that starts with ./, ../ or /`;
      problem(path, `${expected}, got ${JSON.stringify(use)}${meant(use, names)}`);
      continue;
    }
    const module = resolve(folder, use);
    const found = whatIs(module);
    if (found !== 'a file') problem(path, `expected the path of a module, got ${found}: ${module}`);
    plugins.push(Object.freeze({ use: module, builtin, priority, exclusive, options }));
  }
  return plugins;
}

/** What a path leads to, or the system's word for why that cannot be said. */
function whatIs(path: string): string {
  try {
    const found = statSync(path);
    return found.isDirectory() ? 'a folder' : found.isFile() ? 'a file' : 'a device';
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code ?? 'nothing usable';
  }
}

/** The position of a setting, or of the nearest thing around it that is in the file. */
function placeOf(path: string, positions: ReadonlyMap<string, Position>): Position {
  for (let at = path; at !== ''; at = at.replace(/(\.|^)[^.[]+$|\[\d+\]$/, '')) {
    const position = positions.get(at);
    if (position !== undefined) return position;
  }
  return positions.get('') ?? { line: 1, column: 1 };
}

/** A path inside the working directory is shown relative to it. */
function shownPath(file: string, cwd: string): string {
  const near = relative(cwd, file);
  return near.startsWith('..') || isAbsolute(near) ? file : near;
}

/** The one error of a file that cannot be used. Problems come in the order of the file. */
function invalid(file: string, problems: ConfigProblem[]): HandfastError {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const lines = sorted.map(formatProblem);
  const heading = lines.length === 1 ? [] : [`${file} has ${lines.length} problems:`];
  return fail('config_invalid', [...heading, ...lines].join('\n'), { problems: sorted });
}

/** A problem as editors and terminals understand it: `file:line:column: at <setting>: expected …, got …`. */
export function formatProblem({ file, line, column, path, message }: ConfigProblem): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `at ${path}: `}${message}`;
}

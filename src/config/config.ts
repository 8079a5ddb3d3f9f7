/**
 * Loads `handfast.yaml`: one file in, one frozen and fully defaulted {@link HostConfig} out, or every problem at once
 * with file, line and column. Without a file nothing is read and `yaml` is never loaded.
 *
 * What single settings may be is in `config-schema.ts`; here is what depends on several of them, on other files, or on
 * the environment. Called by the command line before a host is made.
 */
import { realpathSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import type { PrincipalTokens } from '../session/auth.ts';
import type { HandfastError } from '../wire/errors.ts';
import { meant } from './config-fields.ts';
import { type ConfigProblem, openConfig, whatIs } from './config-reading.ts';
import { builtinPlugins, configRoot, type FileSettings } from './config-schema.ts';
import { type Loading, readConfigTokens } from './config-tokens.ts';
import { checkBind } from './listen-address.ts';
import { handfastHome } from './local-token.ts';

export { type ConfigProblem, formatProblem } from './config-reading.ts';
export { configSchema } from './config-schema.ts';

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
    readonly grants: readonly PrincipalTokens[];
  };
  readonly journal: FileSettings['journal'] & { readonly file: string };
  readonly audit: FileSettings['audit'] & { readonly file: string };
  readonly plugins: readonly PluginConfig[];
  /** Worth a line in the log: what is allowed but unwise. */
  readonly warnings: readonly ConfigProblem[];
}

/** What the configuration may depend on besides its file. */
export interface ConfigDeps {
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
export async function loadConfig(file: string | undefined, surroundings: ConfigDeps = {}): Promise<HostConfig> {
  const { env = process.env, cwd = process.cwd(), insecureBind = false } = surroundings;
  const opened = await openConfig(file, configRoot, cwd);
  const { said, warnings } = opened;
  const settings = insecureBind ? { ...said, insecureBind } : said;
  const loading: Loading = { ...opened, settings, env };
  const home = handfastHome(env);
  const grants = await readConfigTokens(loading);
  const config: HostConfig = {
    ...settings,
    file: opened.file,
    home,
    workspace: workspaceOf(loading),
    listen: listenOf(loading),
    auth: Object.freeze({ required: settings.auth?.required, grants: Object.freeze(grants) }),
    ...storesOf(loading, home),
    plugins: Object.freeze(pluginsOf(loading)),
    warnings: Object.freeze(warnings),
  };
  opened.finish();
  return Object.freeze(config);
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

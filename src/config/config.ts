/**
 * Loads `handfast.yaml`: one file in, one frozen and fully defaulted {@link HostConfig} out, or every problem at once
 * with file, line and column. Without a file nothing is read and `yaml` is never loaded.
 *
 * The settings themselves are described in `handfast.schema.ts`; this file has the rules that depend on several of
 * them, on other files, or on the environment.
 */

import { realpathSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { handfastHome } from '../base/handfast-home.ts';
import type { JsonSchema } from '../base/json-schema.ts';
import { moduleOfPackage } from '../base/package-module.ts';
import type { PrincipalTokens } from '../session/auth.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { type CapabilityGrants, capabilityGrants, type Loading, readConfigTokens } from './config-tokens.ts';
import { handfast } from './handfast.generated.ts';
import type { HandfastSettings } from './handfast.schema.ts';
import { jsonSchema } from './json-schema.ts';
import { checkBind } from './listen-address.ts';
import { type ConfigProblem, type OpenedConfig, openConfig, whatIs } from './open-config.ts';
import { meant } from './reader.ts';
import { camel, checkSettingSchema, type SettingSchema } from './setting.ts';

export type { CapabilityGrants } from './config-tokens.ts';
export { type ConfigProblem, formatProblem } from './open-config.ts';
export type { SettingSchema } from './setting.ts';

/** Schemas of further sections of the file, by key: the settings of capability packages. */
export type ConfigSections = Readonly<Record<string, SettingSchema>>;

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
export interface HostConfig extends Omit<HandfastSettings, 'workspace' | 'auth' | 'journal' | 'audit' | 'plugins'> {
  /** The file of the configuration; undefined without one. */
  readonly file: string | undefined;
  /** The user's Handfast folder (see `handfastHome`). */
  readonly home: string;
  /** Real path of the folder file tools are confined to. */
  readonly workspace: string;
  readonly auth: {
    /** A token is required to connect. With no grants, the local token (`ensureLocalToken`) is that token. */
    readonly required: boolean;
    readonly grants: readonly PrincipalTokens[];
    /** The grants within capabilities as tokens and roles have them, which plugins check once they are known. */
    readonly capabilityGrants: readonly CapabilityGrants[];
    /** Absolute paths of all files with tokens. */
    readonly tokenFiles: readonly string[];
  };
  readonly journal: HandfastSettings['journal'] & { readonly file: string };
  readonly audit: HandfastSettings['audit'] & { readonly file: string };
  readonly plugins: readonly PluginConfig[];
  /** The sections of `ConfigDeps.sections`, as their schemas describe them, with camelCase keys. */
  readonly sections: Readonly<Record<string, unknown>>;
  /** Settings that are allowed but unwise; each is worth a line in the log. */
  readonly warnings: readonly ConfigProblem[];
  /** Set for a file that was found in a folder and that the user trusted; undefined for one that was named. */
  readonly trust?: ConfigTrust;
}

/** The user's trust in a configuration that came with a folder. It can be withdrawn while the configuration is in use. */
export interface ConfigTrust {
  /** Confirms trust before any part of the configuration is started. Fails with `untrusted_folder`. */
  confirm(): Promise<void>;
  /** Calls back once, when the trust is withdrawn. Returns the function that stops watching. */
  onWithdrawn(listener: (error: HandfastError) => void): () => void;
}

/** Inputs of the configuration besides its file. */
export interface ConfigDeps {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** True: as if the file contained `insecure_bind: true`, for a command line option. */
  readonly insecureBind?: boolean;
  /** Sections that this program's capability packages add to the file. Their problems are reported like all others. */
  readonly sections?: ConfigSections;
  /** The content of the file, where it was read already: it is not read again. */
  readonly source?: Uint8Array;
  readonly trust?: ConfigTrust;
}

/**
 * Returns the schema of `handfast.yaml` with further sections.
 *
 * Fails with `config_invalid` for a section that has the key of another, is no group, or uses keywords the reader does
 * not know.
 */
export function composeConfig(sections: ConfigSections = {}): SettingSchema {
  const { properties = {}, required = [] } = handfast;
  for (const [key, section] of Object.entries(sections)) {
    const at = `the section ${JSON.stringify(key)}`;
    if (!/^[a-z][a-z0-9_]*$/.test(key)) throw fail('config_invalid', `${at} needs a snake_case key`);
    if (Object.hasOwn(properties, key)) throw fail('config_invalid', `${at} is part of handfast.yaml already`);
    if (section.properties === undefined) throw fail('config_invalid', `${at} needs "properties"`);
    checkSettingSchema(section, key);
  }
  return {
    ...handfast,
    properties: { ...properties, ...sections },
    required: [...required, ...Object.keys(sections)],
  };
}

/** Returns the JSON Schema of `handfast.yaml`, for editors: a new object at each call. */
export const configSchema = (sections?: ConfigSections): JsonSchema =>
  jsonSchema('handfast.yaml', composeConfig(sections));

/** Functions that read the options of a plugin by a schema that its module brings. */
const optionReaders = new WeakMap<PluginConfig, (schema: SettingSchema) => unknown>();

/**
 * Reads the options of a plugin by the schema of its module: checked, with defaults and camelCase keys. The module is
 * loaded after the file, so this is a second reading of the same lines.
 *
 * Fails with `config_invalid`, with file, line and column as {@link loadConfig} does.
 */
export function readPluginOptions(plugin: PluginConfig, schema: SettingSchema): Readonly<Record<string, unknown>> {
  const read = optionReaders.get(plugin);
  if (read === undefined) throw fail('config_invalid', `the plugin ${plugin.use} comes from no configuration file`);
  return read(schema) as Readonly<Record<string, unknown>>;
}

/**
 * Functions that give problems of a loaded configuration their positions; by its warnings, which its changed copies
 * share.
 */
const places = new WeakMap<HostConfig['warnings'], OpenedConfig<HandfastSettings>['refusal']>();

/**
 * Returns the error for problems that a part of the program finds in its settings once the file is loaded:
 * `config_invalid`, as {@link loadConfig} fails.
 *
 * @param found the settings by path (`control.approvals.rules[0].when`), with a message each
 */
export function configRefusal(
  config: HostConfig,
  found: readonly Pick<ConfigProblem, 'path' | 'message'>[],
): HandfastError {
  const placed = places.get(config.warnings)?.(found);
  return placed ?? fail('config_invalid', found.map(({ path, message }) => `at ${path}: ${message}`).join('\n'));
}

/**
 * Loads the configuration from `file`, or the defaults when it is undefined. Relative paths in the file start at its
 * folder; the environment is read only where a `*_env` setting names a variable.
 *
 * Fails with `config_invalid`; `detail.problems` lists every {@link ConfigProblem}, the message lists them all, one a
 * line, as `file:line:column: at <setting>: expected …, got …`.
 */
export async function loadConfig(file: string | undefined, deps: ConfigDeps = {}): Promise<HostConfig> {
  const { env = process.env, cwd = process.cwd(), insecureBind = false, sections = {}, source, trust } = deps;
  const opened = await openConfig<HandfastSettings>(file, composeConfig(sections), cwd, source);
  const { warnings } = opened;
  const settings = insecureBind ? { ...opened.settings, insecureBind } : opened.settings;
  const loading: Loading = { ...opened, settings, env };
  const home = handfastHome(env);
  const grants = await readConfigTokens(loading);
  const { own, added } = splitSections(settings, Object.keys(sections));
  const config: HostConfig = {
    ...own,
    file: opened.file,
    home,
    workspace: workspaceOf(loading),
    listen: listenOf(loading),
    auth: Object.freeze({
      required: settings.auth?.required,
      grants: Object.freeze(grants),
      capabilityGrants: Object.freeze(capabilityGrants(loading)),
      tokenFiles: Object.freeze((settings.auth?.tokens ?? []).flatMap((token) => token?.tokenFile ?? [])),
    }),
    ...storesOf(loading, home),
    plugins: Object.freeze(pluginsOf(loading)),
    sections: Object.freeze(added),
    warnings: Object.freeze(warnings),
    ...(trust && { trust }),
  };
  opened.finish();
  places.set(warnings, opened.refusal);
  return Object.freeze(config);
}

/** Returns the settings of this package, and those of the sections that were added. */
function splitSections(settings: HandfastSettings, keys: readonly string[]) {
  const names = new Map(keys.map((key) => [camel(key), key]));
  const entries = Object.entries(settings);
  return {
    own: Object.fromEntries(entries.filter(([name]) => !names.has(name))) as unknown as HandfastSettings,
    added: Object.fromEntries(
      entries.filter(([name]) => names.has(name)).map(([name, value]) => [names.get(name), value]),
    ),
  };
}

function workspaceOf({ settings, folder, problem }: Loading): string {
  const wanted = settings.workspace ?? folder;
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

/** Returns the files of journal and audit. */
function storesOf({ settings, problem }: Loading, home: string): Pick<HostConfig, 'journal' | 'audit'> {
  const { journal, audit } = settings;
  // Hosts of one user must not write into each other's files, so each has a folder by its name.
  const own = join(home, 'hosts', settings.hostId ?? '');
  if (journal?.durable === 'replies' && journal.kind === 'memory') {
    problem('journal.durable', 'expected kind: sqlite beside durable: replies, got kind: memory');
  }
  if (journal?.file !== undefined && journal.kind === 'memory') {
    problem('journal.file', 'expected kind: sqlite beside a file, got kind: memory');
  }
  return {
    journal: Object.freeze({ ...journal, file: journal?.file ?? join(own, 'journal.db') }),
    audit: Object.freeze({ ...audit, file: audit?.file ?? join(own, 'audit.jsonl') }),
  };
}

function pluginsOf({ settings, folder, item, problem, readPart }: Loading): PluginConfig[] {
  const plugins: PluginConfig[] = [];
  const names = Object.keys(handfast.properties?.plugins?.items?.variants?.of ?? {});
  const used = new Set<string>();
  for (const [index, plugin] of (settings.plugins ?? []).entries()) {
    if (plugin?.use === undefined) continue;
    const path = item('plugins', index);
    const { use } = plugin;
    const builtin = names.includes(use);
    if (builtin) {
      // The list itself refuses equal items; a name and a map with that name are not equal.
      if (used.has(use)) problem(path, `expected each built-in plugin once, got ${JSON.stringify(use)} again`);
      used.add(use);
      plugins.push(Object.freeze({ ...plugin, builtin }));
      continue;
    }
    const isPath = /^\.{0,2}\//.test(use) || isAbsolute(use);
    const module = isPath ? resolve(folder, use) : moduleOfPackage(folder, use);
    if (module === undefined) {
      const expected = `expected a built-in plugin (${names.join(', ')}), an installed package, or a path that starts with ./, ../ or /`;
      problem(path, `${expected}, got ${JSON.stringify(use)}${meant(use, names)}`);
      continue;
    }
    const found = whatIs(module);
    if (found !== 'a file') problem(path, `expected the path of a module, got ${found}: ${module}`);
    const config = Object.freeze({ ...plugin, use: module, builtin });
    optionReaders.set(config, (schema) => readPart(`${path}.options`, schema));
    plugins.push(config);
  }
  return plugins;
}

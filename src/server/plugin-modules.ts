/**
 * Loads capabilities and plugins from modules and packages of the user. A module exports `capability` (or a list,
 * `capabilities`), made with `defineCapability`; or `plugin` or `plugins`, each a plugin or a function that makes one from
 * its options, which `optionsSchema` describes. TypeScript is fine outside `node_modules`: Node strips the types.
 *
 * This file is loaded only when the configuration names a module. Plugins run in this process and are trusted code.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import { builtinCapability } from '../capabilities/index.ts';
import { type PluginConfig, readPluginOptions, type SettingSchema } from '../config/config.ts';
import type { Plugin } from '../host/plugin.ts';
import type { Capability, CapabilityOptions } from '../packages/capability.ts';
import { capabilityNames, capabilityOf, isAdditionalCapability } from '../protocol/a2e.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { pluginsOf, ranked } from './builtin-plugins.ts';

/** Form of the export `plugin` of a module; `plugins` is a list of the same form. */
type Exported<T> = T | ((options: Readonly<Record<string, unknown>>) => T | Promise<T>);

/** The name under which a plugin imports this package. */
const OWN_NAME = /^handfast(?:\/|$)/;

/**
 * Makes `import … from 'handfast'` mean the package this file belongs to, for every module of the process: a plugin needs no
 * other copy beside it, and a second copy would bring a second class of errors and results that this host does not know.
 * Returns the function that ends it.
 */
export function shareOwnPackage(): () => void {
  const hooks = registerHooks({
    resolve: (specifier, context, nextResolve) =>
      nextResolve(specifier, OWN_NAME.test(specifier) ? { ...context, parentURL: import.meta.url } : context),
  });
  return () => hooks.deregister();
}

/**
 * Loads the plugins of one entry of `plugins:`, with the priority and exclusiveness the configuration gives them: of a built-in
 * capability, of a module or package that exports `capability`, or of a module that exports `plugin` or `plugins`.
 *
 * Fails with `config_invalid` when the module cannot be loaded, exports none of these, or throws while it makes one, with
 * `untrusted_folder` when it imports files that the trust in its folder did not cover, and with the problems of its options by
 * line and column.
 */
export async function loadPlugins(config: PluginConfig): Promise<Plugin[]> {
  const { use } = config;
  const module = config.builtin ? undefined : await load(use);
  const declared = capabilitiesOf(config, module);
  // Names that the protocol does not have are declared, so that a misspelt one is noticed.
  const names = declared.map(({ name }) => name);
  let made: unknown[];
  try {
    made =
      declared.length > 0
        ? (await Promise.all(declared.map((each) => pluginsOf(each, capabilityOptions(each, config))))).flat()
        : await exportedPlugins(module as PluginModule, config);
  } catch (error) {
    throw isOwn(error) ? error : broken(use, `cannot be made: ${reasonOf(error)}`, error);
  }
  return made.map((plugin) => {
    const problem = problemOf(plugin, names);
    if (problem !== undefined) throw broken(use, problem);
    return ranked(plugin as Plugin, config);
  });
}

/**
 * Loads the capabilities that one entry of `plugins:` declares; none for a module of plain plugins. Fails as {@link
 * loadPlugins}.
 */
export async function loadCapabilities(config: PluginConfig): Promise<Capability[]> {
  return capabilitiesOf(config, config.builtin ? undefined : await load(config.use));
}

/** Returns the options of a capability as its schema reads them; without a schema, options are refused. */
export function capabilityOptions({ name, options }: Capability, config: PluginConfig): CapabilityOptions {
  if (config.builtin) return config.options;
  if (options !== undefined) return readPluginOptions(config, options);
  if (Object.keys(config.options).length === 0) return {};
  throw broken(config.use, `declares the capability ${JSON.stringify(name)}, which has no options`);
}

/** Exports of a module. */
interface PluginModule {
  readonly plugin?: Exported<unknown>;
  readonly plugins?: Exported<unknown>;
  readonly capability?: unknown;
  readonly capabilities?: unknown;
  readonly optionsSchema?: SettingSchema;
}

async function load(use: string): Promise<PluginModule> {
  try {
    return await import(pathToFileURL(use).href);
  } catch (error) {
    if (error instanceof HandfastError && error.code === 'untrusted_folder') throw error;
    throw broken(use, `cannot be loaded: ${reasonOf(error)}`, error);
  }
}

function capabilitiesOf({ use }: PluginConfig, module: PluginModule | undefined): Capability[] {
  const exported = module === undefined ? builtinCapability(use) : (module.capabilities ?? module.capability);
  const declared = exported === undefined ? [] : [exported].flat();
  for (const capability of declared) {
    const { name } = isObject(capability) ? capability : {};
    if (typeof name === 'string' && (capabilityOf(name) !== undefined || isAdditionalCapability(name))) continue;
    throw broken(use, 'exports a "capability" without a usable name: declare it with defineCapability');
  }
  return declared as Capability[];
}

async function exportedPlugins(module: PluginModule, config: PluginConfig): Promise<unknown[]> {
  const { use } = config;
  const { optionsSchema } = module;
  const options = optionsSchema === undefined ? config.options : readPluginOptions(config, optionsSchema);
  const exported = module.plugins ?? module.plugin;
  if (exported === undefined) throw broken(use, 'exports neither "plugin" nor "plugins", nor a "capability"');
  if (typeof exported !== 'function' && Object.keys(config.options).length > 0) {
    throw broken(use, 'accepts no options; export a function of its options instead');
  }
  return [typeof exported === 'function' ? await exported(options) : exported].flat();
}

const isOwn = (error: unknown): boolean => error instanceof HandfastError && error.code === 'config_invalid';

/** Returns the reason why a value is not a plugin; undefined when it is one. */
function problemOf(plugin: unknown, declared: readonly string[]): string | undefined {
  if (!isObject(plugin)) return 'exports something that is not a plugin: use definePlugin or toolsPlugin';
  const { name, type, methods } = plugin;
  if (typeof name !== 'string' || name === '') return 'exports a plugin without a name';
  const types = [...capabilityNames, ...declared];
  if (!types.includes(type as string)) {
    return `exports the plugin ${JSON.stringify(name)} with type ${JSON.stringify(type)}, which is none of ${types.join(', ')}`;
  }
  return Array.isArray(methods) ? undefined : `exports the plugin ${JSON.stringify(name)} without methods`;
}

function broken(use: string, why: string, cause?: unknown) {
  return fail('config_invalid', `the plugin module ${use} ${why}`, { path: use }, cause);
}

/**
 * Returns the error of a module and its position; Node reports the position of a syntax error only when it runs the file
 * itself.
 */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof SyntaxError) return `${error.message} (node --check shows the position)`;
  const position = /\bfile:\/\/[^\s)]+:\d+:\d+/.exec(error.stack ?? '')?.[0];
  return position === undefined ? error.message : `${error.message} (${position})`;
}

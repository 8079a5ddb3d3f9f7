/**
 * Loads plugins from modules of the user: a file that exports `plugin` or `plugins`, each a plugin or a function that
 * makes one from its options, and may export `optionsSchema`, by which those options are read. TypeScript is fine: Node
 * strips the types.
 *
 * Loaded by `assemble.ts` only when the configuration names a module. Plugins run in this process and are trusted code.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type PluginConfig, readPluginOptions, type SettingSchema } from '../config/config.ts';
import type { Plugin } from '../host/plugin.ts';
import { capabilityNames } from '../protocol/a2e.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** What a module may export under `plugin`; under `plugins` the same, but of a list. */
type Exported<T> = T | ((options: Readonly<Record<string, unknown>>) => T | Promise<T>);

/** The name under which a plugin imports this package. */
const OWN_NAME = /^handfast(?:\/|$)/;

/**
 * From now on `import … from 'handfast'` means the package this file belongs to, for every module of the process: a
 * plugin needs no copy of its own beside it, and a second copy would bring a second class of errors and results that
 * this host does not know. Returns the function that ends it.
 */
export function shareOwnPackage(): () => void {
  const hooks = registerHooks({
    resolve: (specifier, context, nextResolve) =>
      nextResolve(specifier, OWN_NAME.test(specifier) ? { ...context, parentURL: import.meta.url } : context),
  });
  return () => hooks.deregister();
}

/**
 * The plugins of one module, with the priority and exclusiveness the configuration gives them.
 *
 * Fails with `config_invalid` when the module cannot be loaded, exports no plugin, or throws while it makes one, and with
 * the problems of its options by line and column.
 */
export async function loadPluginModule(config: PluginConfig): Promise<Plugin[]> {
  const { use } = config;
  let module: { plugin?: Exported<unknown>; plugins?: Exported<unknown>; optionsSchema?: SettingSchema };
  try {
    module = await import(pathToFileURL(use).href);
  } catch (error) {
    throw broken(use, `cannot be loaded: ${reasonOf(error)}`, error);
  }
  const { optionsSchema } = module;
  const options = optionsSchema === undefined ? config.options : readPluginOptions(config, optionsSchema);
  const exported = module.plugins ?? module.plugin;
  if (exported === undefined) throw broken(use, 'exports neither "plugin" nor "plugins"');
  if (typeof exported !== 'function' && Object.keys(config.options).length > 0) {
    throw broken(use, 'takes no options: only an exported function of its options does');
  }
  let made: unknown;
  try {
    made = typeof exported === 'function' ? await exported(options) : exported;
  } catch (error) {
    throw broken(use, `cannot be made: ${reasonOf(error)}`, error);
  }
  const plugins = Array.isArray(made) ? made : [made];
  return plugins.map((plugin) => {
    const problem = problemOf(plugin);
    if (problem !== undefined) throw broken(use, problem);
    return ranked(plugin as Plugin, config);
  });
}

/** Why something is no plugin; undefined when it is one. */
function problemOf(plugin: unknown): string | undefined {
  if (!isObject(plugin)) return 'exports something that is no plugin: use definePlugin or toolsPlugin';
  const { name, type, methods } = plugin;
  if (typeof name !== 'string' || name === '') return 'exports a plugin without a name';
  if (!(capabilityNames as readonly unknown[]).includes(type)) {
    return `exports the plugin ${JSON.stringify(name)} with type ${JSON.stringify(type)}, which is none of ${capabilityNames.join(', ')}`;
  }
  return Array.isArray(methods) ? undefined : `exports the plugin ${JSON.stringify(name)} without methods`;
}

/** The plugin as the configuration ranks it. Its functions keep their own `this`. */
function ranked(plugin: Plugin, { priority, exclusive }: PluginConfig): Plugin {
  if (priority === 0 && !exclusive) return plugin;
  return {
    name: plugin.name,
    type: plugin.type,
    metadata: plugin.metadata,
    methods: plugin.methods,
    priority: priority === 0 ? plugin.priority : priority,
    exclusive: exclusive || plugin.exclusive,
    start: plugin.start?.bind(plugin),
    stop: plugin.stop?.bind(plugin),
    opened: plugin.opened?.bind(plugin),
    closed: plugin.closed?.bind(plugin),
    snapshot: plugin.snapshot?.bind(plugin),
    restore: plugin.restore?.bind(plugin),
  };
}

function broken(use: string, why: string, cause?: unknown) {
  return fail('config_invalid', `the plugin module ${use} ${why}`, { path: use }, cause);
}

/** What a module threw and where; Node tells the place of a syntax error only to who runs the file. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof SyntaxError) return `${error.message} (node --check says where)`;
  const place = /\bfile:\/\/[^\s)]+:\d+:\d+/.exec(error.stack ?? '')?.[0];
  return place === undefined ? error.message : `${error.message} (${place})`;
}

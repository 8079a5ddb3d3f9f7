/**
 * The plugins of capabilities that come with Handfast, as the configuration wants them. Apart from `plugin-modules.ts`, which
 * hosts without plugins of the user never load.
 */
import { builtinCapability } from '../capabilities/index.ts';
import type { PluginConfig } from '../config/config.ts';
import type { Plugin } from '../host/plugin.ts';

/** The plugins of a built-in capability. Its options were checked when the configuration was read. */
export async function builtinPlugins(config: PluginConfig): Promise<Plugin[]> {
  const made = await builtinCapability(config.use)?.plugin?.(config.options);
  return made === undefined ? [] : [made].flat().map((plugin) => ranked(plugin, config));
}

/** The plugin as the configuration ranks it. Its functions are called with their own `this`. */
export function ranked(plugin: Plugin, { priority, exclusive }: PluginConfig): Plugin {
  if (priority === 0 && !exclusive) return plugin;
  const ranks: Partial<Plugin> = {
    priority: priority === 0 ? plugin.priority : priority,
    exclusive: exclusive || plugin.exclusive,
  };
  return new Proxy(plugin, {
    get(target, key) {
      if (Object.hasOwn(ranks, key)) return ranks[key as keyof Plugin];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

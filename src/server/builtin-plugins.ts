/**
 * The plugins of capabilities that come with Handfast, as the configuration wants them. Apart from `plugin-modules.ts`, which
 * hosts without plugins of the user never load.
 */

import type { Log } from '../base/log.ts';
import { onceSucceeded } from '../base/once-succeeded.ts';
import { builtinCapability } from '../capabilities/index.ts';
import type { SubagentBackend } from '../capabilities/multi_agent/backend.ts';
import type { PluginConfig } from '../config/config.ts';
import type { FleetKindSettings } from '../config/fleet-kind.schema.ts';
import type { ExecutorSettings } from '../config/worker.schema.ts';
import type { Plugin } from '../host/plugin.ts';
import type { Capability, CapabilityOptions } from '../packages/capability.ts';
import { fail } from '../wire/errors.ts';
import type { SessionKindSettings, SubagentLinks } from './control/subagent-links.ts';
import type { FleetTasks } from './fleet/fleet-tasks.ts';

/** Parts of a server that subagents run on. */
export interface SubagentParts {
  /** Absent: the server runs no fleet. */
  readonly fleet?: FleetTasks | undefined;
  /** Absent: it serves no sessions. */
  readonly links?: SubagentLinks | undefined;
}

/** Settings of a kind of subagents that no program runs. */
interface LaterKind {
  readonly executor?: ExecutorSettings;
  readonly fleet?: FleetKindSettings;
  readonly session?: SessionKindSettings;
}

/** Makes the backend of subagents that are no programs. Loaded with the first of them. */
const backendOf =
  (parts: SubagentParts) =>
  async ({ executor, fleet, session }: LaterKind, log: Log): Promise<SubagentBackend> => {
    if (executor !== undefined) return (await import('./subagents.ts')).executorBackend(executor, log);
    if (session !== undefined) {
      const { links } = parts;
      if (links !== undefined) return (await import('./control/session-backend.ts')).sessionBackend(session, links);
      throw fail('not_configured', 'this host serves no sessions, so no subagent can be one');
    }
    if (parts.fleet !== undefined && fleet !== undefined) {
      return (await import('./fleet-subagents.ts')).fleetBackend(parts.fleet, fleet);
    }
    throw fail(
      'not_configured',
      'this server runs no fleet; start it with one: handfast fleet up fleet.yaml --config handfast.yaml',
    );
  };

/** Makes the plugins of a built-in capability. Its options were checked when the configuration was read. */
export async function builtinPlugins(config: PluginConfig, parts: SubagentParts = {}): Promise<Plugin[]> {
  const capability = builtinCapability(config.use);
  if (capability === undefined) return [];
  const options = config.use === 'multi_agent' ? { ...config.options, backendOf: backendOf(parts) } : config.options;
  return (await pluginsOf(capability, options)).map((plugin) => ranked(plugin, config));
}

/** Makes the plugins of a capability; of one that offers it before its code is loaded, a plugin that loads it. */
export async function pluginsOf(capability: Capability, options: CapabilityOptions): Promise<Plugin[]> {
  const { name, plugin, offer } = capability;
  if (plugin === undefined) return [];
  const make = async () => [await plugin(options)].flat();
  const offered = offer?.(options);
  if (offered === undefined) return make();
  const { tools, ...facts } = offered;
  const count = tools === undefined ? 1 : 2;
  const making = onceSucceeded(make);
  const load = (at: number) => async (): Promise<Plugin> => {
    const made = await making();
    if (made.length === count) return made[at] as Plugin;
    throw fail(
      'config_invalid',
      `the capability ${name} must have ${count === 1 ? 'one plugin' : 'two plugins'}, because it is offered before it is loaded`,
    );
  };
  const own: Plugin = { ...facts, name, type: name, methods: [], load: load(0) };
  if (tools === undefined) return [own];
  return [own, { ...tools, name: `${name}-tools`, type: 'tools', methods: [], loadedWith: name, load: load(1) }];
}

/** Returns the plugin as the configuration ranks it. Its functions are called with their own `this`. */
export function ranked(plugin: Plugin, { priority, exclusive }: Pick<PluginConfig, 'priority' | 'exclusive'>): Plugin {
  if (priority === 0 && !exclusive) return plugin;
  const ranks: Partial<Plugin> = {
    priority: priority === 0 ? plugin.priority : priority,
    exclusive: exclusive || plugin.exclusive,
  };
  return new Proxy(plugin, {
    get(target, key) {
      if (Object.hasOwn(ranks, key)) return ranks[key as keyof Plugin];
      const { load } = target;
      if (key === 'load' && load !== undefined) return async () => ranked(await load(), { priority, exclusive });
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

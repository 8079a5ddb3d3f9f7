/**
 * The plugins of one host: started in order, stopped in the opposite order, and found by capability or request type.
 * One that is loaded later (`Plugin.load`) is loaded after the handshake of the first session that was granted its
 * capability.
 */
import { nextTurn } from '../base/next-turn.ts';
import type { Route } from '../connection/running-request.ts';
import type { Principal, SessionView } from '../session/principal.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { checkPlugin } from './check-plugin.ts';
import type { Plugin } from './plugin.ts';
import { PluginRuntime, type RuntimeDeps } from './plugin-runtime.ts';
import { byRank, routes, serving } from './routes.ts';

export interface PluginsDeps extends Omit<RuntimeDeps, 'declaresGrant'> {
  /** Called when a plugin that was loaded later serves from now on. */
  loaded(runtime: PluginRuntime): void;
}

export class Plugins {
  readonly #deps: PluginsDeps;
  #runtimes: PluginRuntime[] = [];
  #served: ReadonlyMap<string, readonly PluginRuntime[]> = new Map();
  #routes: ReadonlyMap<string, Route> = new Map();
  /** Plugins that are not loaded, with the promise of the load that runs. */
  readonly #deferred = new Map<PluginRuntime, Promise<void> | undefined>();
  #stopped = false;
  /** Resolves in the turn of the event loop in which the load that was asked last begins. */
  #turn: Promise<void> = Promise.resolve();

  constructor(deps: PluginsDeps) {
    this.#deps = deps;
  }

  /** The plugins that serve each capability, the leading one first. */
  get served(): ReadonlyMap<string, readonly PluginRuntime[]> {
    return this.#served;
  }

  route(type: string): Route | undefined {
    return this.#routes.get(type);
  }

  /** Yields the plugins of some capabilities. */
  *of(granted: ReadonlySet<string>): Iterable<PluginRuntime> {
    for (const capability of granted) yield* this.#served.get(capability) ?? [];
  }

  /** False where the grant of a principal within a capability does not fit a plugin of it. */
  readonly grantFits = (principal: Principal, capability: string): boolean => {
    try {
      for (const runtime of this.#served.get(capability) ?? []) runtime.grantOf(principal);
      return true;
    } catch (error) {
      this.#deps.log.error('a capability was withdrawn, because its grant is not valid', { capability, error });
      return false;
    }
  };

  /**
   * Tells plugins that a session has ended for them: as a whole, or because their capabilities were withdrawn from it.
   * The last one is notified first.
   */
  notifyClosed(session: SessionView, runtimes: Iterable<PluginRuntime>): void {
    for (const { plugin } of [...runtimes].toReversed()) {
      try {
        plugin.closed?.(session);
      } catch (error) {
        this.#deps.log.error('a plugin failed at the end of a session', { plugin: plugin.name, error });
      }
    }
  }

  /**
   * Starts plugins. One that fails is logged and left out, except for a mistake of its author: that rejects with
   * `config_invalid`, and then no plugin runs.
   * @param states the snapshots of the plugins, by name
   */
  async start(given: readonly Plugin[], states: Readonly<Record<string, unknown>>): Promise<void> {
    for (const plugin of given) checkPlugin(plugin);
    const plugins = await joined(given);
    checkNames(plugins);
    const { log } = this.#deps;
    const declaresGrant = (capability: string): boolean =>
      plugins.some(({ type, grant }) => type === capability && grant !== undefined);
    const runtimeDeps: RuntimeDeps = { ...this.#deps, declaresGrant };
    for (const plugin of plugins) {
      const runtime = new PluginRuntime(plugin, runtimeDeps);
      try {
        await runtime.prepare();
        if (Object.hasOwn(states, plugin.name)) await plugin.restore?.(states[plugin.name]);
        await plugin.start?.(runtime);
        this.#runtimes.push(runtime);
        if (runtime.deferred) this.#deferred.set(runtime, undefined);
      } catch (error) {
        // An author's mistake is not left to a log: without the plugin the host lacks its purpose.
        if (error instanceof HandfastError && error.code === 'config_invalid') {
          await this.#stopAll();
          throw error;
        }
        // One broken plugin must not disable the others; its capability is then not granted.
        log.error('a plugin did not start and is left out', { plugin: plugin.name, error });
      }
    }
    this.#serve();
  }

  #serve(): void {
    this.#served = serving(this.#runtimes);
    this.#routes = routes(this.#served, this.#deps.log);
  }

  /** Loads the plugins that serve some capabilities; undefined if all are loaded. Never rejects: see {@link failure}. */
  load(granted: ReadonlySet<string>): Promise<void> | undefined {
    if (this.#deferred.size === 0) return undefined;
    const loading: Promise<void>[] = [];
    for (const [runtime, running] of this.#deferred) {
      if (!granted.has(loadedWith(runtime)) || !this.#served.get(runtime.plugin.type)?.includes(runtime)) continue;
      // The plugin of the capability it is loaded with has started before it.
      const one =
        running ?? this.#load(runtime, runtime.plugin.loadedWith === undefined ? undefined : Promise.all(loading));
      this.#deferred.set(runtime, one);
      loading.push(one);
    }
    return loading.length === 0 ? undefined : Promise.all(loading).then(() => {});
  }

  async #load(runtime: PluginRuntime, before?: Promise<unknown>): Promise<void> {
    try {
      // The reply to the handshake leaves first. Modules are read and compiled at once: those of each plugin in a
      // separate turn.
      this.#turn = this.#turn.then(() => new Promise<void>(nextTurn));
      await this.#turn;
      await before;
      const { loadedWith } = runtime.plugin;
      if (loadedWith !== undefined && this.failure(loadedWith) !== undefined) return;
      await runtime.load();
      this.#deferred.delete(runtime);
      if (this.#stopped) return;
      this.#serve();
      this.#deps.loaded(runtime);
    } catch (error) {
      this.#deps.log.error('a plugin could not be loaded', { plugin: runtime.plugin.name, error });
    }
  }

  /** Handles lost writes in the state of the plugins: each capability that stores in it changed. */
  stateLost(): void {
    const storing = this.#runtimes.filter(({ plugin }) => plugin.store !== undefined);
    for (const capability of new Set(storing.map(({ plugin }) => plugin.type))) {
      this.#deps.changed(capability, undefined);
    }
  }

  /** Returns the reason why the requests of a capability have no handler: a plugin of it could not be loaded. */
  failure(capability: string): HandfastError | undefined {
    const missing = this.#served
      .get(capability)
      ?.find((runtime) => this.#deferred.has(runtime) && loadedWith(runtime) === capability);
    if (missing === undefined) return undefined;
    return fail(
      'runtime_error',
      `the plugin ${missing.plugin.name} could not be loaded; the log of the host has the reason`,
    );
  }

  /** Stops the plugins that have started, the last one first. Resolves with their states. */
  async stop(): Promise<Record<string, unknown>> {
    this.#stopped = true;
    await Promise.all(this.#deferred.values());
    const states: Record<string, unknown> = {};
    await this.#stopAll(states);
    return states;
  }

  /** Stops all plugins. @param states gets the states of the plugins */
  async #stopAll(states?: Record<string, unknown>): Promise<void> {
    for (const runtime of this.#runtimes.toReversed()) {
      const { plugin } = runtime;
      try {
        if (states !== undefined && plugin.snapshot !== undefined) states[plugin.name] = await plugin.snapshot();
        await plugin.stop?.();
        await runtime.close();
      } catch (failure) {
        this.#deps.log.error('a plugin did not stop cleanly', { plugin: plugin.name, error: failure });
      }
    }
    this.#runtimes = [];
  }
}

/** Returns the capability whose sessions load a plugin. */
const loadedWith = ({ plugin }: PluginRuntime): string => plugin.loadedWith ?? plugin.type;

/**
 * Returns the plugins, those of one capability that can be joined ({@link Plugin.join}) as one, in place of the first
 * of them.
 */
async function joined(given: readonly Plugin[]): Promise<readonly Plugin[]> {
  const plugins = [...given];
  for (const group of Map.groupBy(given, ({ type }) => type).values()) {
    const isSeveral = group.length > 1 && !group.some(({ exclusive }) => exclusive);
    if (!isSeveral || !group.some(({ join }) => join !== undefined)) continue;
    // A plugin that is loaded later shows at its load whether it can be joined.
    const loaded = await Promise.all(
      group.map(async (plugin) => [plugin, plugin.load === undefined ? plugin : await plugin.load()] as const),
    );
    const able = loaded.filter(([, { join }]) => join !== undefined);
    if (able.length < 2) continue;
    const ranked = able.map(([, plugin]) => plugin).sort(byRank);
    const one = ranked[0]!.join!(ranked);
    checkPlugin(one);
    plugins[plugins.indexOf(able[0]![0])] = one;
    for (const [plugin] of able.slice(1)) plugins.splice(plugins.indexOf(plugin), 1);
  }
  return plugins;
}

function checkNames(plugins: readonly Plugin[]): void {
  const names = new Set<string>();
  for (const plugin of plugins) {
    if (names.has(plugin.name))
      throw fail('config_invalid', `two plugins are named ${JSON.stringify(plugin.name)}; rename one`);
    names.add(plugin.name);
  }
}

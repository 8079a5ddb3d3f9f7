/**
 * The host's state for one of its plugins while it runs: its store, its data folder, the checked grants of principals.
 * The plugin gets it as `PluginContext` at `start`; the context of each request reads it.
 *
 * A host has one per plugin.
 */

import { JsonSchemas, type SchemaChecker } from '../base/json-schema.ts';
import type { Log } from '../base/log.ts';
import { onceSucceeded } from '../base/once-succeeded.ts';
import { sleep } from '../base/sleep.ts';
import { type DatabaseLoss, toldLosses } from '../base/sqlite/losses.ts';
import type { Principal, SessionView } from '../session/principal.ts';
import { grantOf } from '../session/rights.ts';
import type { StorageShares } from '../session/storage-shares.ts';
import type { Link } from '../transport/link.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { checkPlugin } from './check-plugin.ts';
import type { CallContext } from './context.ts';
import { closedGrant, NO_MEMBERS } from './grant-schema.ts';
import type { DelegatedSession, Handler, Plugin, PluginContext } from './plugin.ts';
import type { SharedState } from './store/shared-state.ts';
import type { PluginStore, StateDatabase } from './store/store.ts';

/** Members that the plugins of one host share. */
export interface RuntimeDeps {
  readonly hostId: string;
  readonly workspace: string;
  readonly log: Log;
  /** Folder below which each plugin has a folder; undefined: each has one in the temporary folder, removed at the end. */
  readonly dataDir: string | undefined;
  /** Accepts the link of a session that acts for a principal. */
  accept(link: Link, session: DelegatedSession): void;
  /** Returns true when a plugin of the capability has a schema for grants within it. */
  declaresGrant(capability: string): boolean;
  /**
   * Notifies agents that a capability changed: the agent of one session or of all, if the change concerns their
   * principal.
   */
  changed(capability: string, only: SessionView | undefined, concerns?: (principal: Principal) => boolean): void;
  /** Returns true for a session whose agent is notified of changes. */
  hearsChanges(session: SessionView): boolean;
  /** Bound on the bytes that each principal may store; undefined: its own limits alone hold. */
  readonly storage: StorageShares | undefined;
  /** Opens the state of all plugins, once. */
  openState(): Promise<StateDatabase>;
  /** Returns the loss of the opened state. */
  stateLoss(): DatabaseLoss | undefined;
  /** Route of requests while another host has the state; undefined: they fail with `journal_locked`. */
  readonly sharedState: SharedState | undefined;
}

/** Bound on attempts to reach another host that has the state and does not accept links, and the milliseconds between. */
const MAX_ATTEMPTS = 20;
const RETRY_MS = 50;

export class PluginRuntime implements PluginContext {
  #plugin: Plugin;
  readonly #deps: RuntimeDeps;
  #store: PluginStore | undefined;
  #opening: Promise<void> | undefined;
  #checkGrant: SchemaChecker | undefined;
  readonly #grants = new WeakMap<Principal, { readonly grant: unknown }>();
  #dataFolder: (() => Promise<string>) | undefined;
  /** Losses of files in which this plugin stores beside the state, by file. */
  readonly #losses = new Map<string, { readonly loss: DatabaseLoss; concerns(principal: Principal): boolean }>();
  /** Sessions of plain A2E whose agent was informed of the losses. */
  readonly #informed = new WeakSet<SessionView>();

  constructor(plugin: Plugin, deps: RuntimeDeps) {
    this.#plugin = plugin;
    this.#deps = deps;
  }

  /** The plugin; a plugin that is loaded later is replaced by the loaded one. */
  get plugin(): Plugin {
    return this.#plugin;
  }

  /** True for a plugin that is not loaded. */
  get deferred(): boolean {
    return this.#plugin.load !== undefined;
  }

  get hostId(): string {
    return this.#deps.hostId;
  }

  get workspace(): string {
    return this.#deps.workspace;
  }

  get log(): Log {
    return this.#deps.log;
  }

  get store(): PluginStore {
    if (this.#store !== undefined) return this.#store;
    const { name, store } = this.plugin;
    const why =
      store === undefined ? 'declares no store: add store: {} to it' : 'has no store before its first request';
    throw fail('usage', `the plugin ${JSON.stringify(name)} ${why}`);
  }

  /** Opens the store, unless the plugin wants it at its first request. Called before `start`. */
  async prepare(): Promise<void> {
    const { store } = this.plugin;
    if (store !== undefined && store.opened !== 'first-request') await this.storeReady();
  }

  /** Loads and starts a plugin that is loaded later, once. Rejects as its `load` and `start` do, and with `config_invalid`. */
  readonly load: () => Promise<void> = onceSucceeded(() => this.#load());

  async #load(): Promise<void> {
    const { load, name, type } = this.#plugin;
    if (load === undefined) return;
    const loaded = await load();
    checkPlugin(loaded);
    if (loaded.name !== name || loaded.type !== type || loaded.load !== undefined) {
      throw fail(
        'config_invalid',
        `the plugin ${JSON.stringify(name)} of ${type} loaded ${JSON.stringify(loaded.name)}`,
      );
    }
    await loaded.start?.(this);
    this.#plugin = loaded;
  }

  /**
   * Returns the promise that a request must await before its handler runs; undefined once the plugin has everything it
   * declares.
   */
  storeReady(): Promise<void> | undefined {
    const { name, store } = this.plugin;
    if (store === undefined || this.#store !== undefined) return undefined;
    this.#opening ??= this.#deps.openState().then(
      (state) => {
        this.#store = state.plugin(name, store);
      },
      (error) => {
        this.#opening = undefined;
        throw error;
      },
    );
    return this.#opening;
  }

  /**
   * Runs a handler once the store is open; where another host has it, the request is made there. Losses of the store
   * reach the agent no later than the reply.
   */
  serve(handler: Handler, request: object, context: CallContext): object | Promise<object> {
    const served = this.#serve(handler, request, context);
    if (this.plugin.store === undefined && this.#dataFolder === undefined) return served;
    const { depth, session } = context;
    if (depth > 0 || this.#informed.has(session) || this.#deps.hearsChanges(session)) return served;
    if (!(served instanceof Promise)) return this.#withLosses(served, session);
    return served.then((reply) => this.#withLosses(reply, session));
  }

  /** Returns the reply to an agent that is not notified of changes; once in its session it contains the losses. */
  #withLosses(reply: object, session: SessionView): object {
    const losses = toldLosses(this.lossesFor(session.principal));
    if (losses.length === 0) return reply;
    this.#informed.add(session);
    return { ...reply, losses };
  }

  #serve(handler: Handler, request: object, context: CallContext): object | Promise<object> {
    const needed = this.plugin.needsStore?.(request as Record<string, unknown>, context.session) !== false;
    const opening = needed ? this.storeReady() : undefined;
    if (opening === undefined) return handler.run(request as never, context);
    return opening.then(
      () => handler.run(request as never, context),
      (error: unknown) => this.#serveElsewhere(asError(error), handler, request, context),
    );
  }

  async #serveElsewhere(
    locked: HandfastError,
    handler: Handler,
    request: object,
    context: CallContext,
  ): Promise<object> {
    const { sharedState } = this.#deps;
    if (locked.code !== 'journal_locked' || sharedState === undefined) throw locked;
    for (let attempt = 1; ; attempt++) {
      try {
        return await sharedState.forward(handler.method, request, context);
      } catch (thrown) {
        const { code, retryable, message } = asError(thrown);
        const gone = code === 'unreachable' || (code === 'connection_lost' && retryable);
        // The other host responds, and will refuse again.
        if (code === 'journal_locked') {
          const { detail } = locked;
          throw new HandfastError(code, `${locked.message}: ${message}`, { detail, retryable: false, cause: thrown });
        }
        if (gone && attempt === MAX_ATTEMPTS) throw locked;
        if (!gone) throw thrown;
      }
      // The other host has just opened the state, or has just ended.
      await sleep(RETRY_MS, context.signal);
      context.signal.throwIfAborted();
      const failure = await this.storeReady()?.then(
        () => undefined,
        (error: unknown) => asError(error),
      );
      if (failure === undefined) return handler.run(request as never, context);
      if (failure.code !== 'journal_locked') throw failure;
    }
  }

  /**
   * Returns the configured grant of a principal for this capability, with defaults filled in; undefined without a
   * grant. Throws `config_invalid` for a grant that does not match the plugin's schema, and for members that no plugin
   * of the capability has.
   */
  grantOf(principal: Principal): unknown {
    let known = this.#grants.get(principal);
    if (known === undefined) {
      const said = grantOf(principal, this.plugin.type);
      known = { grant: said === undefined ? undefined : this.#checked(principal, said) };
      this.#grants.set(principal, known);
    }
    return known.grant;
  }

  #checked(principal: Principal, grant: unknown): unknown {
    const { type, grant: own } = this.plugin;
    if (own === undefined && this.#deps.declaresGrant(type)) return grant;
    const schema = own === undefined ? NO_MEMBERS : closedGrant(own);
    try {
      this.#checkGrant ??= new JsonSchemas().compileNow(schema, `grant of ${type}`);
      return this.#checkGrant(grant);
    } catch (thrown) {
      const { message, detail } = asError(thrown);
      throw fail('config_invalid', `the grants of ${JSON.stringify(principal.name)} are not valid: ${message}`, detail);
    }
  }

  lost(loss: DatabaseLoss, concerns: (principal: Principal) => boolean): void {
    const known = this.#losses.get(loss.file);
    if (known?.loss.found_at === loss.found_at) return;
    this.#losses.set(loss.file, { loss, concerns });
    this.#deps.changed(this.plugin.type, undefined, concerns);
  }

  /** Returns the losses that concern a principal, acknowledged or not. */
  lossesFor(principal: Principal): readonly DatabaseLoss[] {
    const state = this.plugin.store === undefined ? undefined : this.#deps.stateLoss();
    if (state === undefined && this.#losses.size === 0) return [];
    const own = [...this.#losses.values()].filter(({ concerns }) => concerns(principal));
    return [...(state === undefined ? [] : [state]), ...own.map(({ loss }) => loss)];
  }

  changed(session?: SessionView): void {
    this.#deps.changed(this.plugin.type, session);
  }

  accept(link: Link, session: DelegatedSession): void {
    this.#deps.accept(link, session);
  }

  stored(principal: Pick<Principal, 'name' | 'limits'>, bytes?: number): number {
    const { storage } = this.#deps;
    if (storage === undefined) return principal.limits?.storedBytes ?? Number.POSITIVE_INFINITY;
    const item = `files/${this.plugin.name}/${principal.name}`;
    if (bytes !== undefined) storage.set(item, principal.name, bytes);
    return storage.most(item, principal);
  }

  dataFolder(): Promise<string> {
    this.#dataFolder ??= onceSucceeded(async () => {
      const { makeDataFolder } = await import('./data-folder.ts');
      return makeDataFolder(this.#deps.dataDir, this.plugin.name);
    });
    return this.#dataFolder();
  }

  /** Removes the temporary folder. Called after `stop`. */
  async close(): Promise<void> {
    if (this.#dataFolder === undefined || this.#deps.dataDir !== undefined) return;
    const { removeDataFolder } = await import('./data-folder.ts');
    await removeDataFolder(await this.#dataFolder());
  }
}

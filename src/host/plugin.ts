/**
 * Plugins: code that provides a capability. Plugin authors write `definePlugin`; `host/routes.ts` decides which plugin
 * a request goes to.
 *
 * Plugins run in the host's process and are trusted code. One that throws or hangs harms only its own calls.
 * @see docs/protocol/a2e.md#negotiation
 */

import type { JsonSchema } from '../base/json-schema.ts';
import type { Log } from '../base/log.ts';
import type { DatabaseLoss } from '../base/sqlite/losses.ts';
import { valueKind } from '../base/value-kind.ts';
import type { CapabilityName } from '../protocol/a2e.ts';
import type { Body, Method } from '../protocol/method.ts';
import type { Link } from '../transport/link.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { checkPlugin } from './check-plugin.ts';
import type { CallContext, Principal, SessionView } from './context.ts';
import type { PluginStore, StoreUse } from './store/store.ts';

/** Serves one request type. Made by {@link handle}. */
export interface Handler {
  readonly method: Method;
  readonly run: (request: never, context: CallContext) => object | Promise<object>;
  /** Returns undefined when this plugin serves the request; else the error to reply with if no other plugin serves it. */
  readonly declines?: (request: never, session: SessionView) => HandfastError | undefined;
  /**
   * Returns undefined while the session may make the request; called for running requests when the rights of the
   * principal have changed.
   */
  readonly refuses?: (request: never, session: SessionView) => HandfastError | undefined;
  /**
   * Returns true when repeating this request has no more effect than running it once; called after a host restarted
   * while the request ran. Default: as the method declares. While it runs, `context.idempotent` has the same value.
   */
  readonly isIdempotent?: (request: never, session: SessionView) => boolean;
}

/**
 * Binds a method to its code: `handle(toolCall, (request, context) => …)`.
 * @param declines for calls by name: undefined when the name is this plugin's, else the error if no plugin has it
 * @param refuses for rights within a capability: the error that a running request ends with, once its session may no longer
 * make it
 */
export function handle<Request extends object, Reply extends object>(
  method: Method<Request, Reply>,
  run: (request: Body<Request>, context: CallContext) => Body<Reply> | Promise<Body<Reply>>,
  declines?: (request: Body<Request>, session: SessionView) => HandfastError | undefined,
  refuses?: (request: Body<Request>, session: SessionView) => HandfastError | undefined,
): Handler {
  if (typeof (method as Partial<Method> | undefined)?.request !== 'string' || typeof run !== 'function') {
    throw fail(
      'usage',
      `expected handle(method, run) with a method made by method() and a function, got ${valueKind(method)} and ${valueKind(run)}`,
    );
  }
  return { method: method as unknown as Method, run, declines, refuses };
}

/** The context that a plugin gets when it starts. */
export interface PluginContext {
  readonly hostId: string;
  /** Absolute real path of the workspace. */
  readonly workspace: string;
  readonly log: Log;
  /** The durable state of this plugin. Throws `usage` for a plugin that declares no `store`. */
  readonly store: PluginStore;
  /**
   * Returns a folder of this plugin that only this user can enter, created at the first call. It stays over restarts,
   * unless the host was created without a `dataDir`.
   */
  dataFolder(): Promise<string>;
  /**
   * Counts the bytes that this plugin stores for a principal outside of `store` in its share of all stored data
   * (`limits.stored_bytes`): `bytes` replaces the earlier count. Returns the bytes that this plugin may store outside
   * of `store` for the principal. @see docs/capabilities.md#state
   */
  stored(principal: Pick<Principal, 'name' | 'limits'>, bytes?: number): number;
  /**
   * Says that the facts or the lists of this capability changed, for one session or for all: agents that agreed to
   * handfast/capabilities get `capabilities/changed/push`.
   */
  changed(session?: SessionView): void;
  /**
   * Says that a database of this plugin lost writes, which may be those of the principals it concerns. Until an operator has
   * acknowledged it, the metadata of the capability has it in `losses`.
   * @internal
   */
  lost(loss: DatabaseLoss, concerns: (principal: Principal) => boolean): void;
  /**
   * Accepts a link whose agent acts for a principal. It can neither resume another session nor read journals. Throws
   * `unauthorized` when its owner does not have the rights that the session would get.
   */
  accept(link: Link, session: DelegatedSession): void;
}

/** A session that acts for a principal with separate rights: that of a subagent. */
export interface DelegatedSession {
  /** The id of its agent, not the one in its handshake. */
  readonly agentId: string;
  /** The principal it belongs to. */
  readonly owner: Principal;
  /**
   * Returns the rights of the session for the present rights of its owner: a new value with the owner's name and
   * `subagent`. Undefined: the session ends.
   */
  rights(owner: Principal): Principal | undefined;
  /** Asked of each request before it runs: the error that refuses it, or undefined. */
  admit?(type: string): HandfastError | undefined;
  /** The handshake opened it. */
  opened?(session: SessionView): void;
  /** A message of it could not be read: `too_large`, `parse_error`. It may have been the result that is waited for. */
  unread?(error: HandfastError): void;
}

export type PluginFacts = Readonly<Record<string, unknown>>;

/** Members of a plugin that handshakes use. */
export type PluginOffer = Pick<Plugin, 'metadata' | 'grant' | 'store' | 'priority'> & {
  /** It includes a plugin of tools for its sessions, `<name>-tools`, of this rank. */
  readonly tools?: { readonly priority: number };
};

/** The recipient of facts: a principal in its handshake, or a session whose capability changed. */
export interface FactsFor {
  readonly principal: Principal;
  readonly session?: SessionView;
}

export interface Plugin {
  /** Unique in its host; shown in the capability metadata. */
  readonly name: string;
  /**
   * The capability it provides: one of the protocol, or another name (`a-z`, digits, `_`, `.`, `-`), which agents get
   * that request it by the extension handfast/capabilities.
   */
  readonly type: CapabilityName | (string & {});
  /** Higher is asked first; equal priorities in load order. Default 0. */
  readonly priority?: number;
  /** Serves its capability alone, also when others are loaded for it. */
  readonly exclusive?: boolean;
  /**
   * More facts for the capability metadata, e.g. `{ sandbox: 'bubblewrap' }`; as a function, the facts for a principal
   * or in a session at this moment, and undefined if the plugin cannot serve it. Announce changes with
   * `PluginContext.changed`.
   */
  readonly metadata?: PluginFacts | ((who: FactsFor) => PluginFacts | undefined);
  readonly methods: readonly Handler[];
  /** Asks for a durable store, `context.store`. */
  readonly store?: StoreUse;
  /**
   * Returns false for a request whose handler does not use the store: it is served also while another host of this user
   * has the store open. Default: all requests need it.
   */
  readonly needsStore?: (request: Readonly<Record<string, unknown>>, session: SessionView) => boolean;
  /**
   * The shape of a principal's grant within this capability (`auth.tokens[].grants.<capability>`), as JSON Schema. The
   * plugin gets the checked grant as `context.grant`; a configuration with an invalid grant is refused, and a principal
   * with an invalid grant cannot connect. Objects have only the members that they name, unless the schema has
   * `additionalProperties`. Without a schema in any plugin of the capability, grants have no members.
   */
  readonly grant?: JsonSchema;
  /**
   * Loads the plugin that serves; this one then only has the members for handshakes: its name, type and rank,
   * `metadata`, `grant` and `store`. Called once, after the handshake of the first session that was granted the
   * capability. Requests wait for it; when it fails, they get `runtime_error`.
   */
  readonly load?: () => Promise<Plugin>;
  /**
   * Another capability; this plugin is only for sessions with it, such as tools that each of these sessions enables.
   * With `load` it is loaded together with that capability, and it leads the metadata of its own capability only if no
   * other plugin does.
   */
  readonly loadedWith?: CapabilityName | (string & {});
  /**
   * Joins several plugins of this capability that have `join`, itself among them, the leading one first, into one. For
   * capabilities whose requests contain nothing to distinguish the plugins, so that `handle`'s `declines` does not
   * help. Called before they start; not if one is exclusive, because that one serves alone. Throws `config_invalid` for
   * plugins that cannot be joined.
   */
  join?(plugins: readonly Plugin[]): Plugin;
  /** Called before the host accepts links. A plugin that throws here is left out; the host starts without it. */
  start?(context: PluginContext): void | Promise<void>;
  /** Called when the host has stopped serving. */
  stop?(): void | Promise<void>;
  /**
   * A session that was granted this capability opened. Throwing refuses the handshake with `server_error`; the plugins
   * notified before it get `closed`, in reverse order; the one that threw does not.
   */
  opened?(session: SessionView): void;
  /** Called once for a session that ended, or from which the capability was withdrawn. */
  closed?(session: SessionView): void;
  /** State to store over a restart, as plain JSON; asked for when the host stops. */
  snapshot?(): unknown | Promise<unknown>;
  /** Receives the state that `snapshot` returned, before `start`. */
  restore?(state: unknown): void | Promise<void>;
}

/**
 * Declares a plugin. Throws `config_invalid` for one that no host could start, with the mistake and the correction.
 *
 * @example
 * export const plugin = definePlugin({
 *   name: 'greeter',
 *   type: 'tools',
 *   methods: [handle(toolCall, ({ tool_name }) => …)],
 * });
 */
export function definePlugin(plugin: Plugin): Plugin {
  checkPlugin(plugin);
  return plugin;
}

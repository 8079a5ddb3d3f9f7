/**
 * The parts of the wire side of the control edge: the handlers of all other parts, the source of events, and the end of the
 * server.
 */
import type { Log } from '../../base/log.ts';
import type { Snapshot } from '../../protocol/session-types.ts';
import type { EventSource, ServerEvents } from '../contract/events.ts';
import type { Handled, RpcCall } from '../contract/handlers.ts';

/** Functions of its server that a handler may call. */
export interface ServerAccess {
  /** Calls a method as the caller of `call` would. Fails as it does, or with `unknown_type`. */
  callMethod(name: string, params: Readonly<Record<string, unknown>>, call: RpcCall): Promise<unknown>;
  /** Ends the server behind the answer of `call`. Resolves when every client was sent the reason. */
  stopBehind(call: RpcCall, reason: string): Promise<void>;
}

export interface ControlDeps {
  /** Every method that `rpc/` does not answer itself. Two of one name are a mistake of the caller. */
  readonly handlers: readonly Handled[];
  /** Handlers that need the server itself; called once, when it is made. */
  readonly serverHandlers?: (server: ServerAccess) => readonly Handled[];
  readonly events: EventSource;
  readonly serverEvents: ServerEvents;
  /** Returns the payload of `state.changed` when the server stops. */
  snapshot(): Snapshot | Promise<Snapshot>;
  /**
   * Ends all turns and other running work; their last events are emitted before it resolves. Called once. Bounded by
   * `RpcLimits.shutdownTimeoutMs`; work that takes longer is abandoned.
   */
  shutdown(reason: string): Promise<void>;
  readonly log: Log;
}

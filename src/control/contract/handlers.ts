/**
 * Handlers of the methods of session RPC: each stands beside its method value. Each part of the control edge offers its
 * handlers as a list; `control-server.ts` joins them and `rpc/` calls them.
 */
import type { RpcMethod } from '../../protocol/rpc-reader.ts';
import type { Principal } from '../../session/principal.ts';
import type { JsonText } from '../../wire/json.ts';
import { type Right, rightOf } from './method-rights.ts';

/** The caller: one connection, with the facts of its handshake. */
export interface Caller {
  readonly connectionId: string;
  readonly principal: Principal;
  /** From the handshake; null without one, or when it names no client. */
  readonly clientName: string | null;
  readonly clientVersion: string | null;
  readonly transport: string;
}

/** The running request. */
export interface RpcCall {
  readonly caller: Caller;
  /** The right its method asks for, see {@link Handled.needs}; absent: none. */
  readonly needs?: Right | undefined;
  /** Aborts on `$/cancel_request`, on the end of the connection, and on shutdown; its reason is a `HandfastError`. */
  readonly signal: AbortSignal;
  /** Yields the slot of this call in the limit of its connection while it only waits. The returned function ends the wait. */
  yieldSlot(): () => void;
  /** Runs `work` once the answer of this call has been handed to the link. */
  afterAnswer(work: () => void): void;
  /**
   * Sends the stored events of a session to this connection, as far as it takes events of their types, and no event of the
   * session twice. Resolves when nothing newer is stored, with the sequence number of the last one; later events come as they
   * did before. Fails with `session_not_found`, and with the signal's reason.
   * @param after only events after this number. Default 0.
   */
  replay(session: string, after?: number): Promise<number>;
}

/** A method with the function that answers it. */
export interface Handled {
  readonly method: RpcMethod;
  /**
   * The right that the caller must be granted, checked before the handler runs. A handler that looks for a session checks the
   * same right for that session's owner.
   */
  readonly needs: Right;
  handle(params: Readonly<Record<string, unknown>>, call: RpcCall): unknown;
}

/** Binds a handler to its method; parameters arrive read and normalised, the result goes out as it is. */
export function handles<Params extends object, Result>(
  method: RpcMethod<Params, Result>,
  handle: (params: Params, call: RpcCall) => Result | JsonText<Result> | Promise<Result | JsonText<Result>>,
  needs: Right = rightOf(method.name),
): Handled {
  return { method: method as RpcMethod, needs, handle: handle as Handled['handle'] };
}

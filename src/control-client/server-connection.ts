/**
 * The connection to a server of sessions over one link: calls with their replies, and the server's notifications.
 *
 * One per link; `control.ts` makes a new one for each reconnect. It runs in browsers too, so it uses nothing of Node.
 */
import { Connection, type ConnectionLimits, type ConnectionOwner } from '../connection/connection.ts';
import { untyped } from '../protocol/method.ts';
import { isRepeatable } from '../protocol/session-rpc.ts';
import type { CloseInfo, Link } from '../transport/link.ts';
import type { Incoming } from '../wire/codec.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { JsonRpcCodec } from '../wire/jsonrpc.ts';

export interface CallOptions {
  /** Cancels the request: the server is notified, and the call rejects with the signal's reason or `cancelled`. */
  readonly signal?: AbortSignal;
  /** Time for the reply in milliseconds; 0 = this client sets no limit. Default 60,000. */
  readonly timeoutMs?: number;
  /** See `CallOptions` of an agent. Default: true for methods that only read, and the handshake. */
  readonly idempotent?: boolean;
  /** Called with the result before any message behind it is read: for replies that decide how later messages are read. */
  readonly onResult?: (result: unknown) => void;
}

/** Receives messages that belong to no call. */
export interface ServerListener {
  /** `chars`: the length of the line it came in; 0 on links without lines. */
  notification(method: string, params: unknown, chars: number): void;
  /** The link is lost, and every call settled. Called once. */
  closed(error: HandfastError): void;
}

export const DEFAULT_TIMEOUT_MS = 60_000;

/** A client trusts its server, and waits for it as long as its calls do. */
const limits: ConnectionLimits = {
  maxParallel: 1,
  queueLimit: 0,
  maxDepth: Number.POSITIVE_INFINITY,
  maxValues: Number.POSITIVE_INFINITY,
  maxMessageBytes: Number.POSITIVE_INFINITY,
  sendBufferBytes: Number.POSITIVE_INFINITY,
  slowConsumerMs: 0,
  writeStallMs: 0,
};

/** Calls are not limited here: the server states its limit. */
const callLimits = { maxParallel: Number.POSITIVE_INFINITY, queueLimit: 0, timeoutMs: DEFAULT_TIMEOUT_MS };

export class ServerConnection implements ConnectionOwner {
  readonly #link: Link;
  readonly #listener: ServerListener;
  readonly #connection = new Connection(this, new JsonRpcCodec({ calls: true }), limits);
  #lost: HandfastError | undefined;
  /** The server's newest error about something that was no request to it: the reason it closes the link, as a rule. */
  #refusal: HandfastError | undefined;

  constructor(link: Link, listener: ServerListener) {
    this.#link = link;
    this.#listener = listener;
    this.#connection.attach(link);
  }

  /** Reason why the link is lost; undefined while it is open. */
  get lost(): HandfastError | undefined {
    return this.#lost;
  }

  /** Sends a request. Rejects with the server's error, `connection_lost`, `timeout` or `cancelled`. */
  call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    const { signal, timeoutMs, onResult, idempotent = isRepeatable(method) } = options;
    const select = (result: unknown): unknown => {
      onResult?.(result);
      return result;
    };
    return this.#connection
      .calls(callLimits)
      .call(untyped(method), params as object, { signal, timeoutMs, streaming: false, idempotent }, select)
      .catch((error: HandfastError) => {
        throw error.code === 'cancelled' && error.cause instanceof HandfastError ? error.cause : error;
      });
  }

  /** Closes the link in good order; open calls reject with `connection_lost`. */
  async close(): Promise<void> {
    this.#end(fail('connection_lost', 'the connection was closed'));
    await this.#link.close();
  }

  /** Drops the link. */
  destroy(reason: string): void {
    this.#link.destroy(reason);
    this.#end(fail('connection_lost', reason));
  }

  #end(error: HandfastError): void {
    if (this.#lost !== undefined) return;
    this.#lost = error;
    this.#connection.calls(callLimits);
    this.#connection.settle(() => error);
    this.#listener.closed(error);
  }

  // ConnectionOwner.

  /** Servers of this protocol ask nothing. */
  route(): 'ignore' {
    return 'ignore';
  }

  notice({ type, body, size }: Incoming): undefined {
    this.#listener.notification(type, body, size);
  }

  refused(error: HandfastError): void {
    this.#refusal = error;
  }

  malformed(_error: HandfastError, raw: string | undefined): void {
    this.destroy(raw === undefined ? 'the server sent a malformed line' : 'the server sent a line that is not JSON');
  }

  failed(_request: object, thrown: unknown): HandfastError {
    return asError(thrown);
  }

  /** The reason is known when the link is lost: a child, for one, may have reported it. */
  ended(): void {
    void this.#link.close('the server ended');
  }

  linkLost(cause: CloseInfo): void {
    this.#end(this.#refusal ?? fail('connection_lost', `the link ended: ${cause.reason}`));
  }
}

/** Returns the reason of an aborted signal as an error of the table. */
export function reasonOf({ reason }: AbortSignal): HandfastError {
  if (reason instanceof HandfastError) return reason;
  return fail('cancelled', 'the caller cancelled the request', {}, reason);
}

/**
 * JSON-RPC 2.0 from the caller's side over one link: requests with their answers, and the server's notifications.
 *
 * One per link; `control.ts` makes a new one for each reconnect. It runs in browsers too, so it uses nothing of Node.
 */
import type { CloseInfo, Link, LinkReceiver, Message } from '../transport/link.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { errorFromRpc } from '../wire/jsonrpc.ts';

export interface CallOptions {
  /** Gives the request up: the server is told, and the call rejects with the signal's reason or `cancelled`. */
  readonly signal?: AbortSignal;
  /** Time for the answer in milliseconds; 0 = none of ours. Default 60,000. */
  readonly timeoutMs?: number;
  /** Told of the result before any message behind it is read: for answers that say how to read what follows. */
  readonly onResult?: (result: unknown) => void;
}

/** Where a link's messages go that answer nothing. */
export interface RpcListener {
  /** `chars`: the length of the line it came in; 0 where there are no lines. */
  notification(method: string, params: unknown, chars: number): void;
  /** The link is gone, and every call settled. Called once. */
  closed(error: HandfastError): void;
}

interface Pending {
  /** Characters of the request. */
  readonly chars: number;
  readonly onResult: ((result: unknown) => void) | undefined;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: HandfastError) => void;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal: AbortSignal | undefined;
  readonly aborted: (() => void) | undefined;
}

export const DEFAULT_TIMEOUT_MS = 60_000;

/** One link with its open requests. */
export class RpcClient implements LinkReceiver {
  readonly #link: Link;
  readonly #listener: RpcListener;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #ended: HandfastError | undefined;
  /** The server's newest word on something that was no request to it: why it closes the link, as a rule. */
  #refusal: HandfastError | undefined;

  constructor(link: Link, listener: RpcListener) {
    this.#link = link;
    this.#listener = listener;
    link.open(this);
  }

  /** Why the link is gone; undefined while it is there. */
  get gone(): HandfastError | undefined {
    return this.#ended;
  }

  /** Sends a request. Rejects with the server's error, `connection_lost`, `timeout` or `cancelled`. */
  call(method: string, params: unknown, options: CallOptions = {}): Promise<unknown> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS, onResult } = options;
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (signal?.aborted) return Promise.reject(reasonOf(signal));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const giveUp = (error: HandfastError): void => {
        if (this.#settle(id) === undefined) return;
        this.#send({ jsonrpc: '2.0', method: '$/cancel_request', params: { id } });
        reject(error);
      };
      const aborted = signal && (() => giveUp(reasonOf(signal)));
      const timer =
        timeoutMs === 0
          ? undefined
          : setTimeout(() => giveUp(fail('timeout', `${method} was not answered in ${timeoutMs} ms`)), timeoutMs);
      if (aborted) signal.addEventListener('abort', aborted, { once: true });
      const chars = this.#send({ jsonrpc: '2.0', id, method, params });
      this.#pending.set(id, { chars, resolve, reject, timer, signal, aborted, onResult });
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

  message(raw: string | Message): void {
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = JSON.parse(raw);
      } catch {
        return this.destroy('the server sent a line that is not JSON');
      }
    }
    if (typeof message !== 'object' || message === null) return;
    const { id, method, result, error, params } = message as Message;
    if (typeof method === 'string') {
      return this.#listener.notification(method, params, typeof raw === 'string' ? raw.length : 0);
    }
    if (id === null && error !== undefined) return this.#refused(errorFromRpc(error));
    const pending = typeof id === 'number' ? this.#settle(id) : undefined;
    if (pending === undefined) return;
    if (error !== undefined) return pending.reject(errorFromRpc(error));
    pending.onResult?.(result);
    pending.resolve(result);
  }

  malformed(): void {
    this.destroy('the server sent a line that cannot be read');
  }

  /** Why it ended is known when the link is gone: a child, for one, may have said so. */
  ended(): void {
    void this.#link.close('the server ended');
  }

  closed(cause: CloseInfo): void {
    this.#end(this.#refusal ?? fail('connection_lost', `the link ended: ${cause.reason}`));
  }

  /** The server could not read something of ours. A line that was too long was a request that it will never answer. */
  #refused(error: HandfastError): void {
    this.#refusal = error;
    const { limit } = error.detail;
    if (error.code !== 'too_large' || typeof limit !== 'number') return;
    for (const [id, { chars, reject }] of this.#pending) {
      if (chars > limit && this.#settle(id) !== undefined) reject(error);
    }
  }

  /** Gives the length of the line; 0 where there are none. */
  #send(message: Message): number {
    const line = this.#link.text ? JSON.stringify(message) : undefined;
    this.#link.send(line ?? message);
    return line?.length ?? 0;
  }

  /** Takes a request out of the open ones. */
  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    if (pending.aborted) pending.signal?.removeEventListener('abort', pending.aborted);
    return pending;
  }

  #end(error: HandfastError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(error);
    this.#listener.closed(error);
  }
}

/** What a signal was aborted with, as an error of the table. */
export function reasonOf({ reason }: AbortSignal): HandfastError {
  if (reason instanceof HandfastError) return reason;
  return fail('cancelled', 'the caller gave the request up', {}, reason);
}

/**
 * One request while it has no answer: what its handler may ask of it, and how it is told to stop.
 *
 * Made by `rpc-connection.ts`; handlers know it as `RpcCall`.
 */
import type { HandfastError } from '../../wire/errors.ts';
import type { RpcId, RpcRequest } from '../../wire/jsonrpc.ts';
import type { Caller, RpcCall } from '../contract/handlers.ts';
import type { RpcConnection } from './rpc-connection.ts';

export class RunningCall implements RpcCall {
  readonly connection: RpcConnection;
  readonly request: RpcRequest;
  /** The session its parameters name, for its error. */
  session: string | undefined;
  answered = false;
  /** Why it was told to stop. */
  stopped: HandfastError | undefined;
  /** Set when it was told to stop and its handler still runs. */
  timer: NodeJS.Timeout | undefined;
  /** Made when first asked for: most handlers never look. */
  #controller: AbortController | undefined;
  #afterwards: (() => void)[] | undefined;

  constructor(connection: RpcConnection, request: RpcRequest) {
    this.connection = connection;
    this.request = request;
  }

  get id(): RpcId {
    return this.request.id;
  }

  get caller(): Caller {
    return this.connection.caller;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.stopped !== undefined) this.#controller.abort(this.stopped);
    }
    return this.#controller.signal;
  }

  afterAnswer(work: () => void): void {
    this.#afterwards ??= [];
    this.#afterwards.push(work);
  }

  replay(session: string): Promise<number> {
    return this.connection.events.replay(session, this.signal);
  }

  /** Tells the handler to stop; the first reason counts. */
  stop(reason: HandfastError): void {
    if (this.stopped !== undefined) return;
    this.stopped = reason;
    this.#controller?.abort(reason);
  }

  /** What was to be done after the answer. */
  takeAfterwards(): readonly (() => void)[] {
    const works = this.#afterwards ?? [];
    this.#afterwards = undefined;
    return works;
  }
}

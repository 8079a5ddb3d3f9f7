/**
 * One running request as the handlers of the control edge see it: the connection's request plus its caller and the replay of
 * events.
 *
 * Handlers know it as `RpcCall`.
 */
import type { Log } from '../../base/log.ts';
import { type RequestChannel, type Route, RunningRequest } from '../../connection/running-request.ts';
import type { Incoming } from '../../wire/codec.ts';
import type { Caller, RpcCall } from '../contract/handlers.ts';
import type { Right } from '../contract/method-rights.ts';

/** The part of its client that a request needs. */
export interface RequestClient {
  readonly caller: Caller;
  readonly log: Log;
  readonly events: { replay(session: string, signal: AbortSignal, after?: number): Promise<number> };
}

export class RpcRequest extends RunningRequest implements RpcCall {
  readonly #client: RequestClient;
  needs: Right = 'none';
  /** The session its parameters name, for its error. */
  session: string | undefined;

  constructor(channel: RequestChannel, incoming: Incoming, route: Route, client: RequestClient) {
    super(channel, incoming, route);
    this.#client = client;
  }

  get caller(): Caller {
    return this.#client.caller;
  }

  afterAnswer(work: () => void): void {
    this.afterReply(() => {
      try {
        work();
      } catch (error) {
        this.#client.log.error('work after a reply failed', { method: this.incoming.type, error });
      }
    });
  }

  replay(session: string, after?: number): Promise<number> {
    return this.#client.events.replay(session, this.signal, after);
  }
}

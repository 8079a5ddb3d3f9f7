/** One request of an MCP client as its handlers have it: what it says, the terms that hold, the way back. Types alone. */
import type { Cancellation } from './cancellation.ts';
import type { LogLevel, Params, RequestId } from './protocol.ts';

/** What was agreed with the client that a request comes from. */
export interface Terms {
  /** True for a request that stands alone. */
  readonly stateless: boolean;
  readonly version: string;
  readonly capabilities: Params;
  /** Log messages below it are not sent; undefined: none are. */
  readonly logLevel: LogLevel | undefined;
}

/** The way back of one request. */
export interface Exchange {
  /** The only reply. `status`: of the response over HTTP, where the reply is an error that has one. */
  reply(text: string, status?: number): void;
  /** A notification of the request, before its reply. */
  notify(text: string): void;
  /** A request to the client, before the reply. Never left out. */
  ask(text: string): void;
  /** The request was cancelled: no reply comes. */
  end(): void;
}

export interface ServedRequest {
  readonly id: RequestId;
  readonly method: string;
  readonly params: Params;
  readonly terms: Terms;
  readonly cancellation: Cancellation;
  readonly exchange: Exchange;
}

/**
 * One request of an MCP client in the form for its handlers: its content, the terms that hold, the response path. Types
 * alone.
 */
import type { Cancellation } from './cancellation.ts';
import type { LogLevel, Params, RequestId } from './protocol.ts';

/** The terms of the client that sent a request. */
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
  /** Sends the only reply. `status`: of the response over HTTP, if the reply is an error that has one. */
  reply(text: string, status?: number): void;
  /** Sends a notification of the request, before its reply. */
  notify(text: string): void;
  /** Sends a request to the client, before the reply. Never left out. */
  ask(text: string): void;
  /** Ends the exchange of a cancelled request: it gets no reply. */
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

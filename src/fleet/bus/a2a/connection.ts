/**
 * The calls to one A2A agent: its card, the SDK's client that fits it, its token, and the meaning of a failed call.
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../base/log.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { asError, fail, HandfastError } from '../../../wire/errors.ts';
import { CARD_PATH } from '../plain/card.ts';
import { below, type HttpClient, peerUrl } from '../plain/http-client.ts';
import type { PlainPeerOptions } from '../plain/orchestrator-bus.ts';
import { busyFailure, RPC } from '../plain/rpc.ts';
import { withToken } from '../plain/token.ts';
import { type CardReading, readCard } from './card.ts';
import { type A2aClientSdk, type AgentCard, type Client, loadA2aClient, type RequestOptions } from './sdk.ts';

/** The card is at `/.well-known/agent-card.json` below `url`. */
export interface A2aConnectionOptions extends PlainPeerOptions {
  readonly client: HttpClient;
  readonly log: Log;
  /** Longest wait for a response, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
}

/** An agent whose card was read. */
export interface Reached extends CardReading {
  readonly client: Client;
}

/** Longest response, bytes; streams are bounded by the event. */
const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;

export class A2aConnection {
  readonly name: string;
  /** For people. */
  readonly address: string;
  readonly #options: A2aConnectionOptions;
  readonly #base: URL;
  #sdk: A2aClientSdk | undefined;
  #card: string | undefined;
  #reached: Reached | undefined;

  /** Fails with `config_invalid` for an invalid address. */
  constructor(options: A2aConnectionOptions) {
    this.#options = options;
    this.name = options.name;
    this.#base = peerUrl(options.url);
    this.address = this.#base.href;
  }

  /** The agent as its card was last read. */
  get reached(): Reached | undefined {
    return this.#reached;
  }

  /**
   * Reads the card. True: it has changed. Fails with `unreachable`, `timeout`, `invalid_message` (not a card, or none of the
   * transports is supported), `not_configured`.
   */
  async discover(signal?: AbortSignal): Promise<boolean> {
    this.#sdk ??= await loadA2aClient();
    const response = await this.#fetch(below(this.#base, CARD_PATH), {
      headers: { 'A2A-Version': '1.0', Accept: 'application/json' },
      signal: this.#bounded(signal),
    });
    const text = await response.text();
    if (!response.ok) throw fail('unreachable', `${this.name} has no card (${response.status})`, asleepIn(text));
    if (text === this.#card) return false;
    const { AgentCard } = this.#sdk.core;
    const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = this.#sdk.client;
    let card: AgentCard;
    try {
      card = AgentCard.fromJSON(JSON.parse(text));
      const fetchImpl = this.#fetch as typeof fetch;
      const transports = [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })];
      const client = await new ClientFactory({ transports }).createFromAgentCard(card);
      this.#reached = { ...readCard(card), client };
    } catch (thrown) {
      const { message } = thrown as Error;
      const { address } = this;
      throw fail('invalid_message', `the card of ${this.name} cannot be used: ${message}`, { address }, thrown);
    }
    this.#warnOfOtherOrigins(card);
    this.#card = text;
    return true;
  }

  #warnOfOtherOrigins({ supportedInterfaces }: AgentCard): void {
    const { token, log } = this.#options;
    if (token === undefined) return;
    for (const { url } of supportedInterfaces) {
      if (!URL.canParse(url) || new URL(url).origin === this.#base.origin) continue;
      log.warn('agent wants calls at another origin than its card; its token is not sent there', {
        peer: this.name,
        url,
      });
    }
  }

  /** Returns the options of a call. `fleet`: it names the fleet extension. */
  call(fleet: boolean, signal?: AbortSignal): RequestOptions {
    return { ...this.stream(fleet, this.#bounded(signal)) };
  }

  /** Returns options of a call that only its signal bounds. */
  stream(fleet: boolean, signal: AbortSignal): RequestOptions {
    return { signal, serviceParameters: fleet ? { 'A2A-Extensions': FLEET_EXTENSION } : {} };
  }

  #bounded(signal: AbortSignal | undefined): AbortSignal {
    const timeout = AbortSignal.timeout(this.#options.callTimeoutMs ?? 10_000);
    return signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  }

  /** Makes one HTTP request, with the token at the origin that the token is for. Failures are those of the error table. */
  readonly #fetch = async (input: URL | string | Request, init: RequestInit = {}): Promise<Response> => {
    const { token, log, client } = this.#options;
    const url = new URL(input instanceof Request ? input.url : input);
    const source = url.origin === this.#base.origin ? token : undefined;
    let refused: Response | undefined;
    let response: Response;
    try {
      response = await withToken(source, { peer: this.name, log }, async (pairs) => {
        await refused?.body?.cancel();
        const headers = new Headers(init.headers);
        if (pairs[0] !== undefined && pairs[1] !== undefined) headers.set(pairs[0], pairs[1]);
        refused = await client.fetch(url, { ...init, headers });
        return refused;
      });
    } catch (thrown) {
      await refused?.body?.cancel();
      throw callFailure(thrown, this.name);
    }
    const { status } = response;
    if (status === 200) return bounded(response, this.name);
    const where = { peer: this.name, status };
    if (status === 403) {
      await response.body?.cancel();
      log.error('agent refuses the token', { peer: this.name });
      throw fail('unauthorized', `${this.name} refuses the token`, where);
    }
    if (status === 413) throw fail('too_large', `${this.name} refuses a request of this length`, where);
    // An agent that responds so has started nothing.
    if (status === 429 || status === 503) {
      const text = await response.text();
      throw fail('unreachable', `${this.name} is down (${status})`, { ...where, ...asleepIn(text) });
    }
    return bounded(response, this.name);
  };
}

/** Returns the reason of a Handfast agent that shut down in order. */
function asleepIn(text: string): { readonly asleep?: string } {
  try {
    const { state, reason } = JSON.parse(text) as { state?: unknown; reason?: unknown };
    return state === 'asleep' ? { asleep: typeof reason === 'string' ? reason : 'asleep' } : {};
  } catch {
    return {};
  }
}

function bounded(response: Response, name: string): Response {
  if (response.body === null || response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
  let bytes = 0;
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        if (bytes > MAX_RESPONSE_BYTES) {
          controller.error(fail('too_large', `the response of ${name} is too long`, { limit: MAX_RESPONSE_BYTES }));
        } else controller.enqueue(chunk);
      },
    }),
  );
  const { status, statusText, headers } = response;
  return new Response(counted, { status, statusText, headers });
}

/** The kind of a call, by which a busy agent differs from one that does not know a task. */
export interface CallKind {
  /** The call named no A2A task. */
  readonly newTask: boolean;
}

/**
 * Returns the error of a failed call: `unreachable`, `timeout`, `connection_lost`, `unauthorized`, `over_capacity` (with
 * `retry_after_ms`, `reason`, and `a2a_task`, where the agent named it), `not_found` (no such task), `invalid_message`.
 */
export function callFailure(thrown: unknown, name: string, { newTask }: CallKind = { newTask: false }): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const { name: kind, cause, message, envelopeCode, errorResponse, data } = thrown as Error & SdkError;
  if (cause instanceof HandfastError) return cause;
  const where = { peer: name };
  if (kind === 'TimeoutError') return fail('timeout', `no response from ${name} within the timeout`, where, thrown);
  if (kind === 'AbortError') return fail('interrupted', `the call to ${name} was cancelled`, where, thrown);
  if (typeof envelopeCode === 'number') {
    if (envelopeCode === RPC.fleetBusy || (newTask && envelopeCode === RPC.busy)) {
      return busyFailure(name, message, errorResponse?.error?.data ?? data, thrown);
    }
    const about = { ...where, a2a: envelopeCode };
    if (envelopeCode === NO_SUCH_TASK) return fail('not_found', `${name}: ${message}`, about, thrown);
    // An agent that failed inside may have done part of the work.
    const code = envelopeCode === INTERNAL ? 'connection_lost' : 'invalid_message';
    return fail(code, `${name} responded with an error: ${message}`, about, thrown);
  }
  const reason = asError(thrown).message;
  return fail('connection_lost', `the connection to ${name} ended before the response (${reason})`, where, thrown);
}

const NO_SUCH_TASK = -32001;
const INTERNAL = -32603;

/** The members of the SDK's errors that are read. */
interface SdkError {
  readonly envelopeCode?: unknown;
  readonly data?: unknown;
  readonly errorResponse?: { readonly error?: { readonly data?: unknown } };
}

/** Returns the size of a request in bytes, approximately: for values that must fit into one. */
export const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

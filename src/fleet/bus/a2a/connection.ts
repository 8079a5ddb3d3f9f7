/**
 * How an A2A agent is reached: its card, the SDK's client that fits it, the token it is shown, and what a failed call means.
 *
 * Used by `peer.ts` and by the executor for remote agents.
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../base/log.ts';
import { FLEET_EXTENSION } from '../../../protocol/fleet.ts';
import { asError, fail, HandfastError } from '../../../wire/errors.ts';
import { RPC } from '../http/messages.ts';
import { below, peerUrl } from '../plain/http-client.ts';
import { CARD_PATH, type CardReading, readCard } from './card.ts';
import { type A2aClientSdk, type AgentCard, type Client, loadA2aClient, type RequestOptions } from './sdk.ts';
import type { RemoteAgent } from './settings.ts';

export interface ConnectionOptions extends RemoteAgent {
  /** For messages. */
  readonly name: string;
  readonly log: Log;
  /** Longest wait for an answer, milliseconds. Default 10,000. */
  readonly callTimeoutMs?: number;
}

/** An agent that was found. */
export interface Reached extends CardReading {
  readonly client: Client;
}

/** Longest answer, bytes; streams are bounded by the event. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

export class A2aConnection {
  readonly name: string;
  /** For people. */
  readonly address: string;
  readonly #options: ConnectionOptions;
  readonly #base: URL;
  #sdk: A2aClientSdk | undefined;
  #card: string | undefined;
  #reached: Reached | undefined;

  /** Fails with `config_invalid` for an address that is none. */
  constructor(options: ConnectionOptions) {
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
   * Reads the card. True: it is another one than before. Fails with `unreachable`, `timeout`, `invalid_message` (what is there
   * is no card, or none of a transport that is spoken), `not_configured`.
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
      const why = (thrown as Error).message;
      throw fail('invalid_message', `${this.name} cannot be spoken with: ${why}`, { address: this.address }, thrown);
    }
    for (const { url } of card.supportedInterfaces) {
      if (this.#options.token === undefined || !URL.canParse(url) || new URL(url).origin === this.#base.origin)
        continue;
      this.#options.log.warn(
        'an agent wants calls at another origin than it was found at; it is shown no token there',
        {
          peer: this.name,
          url,
        },
      );
    }
    this.#card = text;
    return true;
  }

  /** Options of a call. `fleet`: our extension is named. */
  call(fleet: boolean, signal?: AbortSignal): RequestOptions {
    return { ...this.stream(fleet, this.#bounded(signal)) };
  }

  /** Options of a call that may take as long as its signal lets it. */
  stream(fleet: boolean, signal: AbortSignal): RequestOptions {
    return { signal, serviceParameters: fleet ? { 'A2A-Extensions': FLEET_EXTENSION } : {} };
  }

  #bounded(signal: AbortSignal | undefined): AbortSignal {
    const late = AbortSignal.timeout(this.#options.callTimeoutMs ?? 10_000);
    return signal === undefined ? late : AbortSignal.any([signal, late]);
  }

  /** One HTTP request, with the token where it belongs. Failures are those of the table. */
  readonly #fetch = async (input: URL | string | Request, init: RequestInit = {}): Promise<Response> => {
    const { token, log } = this.#options;
    const url = new URL(input instanceof Request ? input.url : input);
    const source = url.origin === this.#base.origin ? token : undefined;
    const once = async (): Promise<Response> => {
      const secret = await source?.();
      const headers = new Headers(init.headers);
      if (secret !== undefined) headers.set('Authorization', `Bearer ${secret}`);
      // A redirect would take the task, and who knows what else, to where nobody sent it.
      return fetch(url, { ...init, headers, redirect: 'error' });
    };
    let response: Response;
    try {
      response = await once();
      if (response.status === 401 && source !== undefined) {
        await response.body?.cancel();
        response = await once();
      }
    } catch (thrown) {
      throw callFailure(thrown, this.name);
    }
    const { status } = response;
    if (status === 200) return boundedAnswer(response, this.name);
    const where = { peer: this.name, status };
    if (status === 401 || status === 403) {
      await response.body?.cancel();
      log.error('an agent refuses the token it is shown', { peer: this.name });
      throw fail('unauthorized', `${this.name} refuses the token`, where);
    }
    if (status === 413) throw fail('too_large', `${this.name} takes no request of this length`, where);
    // Whoever answers so has not begun anything.
    if (status === 429 || status === 503) {
      const text = await response.text();
      throw fail('unreachable', `${this.name} is not at work (${status})`, { ...where, ...asleepIn(text) });
    }
    return boundedAnswer(response, this.name);
  };
}

/** What an agent of ours says that does not work for now. */
function asleepIn(text: string): { readonly asleep?: string } {
  try {
    const { state, reason } = JSON.parse(text) as { state?: unknown; reason?: unknown };
    return state === 'asleep' ? { asleep: typeof reason === 'string' ? reason : 'asleep' } : {};
  } catch {
    return {};
  }
}

function boundedAnswer(response: Response, name: string): Response {
  if (response.body === null || response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
  let bytes = 0;
  const counted = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        if (bytes > MAX_ANSWER_BYTES) {
          controller.error(fail('too_large', `the answer of ${name} is too long`, { limit: MAX_ANSWER_BYTES }));
        } else controller.enqueue(chunk);
      },
    }),
  );
  const { status, statusText, headers } = response;
  return new Response(counted, { status, statusText, headers });
}

/** What the system calls a request that reached nobody. */
const NOT_REACHED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** How a busy agent is told from one that knows no such task. */
export interface CallAbout {
  /** The call named no A2A task. */
  readonly newTask: boolean;
}

/**
 * What a failed call means: `unreachable`, `timeout`, `connection_lost`, `unauthorized`, `over_capacity` (with
 * `retry_after_ms`, `reason`, and `a2a_task`, where that was said), `not_found` (no such task), `invalid_message`.
 */
export function callFailure(thrown: unknown, name: string, { newTask }: CallAbout = { newTask: false }): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const { name: kind, cause, message, envelopeCode, errorResponse, data } = thrown as Error & SdkError;
  if (cause instanceof HandfastError) return cause;
  if (kind === 'TimeoutError') return fail('timeout', `${name} did not answer in time`, { peer: name }, thrown);
  if (kind === 'AbortError') return fail('interrupted', `the call to ${name} was given up`, { peer: name }, thrown);
  if (typeof envelopeCode === 'number') {
    if (envelopeCode === RPC.fleetBusy || (newTask && envelopeCode === RPC.busy)) {
      return busy(name, message, errorResponse?.error?.data ?? data, thrown);
    }
    const about = { peer: name, a2a: envelopeCode };
    if (envelopeCode === NO_SUCH_TASK) return fail('not_found', `${name}: ${message}`, about, thrown);
    // Nobody knows how far an agent came that failed inside.
    const code = envelopeCode === INTERNAL ? 'connection_lost' : 'invalid_message';
    return fail(code, `${name} answered: ${message}`, about, thrown);
  }
  const system = (cause as { code?: unknown } | undefined)?.code;
  if (typeof system === 'string' && NOT_REACHED.has(system)) {
    return fail('unreachable', `nobody answers for ${name} (${system})`, { peer: name }, thrown);
  }
  const error = asError(thrown);
  const why = typeof system === 'string' ? system : error.message;
  return fail('connection_lost', `the connection to ${name} ended before the answer (${why})`, { peer: name }, thrown);
}

const NO_SUCH_TASK = -32001;
const INTERNAL = -32603;

/** What is read of the SDK's errors. */
interface SdkError {
  readonly envelopeCode?: unknown;
  readonly data?: unknown;
  readonly errorResponse?: { readonly error?: { readonly data?: unknown } };
}

function busy(name: string, message: string, data: unknown, thrown: unknown): HandfastError {
  const infos: readonly unknown[] = Array.isArray(data) ? data : [];
  const info = infos.find((one) => (one as { reason?: unknown } | null)?.reason === 'FLEET_BUSY');
  const metadata = (info as { metadata?: Readonly<Record<string, unknown>> } | undefined)?.metadata ?? {};
  const seconds = Number(metadata.retry_after_s ?? /retry after (\d+(?:\.\d+)?) ?s/.exec(message)?.[1] ?? 30);
  return fail(
    'over_capacity',
    `${name} is busy`,
    {
      reason: metadata.busy === 'in_flight' ? 'in_flight' : 'context',
      retry_after_ms: Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : 30_000,
      ...(typeof metadata.task_id === 'string' && { a2a_task: metadata.task_id }),
    },
    thrown,
  );
}

/** Bytes of a request, about: for what must fit into one. */
export const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

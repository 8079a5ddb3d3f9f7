/**
 * The agent's side of the A2E handshake over a fresh link: sends the request, waits for the reply, and hands the link
 * on without losing messages that follow the reply at once.
 *
 * @see docs/protocol/a2e.md#handshake
 */
import { refusedToken } from '../connection/token.ts';
import { HandshakeResp as checkHandshakeResp } from '../protocol/a2e.replies.generated.ts';
import type { CapabilityGrant, HandshakeReason, HandshakeResp } from '../protocol/a2e.ts';
import type { CloseInfo, Link, LinkReceiver, Malformed } from '../transport/link.ts';
import { type A2ECodec, errorOf } from '../wire/a2e.ts';
import { violation } from '../wire/check.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

type Message = Record<string, unknown>;

export interface Offer {
  readonly agentId: string;
  readonly capabilities: readonly string[];
  readonly token: string;
  /** The requested extensions by name, each with its parameters. */
  readonly extensions: Readonly<Record<string, unknown>>;
}

/** Messages that may arrive between the reply and the moment the link is handed on. */
const MAX_HELD = 10_000;

type Reason = Exclude<HandshakeReason, 'auth_failed'>;

const reasons: Record<Reason, string> = {
  version_mismatch: 'the host speaks another version of the protocol',
  no_caps: 'the host granted none of the requested capabilities',
  server_error: 'the host could not open a session',
};

/** An accepted handshake; `handOver` gives the link to its connection. */
export interface HandshakeOutcome {
  readonly response: HandshakeResp;
  handOver(receiver: { attach(link: Link): void; message(message: string | Message): void }): void;
}

/**
 * Performs the handshake. Rejects with the host's reason (`auth_failed`, `version_mismatch`, `no_caps`, `server_error`), `timeout`,
 * `cancelled` or `connection_lost`; the link is then closed.
 */
export async function performHandshake(
  link: Link,
  codec: A2ECodec,
  offer: Offer,
  wait: { timeoutMs: number; signal?: AbortSignal; onUnparsed?: (line: string) => void },
): Promise<HandshakeOutcome> {
  const answer = Promise.withResolvers<HandshakeResp>();
  const id = codec.id();
  const waiting = new Waiting(id, answer, wait.onUnparsed);
  link.open(waiting);
  const body = {
    agent_id: offer.agentId,
    agent_caps: offer.capabilities,
    auth_token: offer.token,
    ...(Object.keys(offer.extensions).length > 0 && { extensions: offer.extensions }),
  };
  link.send(codec.request(link.text, 'handshake/req', id, body));
  const timer = setTimeout(
    () => answer.reject(fail('timeout', 'the host did not reply to the handshake within its timeout')),
    wait.timeoutMs,
  );
  const onAbort = () => answer.reject(fail('cancelled', 'connecting was cancelled', undefined, wait.signal?.reason));
  wait.signal?.addEventListener('abort', onAbort, { once: true });
  try {
    if (wait.signal?.aborted) onAbort();
    const response = await answer.promise;
    if (response.ok === false) {
      const reason = response.reason || 'server_error';
      throw new HandfastError(reason, textOf(reason, offer.token, response.accepted_caps) + whyOf(response.error), {
        detail: { accepted_caps: response.accepted_caps ?? [], ...overloadOf(response.error) },
      });
    }
    return {
      response,
      handOver(receiver) {
        receiver.attach(link);
        for (const message of waiting.held.splice(0)) receiver.message(message);
        // A link that ended meanwhile has notified the old receiver only.
        if (waiting.lost !== undefined) (receiver as unknown as LinkReceiver).closed(waiting.lost);
        else if (waiting.over) (receiver as unknown as LinkReceiver).ended();
      },
    };
  } catch (error) {
    void link.close('handshake failed');
    throw error;
  } finally {
    clearTimeout(timer);
    wait.signal?.removeEventListener('abort', onAbort);
  }
}

/** Returns the reason why the host refused the handshake, and the next step. */
function textOf(reason: string, token: string, grants: readonly CapabilityGrant[] = []): string {
  if (reason === 'auth_failed') return refusedToken(token);
  const text = reasons[reason as Reason] ?? `the host refused the handshake: ${reason}`;
  if (reason !== 'no_caps' || grants.length === 0) return text;
  const why = grants.map(({ capability, metadata }) => `${capability}: ${metadata?.reason ?? 'refused'}`).join(', ');
  return `${text} (${why}); its configuration loads them with plugins, and grants them with capabilities of the token`;
}

/** Returns the details that a host over its limit sends: the share, its limit and `retry_after_ms`. */
const overloadOf = (error: unknown): object => (isObject(error) && isObject(error.detail) ? error.detail : {});

/** Characters of a host's message in the error. */
const MAX_WHY = 300;

/** Returns the host's message, which names the limit. */
const whyOf = (error: unknown): string =>
  isObject(error) && typeof error.message === 'string' ? `: ${error.message.slice(0, MAX_WHY)}` : '';

class Waiting implements LinkReceiver {
  readonly #id: string;
  readonly #answer: PromiseWithResolvers<HandshakeResp>;
  readonly #onUnparsed: ((line: string) => void) | undefined;
  #answered = false;
  readonly held: (string | Message)[] = [];
  lost: CloseInfo | undefined;
  over = false;

  constructor(id: string, answer: PromiseWithResolvers<HandshakeResp>, onUnparsed?: (line: string) => void) {
    this.#id = id;
    this.#answer = answer;
    this.#onUnparsed = onUnparsed;
  }

  message(raw: string | Message): void {
    if (this.#answered) {
      if (this.held.length < MAX_HELD) this.held.push(raw);
      return;
    }
    let message: unknown = raw;
    if (typeof raw === 'string') {
      try {
        message = JSON.parse(raw);
      } catch {
        this.#onUnparsed?.(raw); // Hosts in the field print banners on their stdout.
        return;
      }
    }
    if (!isObject(message) || (message.req_id !== this.#id && message.req_id !== '')) return;
    if (message.type === 'error') {
      this.#answered = true;
      this.#answer.reject(errorOf(message));
    } else if (message.type === 'handshake/resp' && message.req_id === this.#id) {
      this.#answered = true;
      if (checkHandshakeResp(message)) this.#answer.resolve(message as HandshakeResp);
      else this.#answer.reject(violation('handshake/resp', checkHandshakeResp.errors));
    }
  }

  malformed(_problem: Malformed): void {
    this.#onUnparsed?.('');
  }

  ended(): void {
    this.over = true;
  }

  closed(cause: CloseInfo): void {
    this.lost = cause;
    this.#answer.reject(fail('connection_lost', `the link ended before the handshake reply: ${cause.reason}`));
  }
}

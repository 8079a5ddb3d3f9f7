/**
 * One deployed receiver as a peer of the orchestrator: what it speaks is read from its card, and tasks go out as messages,
 * as hints in the text or as the bare brief. What it says to them is read by `inbound.ts`.
 *
 * Made by `orchestrator-bus.ts`, one for each configured receiver.
 * @see docs/protocol/fleet.md#http
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../base/log.ts';
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { DispatchMode, PeerEvents } from '../peer.ts';
import { type HttpClient, peerUrl } from '../plain/http-client.ts';
import { OpenTasks } from '../plain/open-tasks.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { taskText } from '../plain/task-text.ts';
import type { TokenSource } from '../plain/token.ts';
import { ack } from '../worker-messages.ts';
import { readCard } from './card.ts';
import { ReceiverCalls, refusalOf } from './connection.ts';
import { awaitFirstResponse } from './first-response.ts';
import { HttpInbound } from './inbound.ts';
import { ANNOUNCE_PATH, CARD_PATH, HEALTH_PATH, MAX_BODY_BYTES, MAX_TEXT_CHARS, sendMessage } from './messages.ts';
import { saysNo } from './reply-reading.ts';

/** A receiver, from the configuration. */
export interface HttpPeerOptions {
  /** Its name here, and the name of the principal whose token it shows when it calls back. */
  readonly name: string;
  /** Base address, `http://host:port`. */
  readonly url: string;
  /** Read for each call, and again when it was refused. */
  readonly token?: TokenSource;
}

/** What a peer needs of its bus. */
export interface HttpPeerOwner {
  readonly events: PeerEvents;
  readonly client: HttpClient;
  readonly log: Log;
  /** After so long without an answer the receiver counts as having the task, milliseconds. */
  readonly takenAfterMs: number;
  /** Longest wait for the end of a task over one request, milliseconds. */
  readonly replyTimeoutMs: number;
  /** Longest wait for anything else, milliseconds. */
  readonly callTimeoutMs: number;
  /** First delay between polls of a task whose connection was lost, milliseconds. */
  readonly pollDelayMs: number;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
  readonly newId: () => string;
  readonly stopping: AbortSignal;
  /** Something happened that the receiver should be looked at for. */
  doubt(peer: HttpPeer): void;
}

/** The card is read again after this, however well everything goes. */
const CARD_AGE_MS = 24 * 3_600_000;
/** What over HTTP can be sent to a receiver that speaks our extension. */
const CARRIED: ReadonlySet<Feature> = new Set(['cancel', 'poll', 'announce', 'steer']);

export class HttpPeer implements HealthCheckedPeer {
  readonly peerId: string;
  readonly binding = 'http';
  readonly address: string;
  readonly durable = false;
  readonly tasks = new OpenTasks();
  readonly #owner: HttpPeerOwner;
  readonly #calls: ReceiverCalls;
  readonly hearing: HttpInbound;
  reachable = false;
  #fleet = false;
  #cardAt = Number.NEGATIVE_INFINITY;
  #features: ReadonlySet<Feature> = new Set();

  constructor(options: HttpPeerOptions, owner: HttpPeerOwner) {
    this.peerId = options.name;
    const base = peerUrl(options.url);
    this.address = base.href;
    const { client, log, callTimeoutMs } = owner;
    const { token } = options;
    this.#calls = new ReceiverCalls({ peer: options.name, base, token, client, log, callTimeoutMs });
    this.hearing = new HttpInbound(this, this.#calls, owner);
    this.#owner = owner;
  }

  get structured(): boolean {
    return this.#fleet;
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  // Health.

  /** Fails with `unreachable`, or as a call does, when the receiver does not work. */
  async probe(here: boolean): Promise<boolean> {
    const { status, body } = await this.#calls.get(HEALTH_PATH);
    // Not every receiver has a health page; one that has a card is there.
    const found = status === 404 ? (await this.#calls.get(CARD_PATH)).status : status;
    if (found !== 200 || saysNo(body)) throw fail('unreachable', `its health page says no (${found})`);
    const now = this.#owner.monotonic();
    if (here && now - this.#cardAt < CARD_AGE_MS) return false;
    this.#cardAt = now;
    return this.#readCard();
  }

  /** Reads what the receiver says it speaks; true when that is another thing than before. Never rejects. */
  async #readCard(): Promise<boolean> {
    try {
      const { status, body } = await this.#calls.get(CARD_PATH);
      const card = status === 200 ? readCard(body) : undefined;
      if (card === undefined) return false;
      const features = new Set([...card.features].filter((feature) => CARRIED.has(feature)));
      const changed = card.fleet !== this.#fleet || [...features].join() !== [...this.#features].join();
      this.#fleet = card.fleet;
      this.#features = features;
      return changed;
    } catch {
      return false;
    }
  }

  /** Asks the receiver to describe itself; nothing happens where it cannot. Never rejects. */
  async askAnnounce(): Promise<void> {
    if (!this.#fleet) return;
    try {
      const { status, body } = await this.#calls.getWithToken(ANNOUNCE_PATH);
      if (status !== 200) return;
      const decoded = decode(body);
      if (decoded.valid && decoded.message.type === 'SESSION_ANNOUNCE') await this.hearing.forward(decoded.message);
      else
        this.#owner.events.unreadable(
          this,
          decoded.errors.map(({ code }) => code),
        );
    } catch (thrown) {
      this.#owner.log.debug('a receiver did not describe itself', {
        peer: this.peerId,
        error: asError(thrown).message,
      });
    }
  }

  // To the receiver.

  async send(
    message: FleetMessage,
    how: { readonly mode: DispatchMode; readonly signal?: AbortSignal },
  ): Promise<void> {
    if (message.type === 'TASK_DISPATCH') return this.#dispatch(message, how.mode, how.signal);
    if (!this.#fleet) throw fail('capability_missing', `${this.peerId} understands tasks only`, { type: message.type });
    if (message.type === 'ANNOUNCE_REQUEST') return this.askAnnounce();
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    const contextId =
      this.tasks.get(taskId)?.contextId ?? message.envelope?.context_id ?? (taskId || this.#owner.newId());
    const body = sendMessage(this.#owner.newId(), { text: message.type, data: [message], contextId });
    const said = this.#calls.read(await this.#calls.post(body, { fleet: this.#fleet, signal: how.signal }));
    if (said.kind !== 'message') throw refusalOf(said, this.peerId);
    await this.hearing.hearData(said.message);
  }

  async #dispatch(dispatch: TaskDispatch, mode: DispatchMode, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const { newId, takenAfterMs, replyTimeoutMs } = this.#owner;
    const { task, envelope } = dispatch;
    const text = taskText(dispatch, mode);
    if (text.length > MAX_TEXT_CHARS) return this.#tooLarge(dispatch, `${text.length} characters of text`);
    const contextId = envelope?.context_id ?? task.task_id;
    const outgoing = { text, contextId, messageId: `${task.task_id}#${envelope?.attempt ?? 1}` };
    let body = sendMessage(newId(), mode === 'structured' ? { ...outgoing, data: [dispatch] } : outgoing);
    if (Buffer.byteLength(body) > MAX_BODY_BYTES && mode === 'structured') {
      // The data says all of it, the text is for those who do not read data.
      body = sendMessage(newId(), { ...outgoing, text: 'The task is in the data of this message.', data: [dispatch] });
    }
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_BODY_BYTES) return this.#tooLarge(dispatch, `${bytes} bytes of request`);
    const open = this.tasks.open(dispatch, contextId, mode);
    const fleet = this.#fleet;
    const ask = (onSent: () => void): Promise<void> =>
      this.#calls
        .post(body, { fleet, timeoutMs: replyTimeoutMs, onSent })
        .then((answer) => this.hearing.answered(open, this.#calls.read(answer)));
    try {
      await awaitFirstResponse(ask, {
        signal,
        graceMs: takenAfterMs,
        taken: () =>
          this.hearing.forwardInBackground(
            ack(task.task_id, { accepted: true, state: 'accepted' }, { attempt: open.attempt }),
          ),
        failedLater: (error) => this.hearing.lost(open, error),
      });
    } catch (thrown) {
      const error = asError(thrown);
      // In all other cases the receiver may have it, and its reply may still come.
      if (NOT_TAKEN.has(error.code)) this.tasks.close(open);
      throw error;
    }
  }

  /** Refused before it is sent: a receiver would cut it without a word. */
  async #tooLarge({ task, envelope }: TaskDispatch, what: string): Promise<void> {
    const blocked_reason = `brief_too_large: ${what}, more than ${this.peerId} takes`;
    const blocked = { code: 'brief_too_large', retryable: false };
    await this.hearing.tell(task.task_id, envelope?.attempt, {
      status: 'blocked',
      tokens_spent: 0,
      blocked_reason,
      blocked,
    });
  }
}

/** Failures after which the receiver surely does not have the task. */
const NOT_TAKEN: ReadonlySet<string> = new Set([
  'unreachable',
  'over_capacity',
  'unauthorized',
  'invalid_message',
  'too_large',
]);

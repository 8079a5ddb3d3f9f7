/**
 * One deployed receiver as a peer of the orchestrator. Its card names its dialect; tasks go out as messages, as hints in the
 * text or as the bare brief. `inbound.ts` reads its messages.
 *
 * One for each configured receiver.
 * @see docs/protocol/fleet.md#http
 */
import { Buffer } from 'node:buffer';
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { asError, fail } from '../../../wire/errors.ts';
import { decode } from '../../messages/decode.ts';
import type { SendOptions } from '../peer.ts';
import { CARD_PATH } from '../plain/card.ts';
import { peerUrl } from '../plain/http-client.ts';
import { MAX_BODY_BYTES } from '../plain/http-server.ts';
import type { PlainPeerOptions } from '../plain/orchestrator-bus.ts';
import { ownResult } from '../plain/own-result.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { DATA_SAYS_ALL, replySchemaOf, taskText } from '../plain/task-text.ts';
import { ack } from '../worker-messages.ts';
import { readCard } from './card.ts';
import { HttpConnection, refusalOf } from './connection.ts';
import { awaitFirstResponse } from './first-response.ts';
import { HttpInbound, type HttpPeerOwner } from './inbound.ts';
import { ANNOUNCE_PATH, HEALTH_PATH, MAX_TEXT_CHARS, sendMessage } from './messages.ts';
import { reportsFailure } from './reply-reading.ts';

/** The card is read again after this, even where no probe failed. */
const CARD_AGE_MS = 24 * 3_600_000;

export class HttpPeer implements HealthCheckedPeer {
  readonly peerId: string;
  readonly binding = 'http';
  readonly address: string;
  readonly durable = false;
  readonly inbound: HttpInbound;
  readonly #owner: HttpPeerOwner;
  readonly #connection: HttpConnection;
  reachable = false;
  #fleet = false;
  #cardAt = Number.NEGATIVE_INFINITY;
  #features: ReadonlySet<Feature> = new Set();

  constructor({ name, url, token }: PlainPeerOptions, owner: HttpPeerOwner) {
    this.peerId = name;
    const base = peerUrl(url);
    this.address = base.href;
    const { client, log, callTimeoutMs } = owner;
    this.#connection = new HttpConnection({ peer: name, base, token, client, log, callTimeoutMs });
    this.inbound = new HttpInbound(this, this.#connection, owner);
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
  async probe(connected: boolean): Promise<boolean> {
    const { status, body } = await this.#connection.get(HEALTH_PATH);
    // Not every receiver has a health page; one that has a card responds.
    const found = status === 404 ? (await this.#connection.get(CARD_PATH)).status : status;
    if (found !== 200 || reportsFailure(body))
      throw fail('unreachable', `its health page reports a failure (${found})`);
    const now = this.#owner.monotonic();
    if (connected && now - this.#cardAt < CARD_AGE_MS) return false;
    this.#cardAt = now;
    return this.#readCard();
  }

  /** Reads the dialect of the receiver; true when that has changed. Never rejects. */
  async #readCard(): Promise<boolean> {
    try {
      const { status, body } = await this.#connection.get(CARD_PATH);
      const card = status === 200 ? readCard(body) : undefined;
      if (card === undefined) return false;
      const changed = card.fleet !== this.#fleet || [...card.features].join() !== [...this.#features].join();
      this.#fleet = card.fleet;
      this.#features = card.features;
      return changed;
    } catch {
      return false;
    }
  }

  /** Requests the announce of a receiver that has one. Never rejects. */
  async askAnnounce(): Promise<void> {
    if (!this.#fleet) return;
    try {
      const { status, body } = await this.#connection.getWithToken(ANNOUNCE_PATH);
      if (status !== 200) return;
      const decoded = decode(body);
      if (decoded.valid && decoded.message.type === 'SESSION_ANNOUNCE') await this.inbound.forward(decoded.message);
      else {
        const codes = decoded.errors.map(({ code }) => code);
        this.#owner.events.malformed(this, codes);
      }
    } catch (thrown) {
      const { message: error } = asError(thrown);
      this.#owner.log.debug('receiver did not describe itself', { peer: this.peerId, error });
    }
  }

  // To the receiver.

  async send(message: FleetMessage, how: SendOptions): Promise<void> {
    if (message.type === 'TASK_DISPATCH') return this.#dispatch(message, how);
    if (!this.#fleet) throw fail('capability_missing', `${this.peerId} accepts tasks only`, { type: message.type });
    if (message.type === 'ANNOUNCE_REQUEST') return this.askAnnounce();
    const taskId = (message as { readonly task_id?: string }).task_id ?? '';
    const contextId =
      this.inbound.tasks.get(taskId)?.contextId ?? message.envelope?.context_id ?? (taskId || this.#owner.newId());
    const body = sendMessage(this.#owner.newId(), { text: message.type, data: [message], contextId });
    const response = await this.#connection.post(body, { fleet: this.#fleet, signal: how.signal });
    const reply = this.#connection.read(response);
    if (reply.kind !== 'message') throw refusalOf(reply, this.peerId);
    await this.inbound.readData(reply.message);
  }

  async #dispatch(dispatch: TaskDispatch, { mode, signal }: SendOptions): Promise<void> {
    signal?.throwIfAborted();
    const { newId, acceptedAfterMs, replyTimeoutMs } = this.#owner;
    const { task, envelope } = dispatch;
    const attempt = envelope?.attempt ?? 1;
    const text = taskText(dispatch, mode);
    if (text.length > MAX_TEXT_CHARS) return this.#tooLarge(dispatch, `${text.length} characters of text`);
    const contextId = envelope?.context_id ?? task.task_id;
    const outgoing = { text, contextId, messageId: `${task.task_id}#${attempt}` };
    let body = sendMessage(newId(), mode === 'structured' ? { ...outgoing, data: [dispatch] } : outgoing);
    if (Buffer.byteLength(body) > MAX_BODY_BYTES && mode === 'structured') {
      body = sendMessage(newId(), { ...outgoing, text: DATA_SAYS_ALL, data: [dispatch] });
    }
    const bytes = Buffer.byteLength(body);
    if (bytes > MAX_BODY_BYTES) return this.#tooLarge(dispatch, `${bytes} bytes of request`);
    const replySchema = replySchemaOf(dispatch, mode);
    const open = this.inbound.tasks.add({ taskId: task.task_id, attempt, contextId, replySchema });
    const fleet = this.#fleet;
    const post = (onSent: () => void): Promise<void> =>
      this.#connection
        .post(body, { fleet, timeoutMs: replyTimeoutMs, onSent })
        .then((response) => this.inbound.dispatched(open, this.#connection.read(response)));
    try {
      await awaitFirstResponse(post, {
        signal,
        graceMs: acceptedAfterMs,
        accepted: () =>
          this.inbound.forwardInBackground(ack(task.task_id, { accepted: true, state: 'accepted' }, { attempt })),
        failedLater: (error) => this.inbound.lost(open, error),
      });
    } catch (thrown) {
      const error = asError(thrown);
      // After any other failure the receiver may have the task, and its reply may still come.
      if (NOT_ACCEPTED.has(error.code)) this.inbound.tasks.remove(open);
      throw error;
    }
  }

  /** Refuses it here: a receiver would cut it without a notice. */
  #tooLarge({ task, envelope }: TaskDispatch, what: string): Promise<void> {
    const result = ownResult(task.task_id, envelope?.attempt, {
      status: 'blocked',
      tokens_spent: 0,
      blocked_reason: `brief_too_large: ${what}, more than ${this.peerId} takes`,
      blocked: { code: 'brief_too_large', retryable: false },
    });
    return this.inbound.forward(result);
  }
}

/** Failures after which the receiver does not have the task. */
const NOT_ACCEPTED: ReadonlySet<string> = new Set([
  'unreachable',
  'over_capacity',
  'unauthorized',
  'invalid_message',
  'too_large',
]);

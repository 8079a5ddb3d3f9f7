/**
 * One deployed receiver as a peer of the orchestrator: tasks go out as messages, as hints in the text or as the bare brief;
 * replies come back in the answer, or later by a call of its own, and are read for announce and result.
 *
 * Made by `http-peer-bus.ts`, one for each configured receiver.
 * @see docs/protocol/fleet.md#http
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../host/context.ts';
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import { decode, decodeValue } from '../../messages/decode.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { resultMessage } from '../../messages/encode.ts';
import { announceInReply } from '../../phases/announce-reply.ts';
import { extractReply } from '../../phases/reply.ts';
import { ack } from '../intake.ts';
import { received } from '../orchestrator-side.ts';
import type { DispatchMode, FleetPeer, PeerEvents } from '../peer.ts';
import { pause, RetryDelay } from '../retry-delay.ts';
import { readCard } from './card.ts';
import {
  ANNOUNCE_PATH,
  CARD_PATH,
  HEALTH_PATH,
  type HttpMessage,
  type HttpReplyBody,
  MAX_BODY_BYTES,
  MAX_TEXT_CHARS,
  RPC,
  sendMessage,
} from './dialect.ts';
import { type HttpClient, peerUrl } from './exchange.ts';
import { type OpenTask, OpenTasks } from './open-tasks.ts';
import { ReceiverCalls, refusalOf } from './receiver-calls.ts';
import { claimed, saysNo, saysUnknown, withAttempt } from './reply-reading.ts';
import { taskText } from './task-text.ts';
import type { TokenSource } from './token.ts';

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
  readonly newId: () => string;
  readonly stopping: AbortSignal;
  /** Something about the peer has changed that the orchestrator should know. */
  changed(peer: HttpPeer): void;
}

/** What over HTTP can be sent to a receiver that speaks our extension. */
const CARRIED: ReadonlySet<Feature> = new Set(['cancel', 'poll', 'announce', 'steer']);

export class HttpPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding = 'http';
  readonly address: string;
  readonly durable = false;
  readonly tasks = new OpenTasks();
  readonly #owner: HttpPeerOwner;
  readonly #calls: ReceiverCalls;
  #reachable = false;
  #fleet = false;
  #features: ReadonlySet<Feature> = new Set();

  constructor(options: HttpPeerOptions, owner: HttpPeerOwner) {
    this.peerId = options.name;
    const base = peerUrl(options.url);
    this.address = base.href;
    const { client, log, callTimeoutMs, stopping } = owner;
    const { token } = options;
    this.#calls = new ReceiverCalls({ peer: options.name, base, token, client, log, callTimeoutMs, stopping });
    this.#owner = owner;
  }

  get structured(): boolean {
    return this.#fleet;
  }

  get reachable(): boolean {
    return this.#reachable;
  }

  get features(): ReadonlySet<Feature> {
    return this.#features;
  }

  // Health.

  /** Looks whether the receiver works; true when it does. Never rejects. */
  async check(): Promise<boolean> {
    const { log } = this.#owner;
    let ok = false;
    let why = '';
    try {
      const { status, body } = await this.#calls.get(HEALTH_PATH);
      // Not every receiver has a health page; one that has a card is there.
      const found = status === 404 ? (await this.#calls.get(CARD_PATH)).status : status;
      ok = found === 200 && !saysNo(body);
      why = ok ? '' : `health answered ${found}`;
    } catch (thrown) {
      why = asError(thrown).message;
    }
    if (ok !== this.#reachable)
      log.info(ok ? 'a receiver answers' : 'a receiver does not answer', { peer: this.peerId, why });
    this.#reachable = ok;
    return ok;
  }

  /** Reads what the receiver says it speaks; true when that is another thing than before. Never rejects. */
  async discover(): Promise<boolean> {
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
      if (decoded.valid && decoded.message.type === 'SESSION_ANNOUNCE') await this.#hear(decoded.message);
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
    const said = this.#calls.read(await this.#calls.post(body, { fleet: this.#fleet, signal: how.signal }).answer);
    if (said.kind !== 'message') throw refusalOf(said, this.peerId);
    await this.#hearData(said.message);
  }

  async #dispatch(dispatch: TaskDispatch, mode: DispatchMode, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const { newId, takenAfterMs, replyTimeoutMs, stopping } = this.#owner;
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
    const { sent, answer } = this.#calls.post(body, {
      fleet: this.#fleet,
      timeoutMs: replyTimeoutMs,
      signal: stopping,
    });
    const outcome = answer.then((got) => this.#replied(open, this.#calls.read(got), true));
    // A receiver that works at once answers when the task has ended; by then it has long had it.
    const taken = new AbortController();
    const grace = sent.then(() => pause(takenAfterMs, taken.signal)).then(() => 'taken' as const);
    try {
      const first = await Promise.race([outcome, grace, aborted(signal, taken.signal)]);
      if (first === 'taken') {
        this.#hearSoon(ack(task.task_id, { accepted: true, state: 'accepted' }, { attempt: open.attempt }));
        outcome.catch((thrown: unknown) => this.#lost(open, asError(thrown)));
      }
    } catch (thrown) {
      outcome.catch(() => {});
      const error = asError(thrown);
      // In all other cases the receiver may have it, and its reply may still come.
      if (NOT_TAKEN.has(error.code)) this.tasks.close(open);
      throw error;
    } finally {
      taken.abort();
    }
  }

  /** Refused before it is sent: a receiver would cut it without a word. */
  async #tooLarge({ task, envelope }: TaskDispatch, what: string): Promise<void> {
    const blocked_reason = `brief_too_large: ${what}, more than ${this.peerId} takes`;
    const blocked = { code: 'brief_too_large', retryable: false };
    await this.#tell(task.task_id, envelope?.attempt, { status: 'blocked', tokens_spent: 0, blocked_reason, blocked });
  }

  /**
   * What an answer means for its task. `first`: somebody waits in `send`, and a refusal is its failure; else it is told as a
   * result.
   */
  async #replied(open: OpenTask, said: HttpReplyBody, first: boolean): Promise<void> {
    switch (said.kind) {
      case 'message':
        return this.reply(open, said.message, first);
      case 'error':
        // The turn itself failed there; trying it elsewhere could do the work twice.
        if (said.code === RPC.failed) return this.#failedThere(open, said.text);
        throw refusalOf(said, this.peerId);
      default:
        throw refusalOf(said, this.peerId);
    }
  }

  async #failedThere(open: OpenTask, text: string): Promise<void> {
    // One that knows our messages may have given up waiting, not working.
    if (this.#features.has('poll')) return this.#follow(open);
    this.tasks.close(open);
    await this.#tell(open.taskId, open.attempt, { status: 'error', error_summary: text || 'the receiver failed' });
  }

  /**
   * Reads the reply to a task, whichever way it came. Resolves when the orchestrator has kept what is in it. Fails with
   * `over_capacity` when the reply says that the receiver is busy.
   */
  async reply(open: OpenTask, message: HttpMessage, first = false): Promise<void> {
    if (await this.#hearData(message, open)) return;
    const { text } = message;
    const extracted = extractReply({ text, taskId: open.taskId, replySchema: open.replySchema, exitCode: null });
    const { announce, result, conformance, prose } = extracted;
    if (announce !== null) await this.#hear(announce);
    if (conformance === 'busy') {
      this.tasks.close(open);
      if (first) throw fail('over_capacity', `${this.peerId} is busy`, { reason: 'context', retry_after_ms: 30_000 });
      return this.#busyLate(open, prose);
    }
    if (result === null) {
      this.#hearSoon(ack(open.taskId, { accepted: true, state: 'accepted' }, { attempt: open.attempt }));
      return;
    }
    await this.#hear(claimed(result, open, prose, conformance));
    this.tasks.ended(open);
  }

  #busyLate(open: OpenTask, why: string): Promise<void> {
    const blocked = { code: 'busy', retryable: true };
    return this.#tell(open.taskId, open.attempt, {
      status: 'blocked',
      tokens_spent: 0,
      blocked_reason: `busy: ${why.slice(0, 280)}`,
      blocked,
    });
  }

  /** An announce in a message that belongs to no task. True: there was one. */
  async hearUnasked(message: HttpMessage): Promise<boolean> {
    if (await this.#hearData(message)) return true;
    const { profile } = announceInReply(message.text);
    if (profile !== undefined) await this.#hear(profile);
    return profile !== undefined;
  }

  /** Hands on the messages in data parts. True: they settle the task, or there were some and no task. */
  async #hearData({ data }: HttpMessage, open?: OpenTask): Promise<boolean> {
    let settled = false;
    for (const one of data) {
      const decoded = decodeValue(one);
      if (!decoded.valid) {
        this.#owner.events.unreadable(
          this,
          decoded.errors.map(({ code }) => code),
        );
        continue;
      }
      const { message } = decoded;
      if (!FROM_WORKERS.has(message.type)) continue;
      if (message.type === 'SESSION_ANNOUNCE') {
        await this.#hear(message);
        settled ||= open === undefined;
        continue;
      }
      // A receiver may answer for another task than the one that was asked about; that is its own message then.
      const known = this.tasks.get((message as { readonly task_id?: string }).task_id ?? '');
      await this.#hear(message.type === 'TASK_RESULT' ? withAttempt(message, known) : message);
      if (message.type === 'TASK_RESULT' && known !== undefined) this.tasks.ended(known);
      settled ||= open === undefined || known === open;
    }
    return settled;
  }

  /** The connection over which a task's end was waited for is gone. */
  #lost(open: OpenTask, error: HandfastError): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    log.warn('the reply to a task did not come', {
      peer: this.peerId,
      task_id: open.taskId,
      code: error.code,
      error: error.message,
    });
    if (error.code === 'over_capacity') {
      this.tasks.close(open);
      void this.#busyLate(open, error.message).catch(() => {});
    } else if (error.code === 'invalid_message' || error.code === 'too_large') {
      this.tasks.close(open);
      const summary = { status: 'error', error_summary: error.message } as const;
      void this.#tell(open.taskId, open.attempt, summary).catch(() => {});
    } else if (this.#features.has('poll')) void this.#follow(open);
    this.#owner.changed(this);
  }

  /** Asks for a task whose end was missed until it is known. Never rejects. */
  async #follow(open: OpenTask): Promise<void> {
    const { pollDelayMs, stopping, newId } = this.#owner;
    const delay = new RetryDelay({ firstDelayMs: pollDelayMs, maxDelayMs: 15_000 });
    while (!stopping.aborted && this.tasks.get(open.taskId) === open && !open.over) {
      await pause(delay.next(), stopping);
      if (stopping.aborted || open.over) return;
      const poll: FleetMessage = { type: 'TASK_POLL', protocol_version: '2.0', task_id: open.taskId };
      const body = sendMessage(newId(), { text: 'TASK_POLL', data: [poll], contextId: open.contextId });
      try {
        const said = this.#calls.read(await this.#calls.post(body, { fleet: true, signal: stopping }).answer);
        if (said.kind !== 'message') continue;
        await this.#hearData(said.message, open);
        if (saysUnknown(said.message)) return this.tasks.close(open);
      } catch {
        // Not there now; asked again.
      }
    }
  }

  // Small things.

  #tell(
    task_id: string,
    attempt: number | undefined,
    members: Partial<Parameters<typeof resultMessage>[0]>,
  ): Promise<void> {
    const result = resultMessage({ task_id, status: 'error', ...members }, { attempt });
    const decoded = decodeValue(result);
    // What is built here is valid; the check only gives it its normalised form.
    return decoded.valid ? this.#hear(decoded.message) : Promise.resolve();
  }

  #hear(message: Incoming): Promise<void> {
    if (this.#owner.stopping.aborted) return Promise.reject(fail('interrupted', 'the orchestrator is stopping'));
    return received(this.#owner.events, this, message);
  }

  #hearSoon(message: Incoming): void {
    this.#hear(message).catch((thrown: unknown) => {
      const { code, message: error } = asError(thrown);
      this.#owner.log.warn('a message was not kept', { peer: this.peerId, type: message.type, code, error });
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

const FROM_WORKERS = new Set<Incoming['type']>(['SESSION_ANNOUNCE', 'TASK_RESULT', 'TASK_ACK', 'TASK_PROGRESS']);

/** Rejects when `signal` aborts, unless `over` did before. */
function aborted(signal: AbortSignal | undefined, over: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(asError(signal.reason, 'cancelled')), { once: true, signal: over });
  });
}

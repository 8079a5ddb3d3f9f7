/**
 * The messages of one receiver, read and forwarded to the orchestrator: replies to tasks, as text or as messages, in a response
 * or in a call by the receiver, and the ends of tasks whose reply was lost.
 *
 * One for each peer; `replies.ts` brings the calls of the receiver.
 * @see docs/protocol/fleet.md#http
 */

import { Backoff } from '../../../base/backoff.ts';
import { sleep } from '../../../base/sleep.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { announceInReply } from '../../phases/announce-reply.ts';
import { extractReply } from '../../phases/reply.ts';
import { PlainInbound } from '../plain/inbound.ts';
import type { OpenTask } from '../plain/open-tasks.ts';
import type { PlainPeerOwner } from '../plain/orchestrator-bus.ts';
import { ownResult, type ResultMembers } from '../plain/own-result.ts';
import type { HealthCheckedPeer } from '../plain/peer-health.ts';
import { RPC } from '../plain/rpc.ts';
import { ack } from '../worker-messages.ts';
import { type HttpConnection, refusalOf } from './connection.ts';
import { type HttpMessage, type HttpReplyBody, sendMessage } from './messages.ts';
import { claimed, isUnknownTask, withAttempt } from './reply-reading.ts';

/** The members of the bus that its peers use. */
export interface HttpPeerOwner extends PlainPeerOwner {
  /** After this time without a response the receiver counts as having the task, milliseconds. */
  readonly acceptedAfterMs: number;
  /** Longest wait for the end of a task over one request, milliseconds. */
  readonly replyTimeoutMs: number;
  /** First delay between polls of a task whose connection was lost, milliseconds. */
  readonly pollDelayMs: number;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
}

export class HttpInbound extends PlainInbound {
  readonly #connection: HttpConnection;
  readonly #owner: HttpPeerOwner;

  constructor(peer: HealthCheckedPeer, connection: HttpConnection, owner: HttpPeerOwner) {
    super(peer, owner, ['SESSION_ANNOUNCE', 'TASK_RESULT', 'TASK_ACK', 'TASK_PROGRESS']);
    this.#connection = connection;
    this.#owner = owner;
  }

  /** Handles the reply to a dispatch. Fails as `FleetPeer.send` does where the receiver refused it. */
  async dispatched(open: OpenTask, reply: HttpReplyBody): Promise<void> {
    if (reply.kind === 'message') return this.reply(open, reply.message, true);
    // The turn itself failed there; trying it elsewhere could do the work twice.
    if (reply.kind === 'error' && reply.code === RPC.failed) return this.#failedThere(open, reply.text);
    throw refusalOf(reply, this.peer.peerId);
  }

  async #failedThere(open: OpenTask, text: string): Promise<void> {
    // A receiver that knows fleet messages may have stopped waiting, not working.
    if (this.peer.features.has('poll')) return this.#follow(open);
    await this.#end(open, { status: 'error', error_summary: text || 'the receiver failed' });
  }

  /** Ends a task with a result made here. */
  #end(open: OpenTask, members: ResultMembers): Promise<void> {
    this.tasks.remove(open);
    return this.forward(ownResult(open.taskId, open.attempt, members));
  }

  /**
   * Reads the reply to a task, whichever way it came. Resolves when the orchestrator has stored it. Fails with
   * `over_capacity` when the first reply says that the receiver is busy.
   */
  async reply(open: OpenTask, message: HttpMessage, first = false): Promise<void> {
    if (await this.readData(message, open)) return;
    const { text } = message;
    const extracted = extractReply({ text, taskId: open.taskId, replySchema: open.replySchema, exitCode: null });
    const { announce, result, conformance, prose } = extracted;
    if (announce !== null) await this.forward(announce);
    if (conformance === 'busy') {
      if (!first) return this.#end(open, busyMembers(prose));
      this.tasks.remove(open);
      const detail = { reason: 'context', retry_after_ms: 30_000 };
      throw fail('over_capacity', `${this.peer.peerId} is busy`, detail);
    }
    if (result === null) {
      this.forwardInBackground(ack(open.taskId, { accepted: true, state: 'accepted' }, { attempt: open.attempt }));
      return;
    }
    await this.forward(claimed(result, open, prose, conformance));
    open.ended = true;
  }

  /** Handles a message that belongs to no task. True: it had an announce. */
  async handleUnsolicited(message: HttpMessage): Promise<boolean> {
    if (await this.readData(message)) return true;
    const { profile } = announceInReply(message.text);
    if (profile !== undefined) await this.forward(profile);
    return profile !== undefined;
  }

  /** Forwards the messages in data parts. True: they settle the task, or the message had some and no task. */
  async readData({ data }: HttpMessage, open?: OpenTask): Promise<boolean> {
    let settled = false;
    for (const one of data) {
      const message = this.read(one);
      if (message === undefined) continue;
      if (message.type === 'SESSION_ANNOUNCE') {
        await this.forward(message);
        settled ||= open === undefined;
        continue;
      }
      // A receiver may reply about another task than the request named; it is that task's message then.
      const known = this.tasks.get((message as { readonly task_id?: string }).task_id ?? '');
      await this.forward(message.type === 'TASK_RESULT' ? withAttempt(message, known) : message);
      if (message.type === 'TASK_RESULT' && known !== undefined) known.ended = true;
      settled ||= open === undefined || known === open;
    }
    return settled;
  }

  /** Handles a failed request that waited for a task's end. */
  lost(open: OpenTask, error: HandfastError): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    const { code, message } = error;
    log.warn('reply to a task was lost', { peer: this.peer.peerId, task_id: open.taskId, code, error: message });
    if (code === 'over_capacity') void this.#end(open, busyMembers(message)).catch(() => {});
    else if (code === 'invalid_message' || code === 'too_large') {
      void this.#end(open, { status: 'error', error_summary: message }).catch(() => {});
    } else if (this.peer.features.has('poll')) void this.#follow(open);
    this.#owner.probeNow(this.peer);
  }

  /** Polls a task whose end was missed until the end is known. Never rejects. */
  async #follow(open: OpenTask): Promise<void> {
    const { pollDelayMs, stopping, newId } = this.#owner;
    const delay = new Backoff({ firstDelayMs: pollDelayMs, maxDelayMs: 15_000 });
    while (!stopping.aborted && this.tasks.get(open.taskId) === open && !open.ended) {
      await sleep(delay.next(), stopping);
      if (stopping.aborted || open.ended) return;
      const poll: FleetMessage = { type: 'TASK_POLL', protocol_version: '2.0', task_id: open.taskId };
      const body = sendMessage(newId(), { text: 'TASK_POLL', data: [poll], contextId: open.contextId });
      try {
        const reply = this.#connection.read(await this.#connection.post(body, { fleet: true }));
        if (reply.kind !== 'message') continue;
        await this.readData(reply.message, open);
        if (isUnknownTask(reply.message)) return this.tasks.remove(open);
      } catch {
        // Unreachable now; polled again.
      }
    }
  }
}

const busyMembers = (reason: string): ResultMembers => ({
  status: 'blocked',
  tokens_spent: 0,
  blocked_reason: `busy: ${reason.slice(0, 280)}`,
  blocked: { code: 'busy', retryable: true },
});

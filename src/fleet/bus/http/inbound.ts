/**
 * What one receiver says, read and handed to the orchestrator: replies to tasks, in words or in messages, whichever way they
 * came, and the ends of tasks whose reply was lost.
 *
 * Made by `peer.ts`, one for each peer; `replies.ts` brings what comes by a call of the receiver's own.
 * @see docs/protocol/fleet.md#http
 */

import { Backoff } from '../../../base/backoff.ts';
import { sleep } from '../../../base/sleep.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { asError, fail, type HandfastError } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { resultMessage } from '../../messages/encode.ts';
import { announceInReply } from '../../phases/announce-reply.ts';
import { extractReply } from '../../phases/reply.ts';
import { forwardToOrchestrator } from '../forward.ts';
import type { OpenTask } from '../plain/open-tasks.ts';
import { ack } from '../worker-messages.ts';
import { type ReceiverCalls, refusalOf } from './connection.ts';
import { type HttpMessage, type HttpReplyBody, RPC, sendMessage } from './messages.ts';
import type { HttpPeer, HttpPeerOwner } from './peer.ts';
import { claimed, saysUnknown, withAttempt } from './reply-reading.ts';

/** Messages that come from workers. */
const FROM_WORKERS = new Set<Incoming['type']>(['SESSION_ANNOUNCE', 'TASK_RESULT', 'TASK_ACK', 'TASK_PROGRESS']);

export class HttpInbound {
  readonly #peer: HttpPeer;
  readonly #calls: ReceiverCalls;
  readonly #owner: HttpPeerOwner;

  constructor(peer: HttpPeer, calls: ReceiverCalls, owner: HttpPeerOwner) {
    this.#peer = peer;
    this.#calls = calls;
    this.#owner = owner;
  }

  /** What the answer to a dispatch means for its task. Fails as `FleetPeer.send` does where the receiver refused it. */
  async answered(open: OpenTask, said: HttpReplyBody): Promise<void> {
    switch (said.kind) {
      case 'message':
        return this.reply(open, said.message, true);
      case 'error':
        // The turn itself failed there; trying it elsewhere could do the work twice.
        if (said.code === RPC.failed) return this.#failedThere(open, said.text);
        throw refusalOf(said, this.#peer.peerId);
      default:
        throw refusalOf(said, this.#peer.peerId);
    }
  }

  async #failedThere(open: OpenTask, text: string): Promise<void> {
    // One that knows our messages may have given up waiting, not working.
    if (this.#peer.features.has('poll')) return this.#follow(open);
    this.#peer.tasks.close(open);
    await this.tell(open.taskId, open.attempt, { status: 'error', error_summary: text || 'the receiver failed' });
  }

  /**
   * Reads the reply to a task, whichever way it came. Resolves when the orchestrator has kept what is in it. Fails with
   * `over_capacity` when the reply says that the receiver is busy.
   */
  async reply(open: OpenTask, message: HttpMessage, first = false): Promise<void> {
    if (await this.hearData(message, open)) return;
    const { text } = message;
    const extracted = extractReply({ text, taskId: open.taskId, replySchema: open.replySchema, exitCode: null });
    const { announce, result, conformance, prose } = extracted;
    if (announce !== null) await this.forward(announce);
    if (conformance === 'busy') {
      this.#peer.tasks.close(open);
      if (first)
        throw fail('over_capacity', `${this.#peer.peerId} is busy`, { reason: 'context', retry_after_ms: 30_000 });
      return this.#busyLate(open, prose);
    }
    if (result === null) {
      this.forwardInBackground(ack(open.taskId, { accepted: true, state: 'accepted' }, { attempt: open.attempt }));
      return;
    }
    await this.forward(claimed(result, open, prose, conformance));
    this.#peer.tasks.ended(open);
  }

  #busyLate(open: OpenTask, why: string): Promise<void> {
    const blocked = { code: 'busy', retryable: true };
    return this.tell(open.taskId, open.attempt, {
      status: 'blocked',
      tokens_spent: 0,
      blocked_reason: `busy: ${why.slice(0, 280)}`,
      blocked,
    });
  }

  /** An announce in a message that belongs to no task. True: there was one. */
  async handleUnsolicited(message: HttpMessage): Promise<boolean> {
    if (await this.hearData(message)) return true;
    const { profile } = announceInReply(message.text);
    if (profile !== undefined) await this.forward(profile);
    return profile !== undefined;
  }

  /** Hands on the messages in data parts. True: they settle the task, or there were some and no task. */
  async hearData({ data }: HttpMessage, open?: OpenTask): Promise<boolean> {
    let settled = false;
    for (const one of data) {
      const decoded = decodeValue(one);
      if (!decoded.valid) {
        this.#owner.events.unreadable(
          this.#peer,
          decoded.errors.map(({ code }) => code),
        );
        continue;
      }
      const { message } = decoded;
      if (!FROM_WORKERS.has(message.type)) continue;
      if (message.type === 'SESSION_ANNOUNCE') {
        await this.forward(message);
        settled ||= open === undefined;
        continue;
      }
      // A receiver may answer for another task than the one that was asked about; that is its own message then.
      const known = this.#peer.tasks.get((message as { readonly task_id?: string }).task_id ?? '');
      await this.forward(message.type === 'TASK_RESULT' ? withAttempt(message, known) : message);
      if (message.type === 'TASK_RESULT' && known !== undefined) this.#peer.tasks.ended(known);
      settled ||= open === undefined || known === open;
    }
    return settled;
  }

  /** The connection over which a task's end was waited for is gone. */
  lost(open: OpenTask, error: HandfastError): void {
    const { log, stopping } = this.#owner;
    if (stopping.aborted) return;
    log.warn('the reply to a task did not come', {
      peer: this.#peer.peerId,
      task_id: open.taskId,
      code: error.code,
      error: error.message,
    });
    if (error.code === 'over_capacity') {
      this.#peer.tasks.close(open);
      void this.#busyLate(open, error.message).catch(() => {});
    } else if (error.code === 'invalid_message' || error.code === 'too_large') {
      this.#peer.tasks.close(open);
      const summary = { status: 'error', error_summary: error.message } as const;
      void this.tell(open.taskId, open.attempt, summary).catch(() => {});
    } else if (this.#peer.features.has('poll')) void this.#follow(open);
    this.#owner.doubt(this.#peer);
  }

  /** Asks for a task whose end was missed until it is known. Never rejects. */
  async #follow(open: OpenTask): Promise<void> {
    const { pollDelayMs, stopping, newId } = this.#owner;
    const delay = new Backoff({ firstDelayMs: pollDelayMs, maxDelayMs: 15_000 });
    while (!stopping.aborted && this.#peer.tasks.get(open.taskId) === open && !open.over) {
      await sleep(delay.next(), stopping);
      if (stopping.aborted || open.over) return;
      const poll: FleetMessage = { type: 'TASK_POLL', protocol_version: '2.0', task_id: open.taskId };
      const body = sendMessage(newId(), { text: 'TASK_POLL', data: [poll], contextId: open.contextId });
      try {
        const said = this.#calls.read(await this.#calls.post(body, { fleet: true }));
        if (said.kind !== 'message') continue;
        await this.hearData(said.message, open);
        if (saysUnknown(said.message)) return this.#peer.tasks.close(open);
      } catch {
        // Not there now; asked again.
      }
    }
  }

  tell(
    task_id: string,
    attempt: number | undefined,
    members: Partial<Parameters<typeof resultMessage>[0]>,
  ): Promise<void> {
    const result = resultMessage({ task_id, status: 'error', ...members }, { attempt });
    const decoded = decodeValue(result);
    // What is built here is valid; the check only gives it its normalised form.
    return decoded.valid ? this.forward(decoded.message) : Promise.resolve();
  }

  forward(message: Incoming): Promise<void> {
    if (this.#owner.stopping.aborted) return Promise.reject(fail('interrupted', 'the orchestrator is stopping'));
    return forwardToOrchestrator(this.#owner.events, this.#peer, message);
  }

  forwardInBackground(message: Incoming): void {
    this.forward(message).catch((thrown: unknown) => {
      const { code, message: error } = asError(thrown);
      this.#owner.log.warn('a message was not kept', { peer: this.#peer.peerId, type: message.type, code, error });
    });
  }
}

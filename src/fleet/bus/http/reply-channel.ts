/**
 * The reply channel of a worker towards one HTTP client: a result is the response to the request that waits for it, or goes
 * to the client's own receiver, or waits in the outbox until the client asks for it again.
 *
 * One for each principal.
 */

import { evictOldest } from '../../../base/evict-oldest.ts';
import type { Feature, FleetMessage, TaskResult } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { type ReplyForm, replyText } from '../plain/reply-text.ts';
import type { ReplyChannel } from '../reply-channel.ts';
import { type Callback, type CallbackDeps, callBack } from './callbacks.ts';

/** A request that waits for the result of a task. Resolves with whether the client has received it, as far as known. */
export type Waiter = (result: TaskResult) => Promise<boolean>;

/** Tasks whose form of reply is remembered. */
const MAX_FORMS = 10_000;

const NOTHING: ReadonlySet<Feature> = new Set();

export class HttpReplyChannel implements ReplyChannel {
  readonly name: string;
  /** Nothing can be sent to a client without a request. */
  readonly features = NOTHING;
  readonly #callback: Callback | undefined;
  readonly #deps: CallbackDeps;
  readonly #waiters = new Map<string, Set<Waiter>>();
  readonly #forms = new Map<string, { readonly form: ReplyForm; readonly contextId: string }>();

  constructor(name: string, callback: Callback | undefined, deps: CallbackDeps) {
    this.name = name;
    this.#callback = callback;
    this.#deps = deps;
  }

  /** Replies are sent later, by a call to the client's receiver. */
  get managed(): boolean {
    return this.#callback !== undefined;
  }

  /** Drops messages before the result: the announce rides on replies. */
  send(_message: FleetMessage): void {}

  /** Remembers the form of a task's reply, where it is sent later. */
  remember(taskId: string, form: ReplyForm, contextId: string): void {
    if (!this.managed) return;
    this.#forms.delete(taskId);
    this.#forms.set(taskId, { form, contextId });
    evictOldest(this.#forms, MAX_FORMS);
  }

  /** Calls `waiter` with the result of a task; returns a function that removes it. */
  wait(taskId: string, waiter: Waiter): () => void {
    const waiters = this.#waiters.get(taskId) ?? new Set();
    this.#waiters.set(taskId, waiters.add(waiter));
    return () => {
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(taskId) === waiters) this.#waiters.delete(taskId);
    };
  }

  async deliverResult(result: TaskResult): Promise<void> {
    const { task_id: taskId } = result;
    for (const waiter of [...(this.#waiters.get(taskId) ?? [])]) if (await waiter(result)) return;
    if (this.#callback === undefined) throw fail('unreachable', 'no open request for this result', { task_id: taskId });
    const known = this.#forms.get(taskId);
    await callBack(
      this.#callback,
      {
        text: replyText(result, known?.form ?? 'structured'),
        data: [result],
        contextId: known?.contextId ?? result.envelope?.context_id ?? taskId,
        messageId: `${taskId}#result`,
      },
      this.#deps,
    );
    this.#forms.delete(taskId);
  }
}

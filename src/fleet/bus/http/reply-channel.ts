/**
 * The outlet of a worker towards one HTTP client: a result answers the request that waits for it, or is sent to the
 * client's own receiver, or waits in the outbox until somebody asks for it again.
 *
 * One for each principal. Made by `worker-server.ts`.
 */
import type { Feature, FleetMessage, TaskResult } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { evictOldest } from '../evict-oldest.ts';
import { type ReplyForm, replyText } from '../plain/reply-text.ts';
import type { ReplyChannel } from '../reply-channel.ts';
import { type Callback, type CallbackDeps, callBack } from './callbacks.ts';

/** Somebody who waits for the result of a task. */
export interface Waiter {
  /** Answers with the result; resolves with whether the client has it, as far as can be told. */
  take(result: TaskResult): Promise<boolean>;
}

/** Tasks whose form of reply is remembered. */
const MAX_FORMS = 10_000;

const NOTHING: ReadonlySet<Feature> = new Set();

export class HttpReplyChannel implements ReplyChannel {
  readonly name: string;
  /** Nothing can be sent to a client that did not ask. */
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

  /** Replies are sent later, not waited for. */
  get managed(): boolean {
    return this.#callback !== undefined;
  }

  /** What comes in between is not told: the description rides on replies. */
  send(_message: FleetMessage): void {}

  /** Remembers how the reply to a task is to look, where it will be sent. */
  remember(taskId: string, form: ReplyForm, contextId: string): void {
    if (!this.managed) return;
    this.#forms.delete(taskId);
    this.#forms.set(taskId, { form, contextId });
    evictOldest(this.#forms, MAX_FORMS);
  }

  /** Waits for the result of a task; what is returned undoes it. */
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
    for (const waiter of [...(this.#waiters.get(taskId) ?? [])]) if (await waiter.take(result)) return;
    if (this.#callback === undefined) {
      throw fail('unreachable', 'nobody waits for this result now', { task_id: taskId });
    }
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

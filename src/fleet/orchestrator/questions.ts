/**
 * Questions of workers: stored with the task, put to a person where one can be asked, answered once, expired at their deadline.
 * A worker that gets no answer continues as if denied.
 */

import type { Log } from '../../base/log.ts';
import { type Clock, TimerQueue } from '../../base/timer-queue.ts';
import { checkValue } from '../../base/value-check.ts';
import type { TaskAnswer, TaskQuestion } from '../../protocol/fleet.ts';
import { asError, fail } from '../../wire/errors.ts';
import { fleetMessage } from '../messages/encode.ts';
import type { OrchestratorOptions } from './orchestrator-options.ts';
import type { Peers } from './peers.ts';
import type { TaskRegistry, TrackedTask } from './task-registry.ts';

type AskUser = NonNullable<OrchestratorOptions['askUser']>;
export type Answer = Pick<TaskAnswer, 'allowed' | 'content' | 'reason'>;

/** Time that a question waits that names none, milliseconds. */
const DEFAULT_EXPIRES_MS = 600_000;

export interface OperatorQuestionsOptions {
  readonly registry: TaskRegistry;
  readonly peers: Peers;
  readonly clock: Clock;
  readonly askUser: AskUser | undefined;
  readonly log: Log;
}

export class OperatorQuestions {
  readonly #options: OperatorQuestionsOptions;
  readonly #expiries: TimerQueue<string>;
  /** Key of a question → the controller that ends the asking. */
  readonly #asked = new Map<
    string,
    { readonly taskId: string; readonly id: string; readonly abort: AbortController }
  >();

  constructor(options: OperatorQuestionsOptions) {
    this.#options = options;
    this.#expiries = new TimerQueue(options.clock, (key) => this.#expire(key));
  }

  /** Takes a question of a worker. Resolves when the question is on disk. */
  async asked(tracked: TrackedTask, question: TaskQuestion): Promise<void> {
    const { outcome } = this.#options.registry.apply(tracked, { type: 'asked', question });
    if (outcome === 'changed') this.#watch(tracked, question);
    if (outcome !== 'refused') await this.#options.registry.save(tracked);
  }

  /** Lets questions of an earlier process wait again. */
  resume(tracked: TrackedTask): void {
    for (const question of tracked.record.questions) this.#watch(tracked, question);
  }

  /** Fails with `not_found`, `schema_violation` for content that was not asked for, or with why it could not be sent. */
  async answer(tracked: TrackedTask, questionId: string, { allowed, content, reason }: Answer): Promise<void> {
    const { registry, peers } = this.#options;
    const { worker, attempt, questions } = tracked.record;
    const question = questions.find(({ question_id }) => question_id === questionId);
    if (question === undefined)
      throw fail('not_found', `no pending question ${questionId}`, { question_id: questionId });
    const given = allowed ? await this.#checked(question, content) : content;
    const entry = peers.get(worker ?? '');
    if (entry === undefined || !entry.connected) throw fail('unreachable', `${worker} is not connected`, { worker });
    const message = fleetMessage(
      'TASK_ANSWER',
      {
        task_id: tracked.id,
        question_id: questionId,
        allowed,
        ...(given !== undefined && { content: given }),
        ...(reason !== undefined && { reason }),
      },
      { attempt },
    );
    await entry.peer.send(message, { mode: entry.mode });
    this.#settle(keyOf(tracked.id, questionId));
    registry.apply(tracked, { type: 'answered', question_id: questionId });
    await registry.save(tracked);
  }

  /**
   * Returns the content with the defaults of its schema. Content that cannot be checked is left to the worker, whose schema is
   * broken.
   */
  async #checked({ question_id, schema }: TaskQuestion, content: Answer['content']): Promise<Answer['content']> {
    if (schema === undefined) return content;
    const check = await checkValue(schema, content ?? {});
    if (check.ok) return check.answer as Answer['content'];
    if (check.hopeless) return content;
    const { problems } = check;
    throw fail('schema_violation', `the answer was not sent: ${problems.join('; ')}`, {
      question_id,
      schema,
      problems,
    });
  }

  /** Cancels the questions of an ended attempt. */
  ended(taskId: string, questions: readonly TaskQuestion[]): void {
    for (const { question_id } of questions) this.#settle(keyOf(taskId, question_id));
  }

  stop(): void {
    this.#expiries.stop();
    for (const { abort } of this.#asked.values()) abort.abort(fail('interrupted', 'the orchestrator stops'));
    this.#asked.clear();
  }

  #watch(tracked: TrackedTask, question: TaskQuestion): void {
    const { clock } = this.#options;
    const key = keyOf(tracked.id, question.question_id);
    const expiresMs = question.expires_s === undefined ? DEFAULT_EXPIRES_MS : question.expires_s * 1000;
    this.#expiries.set(key, clock.monotonic() + expiresMs);
    const abort = new AbortController();
    this.#asked.set(key, { taskId: tracked.id, id: question.question_id, abort });
    void this.#ask(tracked, question, abort.signal);
  }

  async #ask(tracked: TrackedTask, question: TaskQuestion, signal: AbortSignal): Promise<void> {
    const { askUser, log } = this.#options;
    if (askUser === undefined) return;
    try {
      const { allowed, content, reason } = await askUser(question, tracked.record, signal);
      if (signal.aborted) return;
      await this.answer(tracked, question.question_id, { allowed, content, reason });
    } catch (thrown) {
      if (signal.aborted) return;
      const { code, message } = asError(thrown);
      log.warn('question was not answered', {
        task_id: tracked.id,
        question_id: question.question_id,
        code,
        message,
      });
    }
  }

  #expire(key: string): void {
    const asked = this.#asked.get(key);
    if (asked === undefined) return;
    this.#settle(key);
    const tracked = this.#options.registry.get(asked.taskId);
    if (tracked !== undefined) this.#options.registry.apply(tracked, { type: 'answered', question_id: asked.id });
  }

  #settle(key: string): void {
    this.#expiries.clear(key);
    this.#asked.get(key)?.abort.abort(fail('cancelled', 'the question is no longer pending'));
    this.#asked.delete(key);
  }
}

function keyOf(taskId: string, questionId: string): string {
  return `${taskId}\n${questionId}`;
}

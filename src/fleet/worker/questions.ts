/**
 * Questions of executors to people, through the orchestrator: sent, answered once, and expired at a deadline.
 *
 * One for each task that runs.
 */
import type { Timer } from '../../base/timer-queue.ts';
import type { TaskAnswer, TaskQuestion } from '../../protocol/fleet.ts';
import type { ExecutorAnswer, ExecutorQuestion } from '../executors/executor.ts';
import { fleetMessage } from '../messages/encode.ts';

/** Questions of one task that wait at a time. */
const MAX_OPEN = 16;
/** Time that a person has, seconds, where the task itself has longer. */
const EXPIRES_S = 600;

export interface QuestionsOptions {
  readonly taskId: string;
  readonly attempt: number;
  readonly newId: () => string;
  readonly timer: Timer;
  /** Sends it; false: the orchestrator accepts no questions. */
  readonly send: (question: TaskQuestion) => boolean;
}

interface Open {
  readonly message: TaskQuestion;
  readonly settle: (answer: ExecutorAnswer) => void;
}

const refused = (reason: string): ExecutorAnswer => ({ allowed: false, reason });

export class ExecutorQuestions {
  readonly #options: QuestionsOptions;
  readonly #open = new Map<string, Open>();
  #ended = false;

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Asks and waits; denied when no one can be asked, no answer comes within `leftMs`, or the task ends. Never rejects. */
  ask(question: ExecutorQuestion, leftMs: number): Promise<ExecutorAnswer> {
    const { taskId, attempt, newId, send, timer } = this.#options;
    if (this.#ended) return Promise.resolve(refused('the task has ended'));
    if (this.#open.size >= MAX_OPEN) return Promise.resolve(refused('too many questions wait for an answer'));
    const expiresS = Math.max(1, Math.floor(Math.min(EXPIRES_S, leftMs / 1000)));
    const { kind, title, tool, risks, schema } = question;
    const message = fleetMessage(
      'TASK_QUESTION',
      {
        task_id: taskId,
        question_id: newId(),
        kind,
        title,
        ...(tool !== undefined && { tool }),
        ...(risks !== undefined && { risks }),
        ...(schema !== undefined && { schema }),
        expires_s: expiresS,
      },
      { attempt },
    );
    if (!send(message)) return Promise.resolve(refused('the orchestrator accepts no questions'));
    return new Promise((resolve) => {
      const settle = (answer: ExecutorAnswer): void => {
        cancel();
        this.#open.delete(message.question_id);
        resolve(answer);
      };
      const cancel = timer(() => settle(refused('no answer before the question expired')), expiresS * 1000);
      this.#open.set(message.question_id, { message, settle });
    });
  }

  /** Takes an answer; a second one, and one to a question that has expired, does nothing. */
  answer({ question_id, allowed, content, reason }: TaskAnswer): void {
    this.#open.get(question_id)?.settle({
      allowed,
      ...(content !== undefined && { content }),
      ...(reason !== undefined && { reason }),
    });
  }

  /** Sends open questions again: the orchestrator is connected again, and may have missed them. */
  resend(): void {
    for (const { message } of this.#open.values()) this.#options.send(message);
  }

  /** Ends with the task. */
  end(): void {
    this.#ended = true;
    for (const { settle } of [...this.#open.values()]) settle(refused('the task has ended'));
  }
}

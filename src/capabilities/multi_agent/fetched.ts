/**
 * The tasks of a subagent that fetches them over its session (`multi_agent/task/req`) and reports their end
 * (`multi_agent/finish/req`): of programs, which speak A2E.
 */
import { withTimeout } from '../../base/race.ts';
import { fail } from '../../wire/errors.ts';
import type {
  FetchedTasks,
  SubagentProgress,
  SubagentResult,
  SubagentSpending,
  SubagentTaskContext,
  SubagentWork,
} from './backend.ts';
import { failure } from './errors.ts';

interface Open {
  readonly work: SubagentWork;
  readonly context: SubagentTaskContext;
  readonly settled: PromiseWithResolvers<SubagentResult>;
  fetched: boolean;
}

export class TaskQueue implements FetchedTasks {
  #open: Open | undefined;
  #waiting: ((open: Open) => void) | undefined;

  /** Offers a task until it is finished or aborted. */
  async run(work: SubagentWork, context: SubagentTaskContext): Promise<SubagentResult> {
    const settled = Promise.withResolvers<SubagentResult>();
    const open: Open = { work, context, settled, fetched: false };
    this.#open = open;
    const stopped = () => settled.reject(context.signal.reason);
    context.signal.addEventListener('abort', stopped, { once: true });
    this.#waiting?.(open);
    try {
      return await settled.promise;
    } finally {
      context.signal.removeEventListener('abort', stopped);
      if (this.#open === open) this.#open = undefined;
    }
  }

  async next(signal: AbortSignal, waitMs = Number.POSITIVE_INFINITY): Promise<SubagentWork | undefined> {
    const take = (open: Open): SubagentWork => {
      open.fetched = true;
      return open.work;
    };
    if (this.#open?.fetched === false) return take(this.#open);
    if (this.#waiting !== undefined) throw failure('busy', 'this subagent waits for its next task already');
    const next = Promise.withResolvers<Open>();
    const aborted = () => next.reject(signal.reason);
    signal.addEventListener('abort', aborted, { once: true });
    if (signal.aborted) aborted();
    this.#waiting = next.resolve;
    try {
      return take(await withTimeout(next.promise, waitMs, () => OVER));
    } catch (thrown) {
      if (thrown === OVER) return undefined;
      throw thrown;
    } finally {
      this.#waiting = undefined;
      signal.removeEventListener('abort', aborted);
    }
  }

  report(taskId: string, progress: SubagentProgress, spending: SubagentSpending): boolean {
    const open = this.#of(taskId);
    if (open === undefined) return false;
    if (progress.message !== undefined || progress.percent !== undefined) open.context.progress(progress);
    open.context.spent(spending);
    return this.#of(taskId) !== undefined;
  }

  finish(taskId: string, outcome: SubagentResult | { readonly error: string }): boolean {
    const open = this.#of(taskId);
    if (open === undefined) return false;
    if ('error' in outcome) open.settled.reject(failure('failed', outcome.error));
    else open.settled.resolve(outcome);
    this.#open = undefined;
    return true;
  }

  #of(taskId: string): Open | undefined {
    const open = this.#open;
    return open?.fetched === true && open.work.task_id === taskId && !open.context.signal.aborted ? open : undefined;
  }
}

const OVER = fail('timeout', 'no task came');

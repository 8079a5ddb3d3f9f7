/**
 * The turns of an executor that run, so that all of them can be ended at once. Held by each executor of this folder.
 */
import { fail } from '../../wire/errors.ts';
import type { ExecutorContext, ExecutorOutcome } from './executor.ts';

export class RunningTurns {
  readonly #running = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();

  /** True once they were stopped. */
  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** The context of a turn, whose signal also aborts when the executor is stopped. */
  inside(context: ExecutorContext): ExecutorContext {
    return { ...context, signal: AbortSignal.any([context.signal, this.#stopping.signal]) };
  }

  /** Adds a turn until it has ended. */
  add(outcome: Promise<ExecutorOutcome>): Promise<ExecutorOutcome> {
    this.#running.add(outcome);
    const over = (): void => void this.#running.delete(outcome);
    outcome.then(over, over);
    return outcome;
  }

  /** Stops all of them, and resolves when they have ended. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the executor is stopped'));
    await Promise.allSettled(this.#running);
  }
}

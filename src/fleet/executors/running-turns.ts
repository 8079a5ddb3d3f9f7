/**
 * The running turns of an executor, so that all of them can be stopped at once.
 */
import { fail } from '../../wire/errors.ts';
import type { ExecutorContext, ExecutorOutcome } from './executor.ts';

export class RunningTurns {
  readonly #running = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();

  /** True after `stop` was called. */
  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Returns the context of a turn, whose signal also aborts when the executor is stopped. */
  inside(context: ExecutorContext): ExecutorContext {
    return { ...context, signal: AbortSignal.any([context.signal, this.#stopping.signal]) };
  }

  /** Tracks a turn until it ends. */
  add(outcome: Promise<ExecutorOutcome>): Promise<ExecutorOutcome> {
    this.#running.add(outcome);
    const ended = (): void => void this.#running.delete(outcome);
    outcome.then(ended, ended);
    return outcome;
  }

  /** Stops all turns; resolves when they have ended. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort(fail('interrupted', 'the executor is stopped'));
    await Promise.allSettled(this.#running);
  }
}

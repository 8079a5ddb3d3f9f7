/**
 * Waits for the first word on a task that was sent to a receiver. One that works at once answers when the task has ended;
 * by then it has long had it, so silence for a while after the request has left counts as its word.
 *
 * Used by `peer.ts`.
 */
import { asError, type HandfastError } from '../../../wire/errors.ts';

export interface FirstWordOptions {
  /** Gives the waiting up; the request goes on, and what becomes of it is told to nobody. */
  readonly signal?: AbortSignal;
  /** Milliseconds from when the request has left. */
  readonly graceMs: number;
  /** There was no answer for so long. */
  readonly taken: () => void;
  /** After `taken`, the request failed. */
  readonly failedLater: (error: HandfastError) => void;
}

/**
 * Resolves when the request was answered or counts as taken; rejects as it does, or with the reason of `signal`. `ask` makes
 * the request and calls what it is given once that has left this machine.
 */
export function awaitFirstResponse(
  ask: (onSent: () => void) => Promise<void>,
  { signal, graceMs, taken, failedLater }: FirstWordOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let state: 'waiting' | 'taken' | 'over' = 'waiting';
    let grace: NodeJS.Timeout | undefined;
    const settle = (now: 'taken' | 'over', act: () => void): void => {
      state = now;
      clearTimeout(grace);
      signal?.removeEventListener('abort', giveUp);
      act();
    };
    const giveUp = (): void => settle('over', () => reject(asError(signal?.reason, 'cancelled')));
    const onSent = (): void => {
      if (state !== 'waiting') return;
      grace ??= setTimeout(() => {
        settle('taken', resolve);
        taken();
      }, graceMs);
    };
    signal?.addEventListener('abort', giveUp, { once: true });
    ask(onSent).then(
      () => {
        if (state === 'waiting') settle('over', resolve);
      },
      (thrown: unknown) => {
        if (state === 'waiting') settle('over', () => reject(thrown));
        else if (state === 'taken') failedLater(asError(thrown));
      },
    );
  });
}

/**
 * Waits until a dispatch to a receiver counts as accepted. A receiver that works at once responds when the task has ended;
 * by then it has long had the task, so silence for a while after the request was sent counts as acceptance.
 */
import { asError, type HandfastError } from '../../../wire/errors.ts';

export interface FirstResponseOptions {
  /** Stops waiting; the request continues, and its outcome is not reported. */
  readonly signal?: AbortSignal;
  /** Milliseconds after the request was sent. */
  readonly graceMs: number;
  /** The grace passed without a response. */
  readonly accepted: () => void;
  /** After `accepted`, the request failed. */
  readonly failedLater: (error: HandfastError) => void;
}

/**
 * Resolves when the request was answered or counts as accepted; rejects as it does, or with the reason of `signal`. `request`
 * calls `onSent` when it was given to the system.
 */
export function awaitFirstResponse(
  request: (onSent: () => void) => Promise<void>,
  { signal, graceMs, accepted, failedLater }: FirstResponseOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let state: 'waiting' | 'accepted' | 'ended' = 'waiting';
    let grace: NodeJS.Timeout | undefined;
    const settle = (now: 'accepted' | 'ended', act: () => void): void => {
      state = now;
      clearTimeout(grace);
      signal?.removeEventListener('abort', abandon);
      act();
    };
    const abandon = (): void => settle('ended', () => reject(asError(signal?.reason, 'cancelled')));
    const onSent = (): void => {
      if (state !== 'waiting') return;
      grace ??= setTimeout(() => {
        settle('accepted', resolve);
        accepted();
      }, graceMs);
    };
    signal?.addEventListener('abort', abandon, { once: true });
    request(onSent).then(
      () => {
        if (state === 'waiting') settle('ended', resolve);
      },
      (thrown: unknown) => {
        if (state === 'waiting') settle('ended', () => reject(thrown));
        else if (state === 'accepted') failedLater(asError(thrown));
      },
    );
  });
}

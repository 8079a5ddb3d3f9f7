/**
 * The list of attempts of a task: ending one, bounding the list, adding up the tokens they spent.
 */
import type { TaskResult } from '../../protocol/fleet.ts';
import type { Attempt } from './task.ts';

/** Past this many, attempts that came to nothing are removed, oldest first. */
const MAX_ATTEMPTS = 50;

/** The end of an attempt. */
export type AttemptEnd = Required<Pick<Attempt, 'ended_at' | 'outcome' | 'tokens_spent'>> &
  Pick<Attempt, 'reason' | 'tokens_claimed'>;

/** Returns the tokens that an attempt has spent by its result. */
export function spentBy(
  result: Pick<TaskResult, 'tokens_spent' | 'usage'> | undefined,
): Pick<AttemptEnd, 'tokens_spent' | 'tokens_claimed'> {
  const { tokens_spent = null, usage } = result ?? {};
  return { tokens_spent, ...(tokens_spent !== null && usage?.source === 'claimed' && { tokens_claimed: true }) };
}

/** Returns the list with one attempt ended, or its end updated where more is known of it. */
export function endAttempt(attempts: readonly Attempt[], attempt: number, end: AttemptEnd): readonly Attempt[] {
  return attempts.map((one) => (one.attempt === attempt ? { ...one, ...end } : one));
}

/** Returns the tokens that all ended attempts have spent; one that is unknown makes the sum unknown. */
export function sumTokens(attempts: readonly Attempt[]): number | null {
  let sum = 0;
  for (const { outcome, tokens_spent = null } of attempts) {
    if (outcome === undefined) continue;
    if (tokens_spent === null) return null;
    sum += tokens_spent;
  }
  return sum;
}

/** Bounds the list. Only an attempt that spent nothing is removed, so that the sum stays right. */
export function trimmed(attempts: readonly Attempt[]): readonly Attempt[] {
  if (attempts.length <= MAX_ATTEMPTS) return attempts;
  const idle = attempts.findIndex(({ outcome, tokens_spent }) => outcome !== undefined && tokens_spent === 0);
  return idle === -1 ? attempts : attempts.toSpliced(idle, 1);
}

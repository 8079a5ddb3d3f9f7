/**
 * Sends a question of a turn to the orchestrator's user, for the executors that can ask.
 */
import { withGrace } from '../../base/race.ts';
import type { ExecutorAnswer, ExecutorContext, ExecutorQuestion } from './executor.ts';

/** Returns the answer; refused as soon as the turn is stopped. Never rejects. */
export async function askWhileRunning(
  { events, signal }: Pick<ExecutorContext, 'events' | 'signal'>,
  question: ExecutorQuestion,
): Promise<ExecutorAnswer> {
  const refused: ExecutorAnswer = { allowed: false, reason: 'the turn was stopped' };
  if (signal.aborted) return refused;
  return withGrace(events.ask(question), signal, 0, () => refused);
}

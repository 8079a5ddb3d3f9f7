/** Asking the orchestrator's user from within a turn. Called by the executors that can ask. */
import type { ExecutorAnswer, ExecutorContext, ExecutorQuestion } from './executor.ts';

/** The answer; refused as soon as the turn is stopped. Never rejects. */
export async function askWhileRunning(
  { events, signal }: Pick<ExecutorContext, 'events' | 'signal'>,
  question: ExecutorQuestion,
): Promise<ExecutorAnswer> {
  const refused: ExecutorAnswer = { allowed: false, reason: 'the turn was stopped' };
  if (signal.aborted) return refused;
  const stopped = Promise.withResolvers<ExecutorAnswer>();
  const abort = (): void => stopped.resolve(refused);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([events.ask(question), stopped.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

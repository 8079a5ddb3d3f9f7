/**
 * Measures the tokens of an empty turn. Every first turn of an agent with its own prompts and tools spends that many before any
 * work.
 */
import { randomUUID } from 'node:crypto';
import type { Executor, ExecutorContext, ExecutorEvents } from '../executor.ts';
import { tokensSpent } from '../usage.ts';

const EMPTY_TURN = 'Reply with the word "ok". Do nothing else.';

const IGNORED_EVENTS: ExecutorEvents = {
  progress() {},
  usage() {},
  started() {},
  mcpHealth() {},
  ask: async () => ({ allowed: false, reason: 'no user can be asked' }),
};

/**
 * Returns the tokens; null where the turn failed or its usage is unknown. `forget` removes the conversation of the measurement.
 */
export async function overheadOf(
  executor: Executor,
  { cwd, signal }: Pick<ExecutorContext, 'cwd' | 'signal'>,
  forget: (contextId: string) => Promise<void>,
): Promise<number | null> {
  const contextId = `overhead-${randomUUID()}`;
  const task = { taskId: contextId, contextId, prompt: EMPTY_TURN, tokenBudget: null, access: 'read' } as const;
  const { outcome } = executor.start(task, { cwd, signal, events: IGNORED_EVENTS });
  try {
    const { ending, failure, usage } = await outcome;
    return ending === 'completed' && failure === undefined ? tokensSpent(usage) : null;
  } finally {
    await forget(contextId).catch(() => {});
  }
}

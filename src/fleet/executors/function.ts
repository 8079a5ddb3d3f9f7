/**
 * The `function` executor: a function of this process does the work. For workers inside a program, for tests, and for
 * measuring the overhead of the fleet itself.
 */
import { withGrace } from '../../base/race.ts';
import { asError } from '../../wire/errors.ts';
import type { Executor, ExecutorContext, ExecutorOutcome, ExecutorTask } from './executor.ts';
import { RunningTurns } from './running-turns.ts';
import { UNKNOWN_USAGE } from './usage.ts';

/** The outcome of a function. Defaults: `ending` is `completed`, usage is unknown. */
export type FunctionResult = Pick<ExecutorOutcome, 'text'> & Partial<Omit<ExecutorOutcome, 'exitCode'>>;

/**
 * Does a task. Returns its reply, or the reply with usage and other facts; an exception becomes the outcome's `failure`. It
 * should end when `context.signal` aborts: after two seconds it is abandoned.
 */
export type TaskFunction = (
  task: ExecutorTask,
  context: ExecutorContext,
) => string | FunctionResult | Promise<string | FunctionResult>;

export interface FunctionExecutorOptions {
  readonly run: TaskFunction;
  /** One line for people; default: the function's name. */
  readonly label?: string;
}

/** Wait for a stopped function, milliseconds; after it the function is abandoned. */
const STOP_MS = 2000;

/** Makes an executor of a function. It is stateless: it stores no conversation. */
export function functionExecutor({ run, label }: FunctionExecutorOptions): Executor {
  const turns = new RunningTurns();
  return {
    kind: 'function',
    canSteer: false,
    canAsk: true,
    probe: async () => ({ present: true, authenticated: true, detail: label ?? (run.name || 'a function') }),
    hasConversation: () => false,
    start: (task, context) => ({ outcome: turns.add(outcomeOf(run, task, turns.inside(context))) }),
    stop: () => turns.stop(),
  };
}

async function outcomeOf(run: TaskFunction, task: ExecutorTask, context: ExecutorContext): Promise<ExecutorOutcome> {
  const { signal } = context;
  if (signal.aborted) return stoppedBy(signal.reason);
  return withGrace(called(run, task, context), signal, STOP_MS, stoppedBy);
}

async function called(run: TaskFunction, task: ExecutorTask, context: ExecutorContext): Promise<ExecutorOutcome> {
  try {
    const result = await run(task, context);
    const given = typeof result === 'string' ? { text: result } : result;
    const ending = context.signal.aborted ? 'stopped' : 'completed';
    return { ending, usage: UNKNOWN_USAGE, ...given, exitCode: null };
  } catch (error) {
    if (context.signal.aborted) return stoppedBy(context.signal.reason);
    return { ...nothing, ending: 'completed', failure: asError(error).message };
  }
}

const nothing = { text: '', exitCode: null, usage: UNKNOWN_USAGE } as const;

const stoppedBy = (reason: unknown): ExecutorOutcome => ({
  ...nothing,
  ending: 'stopped',
  failure: `stopped: ${asError(reason).message}`,
});

/**
 * An executor that acts as a test says, task by task, and records its tasks.
 */
import type {
  Execution,
  Executor,
  ExecutorContext,
  ExecutorOutcome,
  ExecutorTask,
  Readiness,
} from '../../../src/fleet/executors/executor.ts';

/** Behaviour of a turn; members left out of the outcome are those of a turn that ended well and left no record of tokens. */
export type Turn = (
  task: ExecutorTask,
  context: ExecutorContext,
) => string | Partial<ExecutorOutcome> | Promise<string | Partial<ExecutorOutcome>>;

export interface ScriptedExecutor extends Executor {
  /** Every turn that was started, in order. */
  readonly turns: readonly ExecutorTask[];
  /** Inputs of a running turn. */
  readonly steered: readonly string[];
}

export interface ScriptOptions {
  readonly readiness?: () => Readiness;
  /** Remembers conversations, so that a reply may be asked for once more. Default true. */
  readonly remembers?: boolean;
  readonly measureOverhead?: Executor['measureOverhead'];
}

/** Makes a reply with one TASK_RESULT block. */
export function block(taskId: string, members: Readonly<Record<string, unknown>> = {}): string {
  const result = { type: 'TASK_RESULT', protocol_version: '2.0', task_id: taskId, status: 'done', ...members };
  return `Here is what I did.\n\n\`\`\`json\n${JSON.stringify(result)}\n\`\`\``;
}

export function scriptedExecutor(
  turn: Turn = ({ taskId }) => block(taskId),
  options: ScriptOptions = {},
): ScriptedExecutor {
  const { readiness = () => ({ present: true, authenticated: true, detail: 'scripted' }), remembers = true } = options;
  const turns: ExecutorTask[] = [];
  const steered: string[] = [];
  const known = new Set<string>();
  const { measureOverhead } = options;
  return {
    kind: 'scripted',
    canSteer: true,
    canAsk: true,
    turns,
    steered,
    probe: async () => readiness(),
    hasConversation: (contextId) => known.has(contextId),
    start(task, context): Execution {
      turns.push(task);
      if (remembers) known.add(task.contextId);
      const ended = async (): Promise<ExecutorOutcome> => {
        const given = await turn(task, context);
        const outcome = typeof given === 'string' ? { text: given } : given;
        const ending = context.signal.aborted ? 'stopped' : 'completed';
        return { text: '', ending, exitCode: null, usage: { source: 'unknown' }, ...outcome };
      };
      return {
        outcome: ended(),
        steer: async (text) => {
          steered.push(text);
          return 'injected';
        },
      };
    },
    ...(measureOverhead !== undefined && { measureOverhead }),
    stop: async () => {},
  };
}

/** Resolves when the signal aborts. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

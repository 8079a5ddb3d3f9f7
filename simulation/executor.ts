/**
 * The executor of a simulated worker: a {@link Run} in place of an agent. It reports tokens as it spends them, ends by
 * itself, because a server died, or because the worker's signal aborts, and replies with a result block as an agent
 * does.
 */
import type {
  Execution,
  Executor,
  ExecutorContext,
  ExecutorOutcome,
  ExecutorTask,
} from '../src/fleet/executors/executor.ts';
import { asError } from '../src/wire/errors.ts';
import type { SimProcess } from './process.ts';
import { Run } from './run.ts';
import type { Site } from './site.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { SimTask } from './workload.ts';

/** Checks and measurements of the runs of a worker. */
export interface RunObserver {
  started(run: Run, contextBudget: number | null): void;
  ended(run: Run): void;
  /** Called when a dispatch that could not be done there was started; `spent`: this was found out by spending tokens. */
  deadOnArrival(spent: boolean): void;
}

export interface SimExecutorOptions {
  readonly site: Site;
  readonly time: VirtualTime;
  readonly process: SimProcess;
  readonly taskOf: (taskId: string) => SimTask;
  /** Returns the attempt that the worker's journal has as started; undefined: none. */
  readonly startedAttempt: (taskId: string) => number | undefined;
  readonly observer: RunObserver;
}

/** Share of the run after which a missing server is noticed. */
const NOTICES_AT = 0.3;
/** Shares of the budget at which tokens are reported: notice is given at 80 %, the run is stopped at 100 %. */
const REPORTED_AT = [0.8, 1];

/** The end of a run that its worker stops, by the code of the reason. */
const STOPS: Readonly<Record<string, 'budget' | 'deadline' | undefined>> = {
  budget_spent: 'budget',
  timeout: 'deadline',
};

export function simExecutor(options: SimExecutorOptions): Executor {
  const { site } = options;
  return {
    kind: 'function',
    canSteer: false,
    canAsk: false,
    probe: async () => ({ present: true, authenticated: true, detail: site.name, version: '1' }),
    hasConversation: () => false,
    start: (task, context): Execution => ({ outcome: startRun(options, task, context) }),
    stop: async () => {},
  };
}

function startRun(options: SimExecutorOptions, task: ExecutorTask, context: ExecutorContext): Promise<ExecutorOutcome> {
  const { site, time, process, taskOf, startedAttempt, observer } = options;
  const { signal, events } = context;
  const simTask = taskOf(task.taskId);
  const { required_mcp, required_capabilities } = simTask.route;
  const unmet = site.unmet(required_mcp, required_capabilities);
  if (unmet) observer.deadOnArrival(!site.revealing);
  // Agents that report the servers they found report them before their first turn.
  if (site.revealing) events.mcpHealth(site.health);
  if (signal.aborted) return Promise.resolve(stopped(0));
  return new Promise((resolve) => {
    const cancels: (() => void)[] = [];
    const limits = { budget: null, deadlineMs: null, noticesAt: NOTICES_AT };
    const run = new Run(site, simTask, startedAttempt(task.taskId) ?? 0, time, limits, () => {
      for (const cancel of cancels) cancel();
      signal.removeEventListener('abort', stop);
      observer.ended(run);
      if (run.end !== 'killed') resolve(outcomeOf(run));
    });
    const stop = (): void => run.stop(STOPS[asError(signal.reason).code]);
    signal.addEventListener('abort', stop, { once: true });
    for (const share of task.tokenBudget === null ? [] : REPORTED_AT) {
      const tokens = (task.tokenBudget as number) * share;
      const ms = run.spentAfterMs(tokens);
      const report = (): void => events.usage({ source: 'measured', output: Math.max(run.spent, Math.ceil(tokens)) });
      if (ms !== undefined) cancels.push(process.after(ms, report));
    }
    observer.started(run, task.tokenBudget);
  });
}

function stopped(spent: number): ExecutorOutcome {
  return { text: '', ending: 'stopped', exitCode: null, usage: { source: 'measured', output: spent } };
}

function outcomeOf({ end, spent, task }: Run): ExecutorOutcome {
  if (end === 'stopped' || end === 'budget' || end === 'deadline') return stopped(spent);
  const ended = { ending: 'completed', exitCode: null, usage: { source: 'measured', output: spent } } as const;
  if (end !== 'done') return { ...ended, text: '', failure: `the run ended: ${end}` };
  const result = { type: 'TASK_RESULT', protocol_version: '2.0', task_id: task.task_id, status: 'done' };
  return { ...ended, text: `It is done.\n\n\`\`\`json\n${JSON.stringify(result)}\n\`\`\`` };
}

/**
 * `handfast plan dispatch`: hands the ready tasks of a plan to a fleet until none is left, even when the host or the fleet is
 * killed meanwhile and restarts.
 */
import { sleep } from '../../base/sleep.ts';
import type { CapabilityCommand, CommandContext, CommandFleet, FleetTaskSpec } from '../../packages/capability.ts';
import { asError, fail } from '../../wire/errors.ts';
import { PlanningClient } from './client.ts';
import { type DispatchedTask, Dispatcher, type DispatchOptions } from './dispatch.ts';
import { FLEET, wayBack } from './dispatched.ts';

/** Failures after which a connection is opened again. */
const AWAY: ReadonlySet<string> = new Set([
  'connection_lost',
  'interrupted',
  'reply_lost',
  'server_error',
  'session_closed',
  'session_expired',
  'session_not_found',
  'superseded',
  'timeout',
  'unreachable',
]);
/** Interval of attempts to connect to a lost side. */
const AGAIN_MS = 500;
/** Exit code when a task was not done. */
const NOT_DONE = 5;

export const dispatchOptions: NonNullable<CapabilityCommand['options']> = [
  ['--parallel <n>', 'tasks in the fleet at once (default: 8)'],
  ['--lease <seconds>', 'lease of each claim, which is renewed (default: of the host, 60)'],
  ['--retry', 'also tasks that failed in the fleet before'],
  ['--patience <seconds>', 'how long to wait for a lost host or fleet (default: 300)'],
  ['--priority <word>', 'how soon: urgent, high, normal, low'],
  ['--budget <tokens>', 'token budget of each task'],
  ['--access <kind>', 'whether they change the repository: read or write'],
  ['--worktree', 'run each in its own git worktree'],
  ['--retry-safe', 'a second run by the fleet does no harm'],
  ['--require <capability...>', 'capabilities the worker must have'],
  ['--require-mcp <server...>', 'MCP servers the worker must have, healthy'],
  ['--min-tier <tier>', 'lowest tier of the model'],
  ['--pool <name>', 'only workers of this pool'],
  ['--worker <id>', 'only this worker'],
];

/** Reads the task specification of the options. Fails with `usage`. */
function specOf(given: Readonly<Record<string, unknown>>): Partial<FleetTaskSpec> {
  const { priority, budget, access, worktree, retrySafe, require, requireMcp, minTier, pool, worker } = given;
  const spec = {
    ...(priority !== undefined && { priority }),
    ...(budget !== undefined && { token_budget: positive('--budget', budget) }),
    ...(access !== undefined && { access }),
    ...(worktree === true && { worktree: true }),
    ...(retrySafe === true && { retry_safe: true }),
    ...(require !== undefined && { required_capabilities: require }),
    ...(requireMcp !== undefined && { required_mcp: requireMcp }),
    ...(minTier !== undefined && { min_tier: minTier }),
    ...(pool !== undefined && { pool }),
    ...(worker !== undefined && { worker }),
  };
  return spec as Partial<FleetTaskSpec>;
}

function positive(name: string, value: unknown): number {
  const number = Number(value);
  if (Number.isFinite(number) && number > 0) return number;
  throw fail('usage', `${name} needs a number above 0, got ${JSON.stringify(value)}`);
}

/** Runs the command on a plan, for some of its tasks or all. Resolves with the exit code. */
export async function dispatch(
  context: CommandContext,
  { planId, taskIds }: Pick<DispatchOptions, 'planId' | 'taskIds'>,
): Promise<number> {
  const { options, terminal, signal, openFleet } = context;
  const { parallel = 8, lease, patience = 300 } = options;
  const dispatcher = new Dispatcher({
    planId,
    taskIds,
    parallel: Math.floor(positive('--parallel', parallel)),
    leaseMs: lease === undefined ? undefined : positive('--lease', lease) * 1_000,
    retry: options.retry === true,
    spec: specOf(options),
    onChange: (change) => terminal.json || terminal.note(sentenceOf(change)),
  });
  const patienceMs = positive('--patience', patience) * 1_000;
  let { agent } = context;
  let fleet: CommandFleet | undefined = await openFleet();
  let awaySince: number | undefined;
  try {
    for (;;) {
      try {
        fleet ??= await openFleet();
        if (agent.state === 'closed') agent = await context.openAgent();
        awaySince = undefined;
        await dispatcher.run({ planning: new PlanningClient(agent), fleet }, signal);
        break;
      } catch (thrown) {
        const { code, message } = asError(thrown);
        if (signal.aborted || !AWAY.has(code)) throw thrown;
        if (awaySince === undefined && !terminal.json)
          terminal.note(`lost the host or the fleet (${message}); connecting again`);
        awaySince ??= performance.now();
        if (performance.now() - awaySince > patienceMs) throw thrown;
      }
      // The failure does not always tell which side was lost: both are opened again.
      await close(agent, fleet);
      fleet = undefined;
      await sleep(AGAIN_MS, signal);
    }
  } catch (thrown) {
    if (!terminal.json) terminal.note('the fleet continues; the same command follows it again');
    throw thrown;
  } finally {
    await close(agent, fleet);
  }
  const { outcomes } = dispatcher;
  if (terminal.json) terminal.document(outcomes);
  else if (outcomes.length === 0) terminal.note('no task is ready for the fleet');
  else {
    const rows = outcomes.map(({ task_id, title, state, worker, tokens_spent, reason }) => [
      task_id,
      state,
      title,
      worker ?? '',
      tokens_spent === null ? '' : String(tokens_spent),
      reason ?? '',
    ]);
    terminal.table(['TASK', 'STATE', 'TITLE', 'WORKER', 'TOKENS', ''], rows);
    const failed = outcomes.find(({ state, fleet_task_id }) => state !== 'done' && fleet_task_id !== null);
    if (failed?.fleet_task_id) {
      terminal.note(wayBack({ plan_id: planId, task_id: failed.task_id }, { task_id: failed.fleet_task_id }));
    }
  }
  return outcomes.every(({ state }) => state === 'done') ? 0 : NOT_DONE;
}

const close = async (agent: CommandContext['agent'], fleet: CommandFleet | undefined): Promise<void> => {
  await Promise.allSettled([agent.close(), fleet?.[Symbol.asyncDispose]()]);
};

function sentenceOf({ task_id, title, state, worker, reason }: DispatchedTask): string {
  const by = worker === null ? '' : ` by ${worker}`;
  return `${task_id}  ${state}${by}  ${title}${reason === null ? '' : `  (${reason})`}`;
}

/** The id of the dispatcher's agent: tasks in a fleet are assigned to it. */
export const DISPATCHER = FLEET;

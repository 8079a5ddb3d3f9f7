/**
 * Hands the ready tasks of a plan to a fleet and writes the outcomes into the plan: states, results, errors.
 *
 * The dispatcher first claims a task, then writes its run into its metadata under the claim, and only then asks the fleet,
 * under an id that the run names. A dispatcher that claims the task later, after a kill or a lost lease, finds the run and
 * follows it: nothing is dispatched twice. The claim is renewed while the worker works. If a task is taken back meanwhile, its
 * run is cancelled in the fleet. If an operator retries a failed run, it is followed again.
 *
 * After a lost connection, the caller connects again and calls `run` again.
 */
import { counted } from '../../base/counted.ts';
import { sleep } from '../../base/sleep.ts';
import type { CommandFleet, FleetTask, FleetTaskSpec } from '../../packages/capability.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import type { ClaimedTask } from './claimed-task.ts';
import type { Plan, PlanningClient, Task } from './client.ts';
import {
  commentOn,
  FLEET,
  type FleetRun,
  isFailed,
  mayBeSentAgain,
  newRun,
  runOf,
  sameRun,
  specOf,
  updated,
  wayBack,
} from './dispatched.ts';

export interface DispatchOptions {
  readonly planId: string;
  /** Only these tasks. Default: every task that becomes ready. */
  readonly taskIds?: readonly string[] | undefined;
  /** Tasks in the fleet at once. */
  readonly parallel: number;
  readonly leaseMs?: number | undefined;
  /** True: also dispatches tasks whose run failed before, once. */
  readonly retry: boolean;
  /** The requirements of every task to the fleet, beside its brief. */
  readonly spec: Partial<FleetTaskSpec>;
  /** Names this dispatcher, so that it gets its own claims again over a lost connection. Default: random. */
  readonly instance?: string;
  /** Called when the state of a run changes. */
  readonly onChange: (change: DispatchedTask) => void;
}

/** A task and its run, as far as it is known. */
export interface DispatchedTask {
  readonly task_id: string;
  readonly title: string;
  readonly fleet_task_id: string | null;
  /**
   * The state of the run; `waiting`: the task is not ready; `taken_back`: another agent has the task now, or it was ended or
   * deleted.
   */
  readonly state: string;
  readonly worker: string | null;
  readonly tokens_spent: number | null;
  /** The reason why it is not done. */
  readonly reason: string | null;
}

/** The two sides of one pass. */
interface Sides {
  readonly planning: PlanningClient;
  readonly fleet: CommandFleet;
  readonly plan: Plan;
  readonly signal: AbortSignal;
}

/** Interval at which a plan without news is read again: leases of other dispatchers end without a notice. */
const AGAIN_MS = 1_000;
/** Tasks of one page of the ready ones. */
const PAGE = 1_000;
/** Failed runs that each check asks the fleet about. */
const CHECKED_RUNS = 8;
/** Refusals of the fleet that concern the task. */
const REFUSALS: ReadonlySet<string> = new Set(['denied', 'schema_violation', 'too_large', 'budget_spent', 'not_found']);
/** Refusals of the plan that a retry would meet again. */
const FIXED: ReadonlySet<string> = new Set(['planning.full', 'planning.invalid', 'planning.read_only']);
/** Events of a run that change the plan's view of it. */
const SHOWN: ReadonlySet<string> = new Set(['accepted', 'running', 'requeued', 'lost', 'question', 'answer']);

export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #instance: string;
  /** Tasks that this dispatcher has brought to an end, or cannot. */
  readonly #ended = new Map<string, DispatchedTask>();
  /** Tasks that were claimed when a connection was lost. */
  readonly #unfinished = new Set<string>();
  readonly #active = new Map<string, { claim?: ClaimedTask }>();
  /** Ended tasks whose run an operator may retry, the one that was checked last at the end. */
  readonly #failed = new Map<string, FleetRun>();
  #checkedAt = Number.NEGATIVE_INFINITY;
  #wake: () => void = () => {};

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#instance = options.instance ?? crypto.randomUUID();
  }

  /** The outcomes of the tasks, in the order in which they ended. */
  get outcomes(): readonly DispatchedTask[] {
    return [...this.#ended.values()];
  }

  /**
   * Dispatches until no task is ready and none is in the fleet. Rejects with the errors of either side, and when the signal
   * aborts; then the runs continue, and a later call follows them.
   */
  async run({ planning, fleet }: Pick<Sides, 'planning' | 'fleet'>, signal: AbortSignal): Promise<void> {
    const { planId, parallel } = this.#options;
    const stop = new AbortController();
    const sides = {
      planning,
      fleet,
      plan: await planning.plan(planId),
      signal: AbortSignal.any([signal, stop.signal]),
    };
    const running = new Set<Promise<void>>();
    let failure: unknown;
    void this.#watch(sides);
    try {
      for (;;) {
        signal.throwIfAborted();
        if (failure !== undefined) throw failure;
        const news = this.#news(sides.signal);
        await this.#findRetried(sides);
        const free = parallel - this.#active.size;
        const next = free > 0 ? await this.#candidates(sides, free) : [];
        for (const taskId of next) {
          this.#active.set(taskId, {});
          const work = this.#dispatch(taskId, sides)
            .catch((thrown: unknown) => {
              failure ??= thrown;
            })
            .finally(() => {
              running.delete(work);
              this.#active.delete(taskId);
              this.#wake();
            });
          running.add(work);
        }
        if (this.#active.size === 0 && !(await this.#othersWork(sides))) break;
        await news;
      }
      await this.#sayWhatWaits(sides);
    } finally {
      stop.abort();
      await Promise.allSettled(running);
    }
  }

  /** Resolves with the next change of the plan or of a run, or after an interval. */
  #news(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, AGAIN_MS);
    const stop = (): void => resolve();
    signal.addEventListener('abort', stop);
    this.#wake = resolve;
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    });
  }

  /** Follows the plan: changes by others may make tasks ready, or take back a task that is in the fleet. */
  async #watch({ planning, signal }: Sides): Promise<void> {
    try {
      for await (const { task_id, fence } of planning.watch(this.#options.planId, { signal })) {
        this.#wake();
        const claim = this.#active.get(task_id)?.claim;
        if (claim !== undefined && fence !== claim.fence) void claim.renew().catch(() => {});
      }
    } catch {
      // The calls of the loop meet the same failure.
    }
  }

  /** Returns the tasks to claim now. */
  async #candidates({ planning }: Sides, free: number): Promise<string[]> {
    const { planId, taskIds } = this.#options;
    const again = [...this.#unfinished].filter((id) => !this.#active.has(id)).slice(0, free);
    const fits = (id: string): boolean =>
      !this.#ended.has(id) && !this.#active.has(id) && !again.includes(id) && (taskIds?.includes(id) ?? true);
    const found = [...again];
    const limit = Math.min(PAGE, taskIds === undefined ? free + this.#ended.size + this.#active.size : PAGE);
    for (let after: string | undefined; found.length < free; ) {
      const page = await planning.ready(planId, { limit, after }).catch((thrown: unknown) => {
        // The last task of the previous page was deleted: that is news, and the scan starts again.
        if (after === undefined || asError(thrown).code !== 'planning.unknown_task') throw thrown;
        return { tasks: [], next: undefined };
      });
      found.push(...page.tasks.map(({ task_id }) => task_id).filter(fits));
      after = page.next;
      if (after === undefined) break;
    }
    return found.slice(0, free);
  }

  /** Dispatches a task again if the fleet has retried its failed run. */
  async #findRetried({ fleet }: Sides): Promise<void> {
    if (performance.now() - this.#checkedAt < AGAIN_MS) return;
    this.#checkedAt = performance.now();
    for (const [taskId, run] of [...this.#failed].slice(0, CHECKED_RUNS)) {
      this.#failed.delete(taskId);
      if (await isSentAgain(fleet, run)) this.#ended.delete(taskId);
      else this.#failed.set(taskId, run);
    }
  }

  /** Returns true if another dispatcher, or a killed one, has a claim whose end must be awaited. */
  async #othersWork({ planning }: Sides): Promise<boolean> {
    const { planId, taskIds } = this.#options;
    const tasks = await planning.tasks(planId, { assignee: FLEET });
    return tasks.some(
      ({ task_id, claim }) => claim?.agent === FLEET && (taskIds === undefined || taskIds.includes(task_id)),
    );
  }

  /** Reports the named tasks that are not ready. */
  async #sayWhatWaits({ planning, fleet, plan }: Sides): Promise<void> {
    for (const id of this.#options.taskIds ?? []) {
      if (this.#ended.has(id)) continue;
      const task = await planning.task(plan.plan_id, id);
      const isDone = plan.rules.done.includes(task.status);
      const blocked = task.blocked_by.length;
      const reason =
        blocked > 0
          ? `it waits for ${counted(blocked, 'task that is', 'tasks that are')} not done`
          : task.archived
            ? 'it is archived'
            : `it is in ${JSON.stringify(task.status)}${task.assignee === '' ? '' : `, assigned to ${task.assignee}`}`;
      const run = runOf(task);
      const unused =
        run !== undefined && (await isSentAgain(fleet, run))
          ? `so the result of ${run.task_id}, which was sent again, does not come into the plan: handfast task result ${run.task_id}`
          : undefined;
      const why = [isDone && unused === undefined ? '' : reason, unused ?? ''].filter((part) => part !== '').join('; ');
      this.#end(task, run, isDone ? 'done' : 'waiting', why === '' ? null : why);
    }
  }

  async #dispatch(taskId: string, sides: Sides): Promise<void> {
    const { planning, fleet, plan } = sides;
    const { leaseMs, retry } = this.#options;
    const before = await planning.task(plan.plan_id, taskId);
    const known = runOf(before);
    const sentAgain = known !== undefined && (await isSentAgain(fleet, known));
    if (known !== undefined && isFailed(known) && !retry && !sentAgain) {
      return this.#end(before, known, known.state, 'its run failed before; --retry dispatches it again');
    }
    if (known !== undefined && !isFailed(known) && known.state !== 'done' && known.fleet !== fleet.name) {
      return this.#end(before, known, known.state, `the fleet ${known.fleet} has it`);
    }
    const key = `${this.#instance}:${taskId}`;
    const options = { taskId, key, ...(leaseMs !== undefined && { leaseMs }) };
    const claim = await planning.claim(plan.plan_id, options).catch((thrown: unknown) => {
      // Another agent was faster, or the task is no longer ready.
      if (!isRefusal(thrown)) throw thrown;
      return undefined;
    });
    this.#unfinished.delete(taskId);
    if (claim === undefined) return;
    this.#active.set(taskId, { claim });
    this.#unfinished.add(taskId);
    const found = runOf(claim.task);
    const isNew = found === undefined || (isFailed(found) && retry && !sentAgain);
    const run = isNew ? newRun(before, claim.fence, fleet.name) : found;
    try {
      await claim.update({ assignee: FLEET, metadata: { fleet: run } });
      await this.#follow(claim, run, isNew, sides);
      this.#unfinished.delete(taskId);
    } catch (thrown) {
      await this.#abandon(claim, run, asError(thrown), sides);
    }
  }

  /** Submits the run to the fleet, and follows it to its end. */
  async #follow(claim: ClaimedTask, run: FleetRun, isNew: boolean, sides: Sides): Promise<void> {
    const { fleet } = sides;
    const signal = AbortSignal.any([claim.signal, sides.signal]);
    const task = claim.task;
    let shown = run;
    const refused = await this.#submit(task, run, isNew, fleet, signal);
    if (refused !== undefined) {
      return this.#settle(claim, { ...run, state: 'refused' }, `the fleet refused it: ${refused.message}`, sides);
    }
    if (isNew) this.#notify(task, { ...run, state: 'submitted' }, null);
    const events = fleet.follow(run.task_id, { signal });
    let record: FleetTask;
    try {
      for (;;) {
        const { value, done } = await events.next();
        if (done) {
          record = value;
          break;
        }
        if (!SHOWN.has(value.kind)) continue;
        // Past events are replayed; only the present state counts.
        const now = updated(run, await fleet.get(run.task_id));
        if (value.kind === 'question') this.#notify(task, now, `asks: handfast task show ${run.task_id}`);
        if (sameRun(now, shown) || isFailed(now) || now.state === 'done') continue;
        shown = now;
        await claim.update({ metadata: { fleet: now } });
        this.#notify(task, now, null);
      }
    } catch (thrown) {
      if (asError(thrown).code !== 'not_found') throw thrown;
      const lost = { ...run, state: 'lost' };
      return this.#settle(claim, lost, `the fleet ${fleet.name} has no record of ${run.task_id} any more`, sides);
    }
    // Without this check, a claim that was lost while the last event arrived would still be used.
    signal.throwIfAborted();
    await this.#settle(claim, updated(run, record), commentOn(record), sides);
  }

  /** Submits the run unless the fleet has it. Resolves with the refusal of the fleet, if it refuses. */
  async #submit(
    task: Task,
    run: FleetRun,
    isNew: boolean,
    fleet: CommandFleet,
    signal: AbortSignal,
  ): Promise<HandfastError | undefined> {
    if (run.state !== 'submitting') return undefined;
    for (;;) {
      try {
        if (!isNew && (await isKnown(fleet, run.task_id))) return undefined;
        await fleet.submit(specOf(task, run, this.#options.spec));
        return undefined;
      } catch (thrown) {
        const error = asError(thrown);
        // The fleet has the run already, from before the text of the task changed.
        if (error.code === 'duplicate_conflict') return undefined;
        if (REFUSALS.has(error.code)) return error;
        if (error.code !== 'over_capacity') throw error;
      }
      await sleep(AGAIN_MS, signal);
      signal.throwIfAborted();
    }
  }

  /** Writes the end of the run. Only `done` ends the task; otherwise the claim is released. */
  async #settle(claim: ClaimedTask, run: FleetRun, comment: string, { plan }: Sides): Promise<void> {
    const { task } = claim;
    const metadata = { fleet: run };
    const [reason = ''] = comment.split('\n');
    if (run.state === 'done') {
      try {
        await claim.update({ status: plan.rules.done[0] as string, metadata, comment });
        return this.#end(task, run, 'done', null);
      } catch (thrown) {
        const { code, message } = asError(thrown);
        if (code !== 'planning.blocked' && code !== 'planning.not_allowed') throw thrown;
        await claim.update({ metadata, comment: `${comment}\nThe plan did not let it end: ${message}` });
        await claim.release();
        return this.#end(task, run, 'blocked', message);
      }
    }
    const again = runOf(task);
    const isSame = again !== undefined && again.task_id === run.task_id && sameRun(again, run);
    const way = mayBeSentAgain(run) ? `\n${wayBack(task, run)}` : '';
    await claim.update({
      metadata,
      ...(!isSame && { comment: `${comment}${way}` }),
      ...(run.assigned && run.state !== 'parked' && { clear: ['assignee'] }),
    });
    await claim.release();
    const see = run.state === 'parked' ? `; see: handfast task show ${run.task_id}` : '';
    this.#end(task, run, run.state, `${reason}${see}`);
  }

  /** Releases a claim that was lost or whose dispatcher stops; cancels the run when the task was taken back. */
  async #abandon(claim: ClaimedTask, run: FleetRun, error: HandfastError, sides: Sides): Promise<void> {
    const { planning, fleet, plan, signal } = sides;
    const { task: last } = claim;
    // The next dispatcher that claims the task follows the same run.
    const refused = claim.signal.aborted || (await isRefused(claim.release()));
    if (!refused && !isRefusal(error)) throw error;
    if (FIXED.has(error.code)) return this.#end(last, run, 'blocked', error.message);
    const task = await planning.task(plan.plan_id, claim.id).catch((thrown: unknown) => {
      if (!isRefusal(thrown)) throw thrown;
      return undefined;
    });
    if (task !== undefined && !isTakenBack(task, run, plan)) {
      // The lease ended: this or another dispatcher claims the task again.
      return signal.throwIfAborted();
    }
    this.#unfinished.delete(claim.id);
    const reason = task === undefined ? 'the task was deleted' : 'the task was taken back in its plan';
    await fleet.cancel(run.task_id, reason).catch((thrown: unknown) => {
      if (!['not_found', 'invalid_message'].includes(asError(thrown).code)) throw thrown;
    });
    this.#end(task ?? last, run, 'taken_back', reason);
  }

  #end(task: Task, run: FleetRun | undefined, state: string, reason: string | null): void {
    this.#unfinished.delete(task.task_id);
    const outcome = { ...lineOf(task, run), state, reason };
    this.#ended.set(task.task_id, outcome);
    if (run !== undefined && run.state === state && mayBeSentAgain(run)) this.#failed.set(task.task_id, run);
    else this.#failed.delete(task.task_id);
    this.#options.onChange(outcome);
  }

  #notify(task: Task, run: FleetRun, reason: string | null): void {
    this.#options.onChange({ ...lineOf(task, run), reason });
  }
}

const lineOf = ({ task_id, title }: Task, run: FleetRun | undefined): DispatchedTask => ({
  task_id,
  title,
  fleet_task_id: run?.task_id ?? null,
  state: run?.state ?? '',
  worker: run?.worker ?? null,
  tokens_spent: run?.tokens_spent ?? null,
  reason: null,
});

/** Returns true for a refusal of the plan: it refuses this request, and works. */
const isRefusal = (thrown: unknown): boolean => asError(thrown).code.startsWith('planning.');

/** Resolves with true if the plan refuses; rejects with any other failure. */
const isRefused = (call: Promise<unknown>): Promise<boolean> =>
  call.then(
    () => false,
    (thrown: unknown) => {
      if (!isRefusal(thrown)) throw thrown;
      return true;
    },
  );

const isKnown = (fleet: CommandFleet, taskId: string): Promise<boolean> =>
  fleet.get(taskId).then(
    () => true,
    (thrown: unknown) => {
      if (asError(thrown).code !== 'not_found') throw thrown;
      return false;
    },
  );

/** Returns true if the operator of the fleet has retried a run that had failed or was parked. */
async function isSentAgain(fleet: CommandFleet, run: FleetRun): Promise<boolean> {
  if (!mayBeSentAgain(run) || run.fleet !== fleet.name || !(await isKnown(fleet, run.task_id))) return false;
  return !sameRun(updated(run, await fleet.get(run.task_id)), run);
}

/** Returns true if the fleet no longer has the task: it is ended or archived, claimed by another agent, or has another run. */
const isTakenBack = (task: Task, run: FleetRun, { rules }: Plan): boolean =>
  task.archived ||
  rules.done.includes(task.status) ||
  (task.claim !== null && task.claim.agent !== FLEET) ||
  runOf(task)?.task_id !== run.task_id;

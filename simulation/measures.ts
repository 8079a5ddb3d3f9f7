/**
 * The measurements of one contender in a simulation: the use of tokens, dispatches that could never have worked,
 * waiting times of tasks, their ends.
 */
import type { TaskState } from '../src/fleet/orchestrator/task.ts';
import type { Priority, Status } from '../src/protocol/fleet.ts';
import { Histogram } from './histogram.ts';
import type { Run, RunEnd } from './run.ts';
import { EPOCH_MS, type SimTask } from './workload.ts';

export const PRIORITY_ORDER: readonly Priority[] = ['urgent', 'high', 'normal', 'low'];

/** Reasons of wasted tokens. */
export const WASTE = {
  unmet: 'something required was not there',
  server_died: 'a server died meanwhile',
  killed: 'the worker died',
  failed: 'the run failed by itself',
  stopped: 'called off, or the lease was lost',
  not_accepted: 'done, but not counted: late or twice',
} as const;
export type Waste = keyof typeof WASTE;

/** Tiers cost so much a token, about. */
const PRICE = [1, 1, 3, 5] as const;

export class Measures {
  dispatches = 0;
  /** Dispatches to a worker that could not have done the task: noticed before a token was spent, or after. */
  refused = 0;
  burnt = 0;
  tokensUseful = 0;
  readonly tokensWasted = new Map<Waste, number>();
  /** Tokens weighed by the price of their tier. */
  cost = 0;
  late = 0;
  readonly ends = new Map<string, number>();
  /** From submission to the first token of the run that counted, milliseconds. */
  readonly firstToken = new Histogram();
  readonly firstTokenOf = new Map<Priority, Histogram>(PRIORITY_ORDER.map((priority) => [priority, new Histogram()]));
  readonly doneAfter = new Histogram();
  /** Tasks with a deadline, and those of them done in time. */
  withDeadline = 0;
  inTime = 0;
  readonly #counted = new WeakSet<Run>();
  /** Done and not accepted so far: it may still be. */
  #unclaimed = 0;

  dispatched(): void {
    this.dispatches += 1;
  }

  deadOnArrival(spent: boolean): void {
    if (spent) this.burnt += 1;
    else this.refused += 1;
  }

  /** Records the end of a run. */
  ranTo(run: Run): void {
    const end = run.end as RunEnd;
    this.cost += run.spent * PRICE[run.site.rank]!;
    if (end === 'done' || end === 'budget' || end === 'deadline') this.#unclaimed += run.spent;
    else this.#waste(end, run.spent);
  }

  /** Records a result that counts. */
  accepted(task: SimTask, status: Status, run: Run | undefined, nowMs: number): void {
    if (run === undefined || this.#counted.has(run) || (status !== 'done' && status !== 'partial')) return;
    this.#counted.add(run);
    this.#unclaimed -= run.spent;
    this.tokensUseful += run.spent;
    const waited = run.firstTokenMs - task.arrivalMs;
    this.firstToken.add(waited);
    this.firstTokenOf.get(task.spec.priority)!.add(waited);
    if (status === 'done') this.doneAfter.add(nowMs - task.arrivalMs);
  }

  /** Records that a task ended at this virtual time, with this number of results that no longer counted. */
  ended({ route }: SimTask, state: TaskState, endedMs: number, late: number): void {
    const name = state === 'blocked' || state === 'lost' ? 'given up' : state;
    this.ends.set(name, (this.ends.get(name) ?? 0) + 1);
    this.late += late;
    if (route.deadlineMs === null) return;
    this.withDeadline += 1;
    if (state === 'done' && EPOCH_MS + endedMs <= route.deadlineMs) this.inTime += 1;
  }

  /** Counts finished work without an accepted result as waste, when nothing more comes. */
  close(): void {
    this.#waste('not_accepted', this.#unclaimed);
    this.#unclaimed = 0;
  }

  get wasted(): number {
    return [...this.tokensWasted.values()].reduce((sum, tokens) => sum + tokens, 0);
  }

  #waste(why: Waste, tokens: number): void {
    if (tokens > 0) this.tokensWasted.set(why, (this.tokensWasted.get(why) ?? 0) + tokens);
  }
}

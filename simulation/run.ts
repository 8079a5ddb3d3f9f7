/**
 * One execution of a task at a worker: its duration, its cost, and its end. The same for every contender.
 */
import type { RunAtSite, Site } from './site.ts';
import type { Plan, VirtualTime } from './virtual-time.ts';
import type { SimTask } from './workload.ts';

export type RunEnd =
  | 'done'
  /** By itself. */
  | 'failed'
  | 'budget'
  | 'deadline'
  /** A requirement was missing, and the run found out on the way. */
  | 'unmet'
  /** A server it needed died meanwhile. */
  | 'server_died'
  | 'stopped'
  | 'killed';

export interface RunLimits {
  /** Tokens; null: none. */
  readonly budget: number | null;
  /** Virtual time; null: none. */
  readonly deadlineMs: number | null;
  /** Share of the run after which something missing is noticed. */
  readonly noticesAt: number;
}

/** Each tier it is short of makes a run this much longer. */
const SHORT = 0.6;
/** Time for reading in and planning a turn before its first useful token. */
const FIRST_TOKEN_MS = 2000;

export class Run implements RunAtSite {
  readonly site: Site;
  readonly task: SimTask;
  readonly attempt: number;
  readonly startMs: number;
  /** The end of the run; undefined: it runs. */
  end: RunEnd | undefined;
  readonly #time: VirtualTime;
  readonly #durationMs: number;
  readonly #tokens: number;
  readonly #limit: number;
  readonly #ended: (run: Run) => void;
  #plan: Plan | undefined;
  #spent = 0;

  /** @param ended called once, also when it is killed */
  constructor(
    site: Site,
    task: SimTask,
    attempt: number,
    time: VirtualTime,
    limits: RunLimits,
    ended: (run: Run) => void,
  ) {
    this.site = site;
    this.task = task;
    this.attempt = attempt;
    this.startMs = time.nowMs;
    this.#time = time;
    this.#ended = ended;
    this.#limit = limits.budget ?? Number.POSITIVE_INFINITY;
    const slower = 1 + SHORT * Math.max(0, task.rank - site.rank);
    this.#durationMs = Math.round(task.runMs * slower) + FIRST_TOKEN_MS;
    this.#tokens = site.overhead + Math.round(task.tokens * slower);
    site.runs.add(this);
    this.#planEnd(limits);
  }

  get writes(): boolean {
    return this.task.spec.access === 'write';
  }

  /** Returns the milliseconds from its start until it has spent this number of tokens; undefined: it needs fewer. */
  spentAfterMs(tokens: number): number | undefined {
    return tokens > this.#tokens ? undefined : Math.ceil((this.#durationMs * tokens) / this.#tokens);
  }

  get firstTokenMs(): number {
    return this.startMs + FIRST_TOKEN_MS;
  }

  /** Tokens so far. */
  get spent(): number {
    if (this.end !== undefined) return this.#spent;
    return Math.min(
      this.#limit,
      Math.round(this.#tokens * Math.min(1, (this.#time.nowMs - this.startMs) / this.#durationMs)),
    );
  }

  stop(end: 'stopped' | 'budget' | 'deadline' = 'stopped'): void {
    this.#finish(end);
  }

  /** Kills it with the process it runs in: no message is sent. */
  kill(): void {
    this.#finish('killed');
  }

  serverDied(name: string): void {
    if (this.task.route.required_mcp.includes(name)) this.#finish('server_died');
  }

  #planEnd({ budget, deadlineMs, noticesAt }: RunLimits): void {
    const { site, task } = this;
    const unmet = site.unmet(task.route.required_mcp, task.route.required_capabilities);
    const ends: [number, RunEnd][] = [[this.#durationMs, task.failing ? 'failed' : 'done']];
    if (unmet) ends.push([this.#durationMs * noticesAt, 'unmet']);
    if (budget !== null && budget < this.#tokens) ends.push([(this.#durationMs * budget) / this.#tokens, 'budget']);
    if (deadlineMs !== null) ends.push([deadlineMs - this.startMs, 'deadline']);
    const [ms, end] = ends.reduce((first, other) => (other[0] < first[0] ? other : first));
    if (task.poison) this.#plan = this.#time.after(Math.min(ms, this.#durationMs * 0.3), () => site.crash());
    else this.#plan = this.#time.after(ms, () => this.#finish(end));
  }

  #finish(end: RunEnd): void {
    if (this.end !== undefined) return;
    this.#spent = this.spent;
    this.end = end;
    this.#time.cancel(this.#plan);
    this.site.runs.delete(this);
    this.#ended(this);
  }
}

/**
 * The baselines of a fleet: a message bus that sends tasks as text and gets no message before they end. Workers run
 * their tasks in the order of arrival and find out on the way which requirement is missing; results are sent three
 * times and then dropped; a task without news for fifteen minutes is sent again.
 *
 * Two of them. `blind` is fire and forget: the next worker in turn, of any kind. `configured` knows from configuration
 * which servers, tools, tier, context window and pools each worker has and how many tasks it takes at a time, sends
 * each task to the least loaded of the cheapest eligible ones, lets tasks wait while all of these are full, and stops a
 * run at its budget. Neither knows health: whether a server works, a folder is clean, or a worker is cut off.
 *
 * Both are kinder than the real systems: prose is always understood, failures are always noticed, a connection that is
 * refused costs nothing, and a failure is retried at once.
 */
import { TaskQueue } from '../src/fleet/queue.ts';
import type { Measures } from './measures.ts';
import type { Network } from './network.ts';
import { Run } from './run.ts';
import type { Site } from './site.ts';
import type { Plan, VirtualTime } from './virtual-time.ts';
import type { SimTask } from './workload.ts';

export type BaselineKind = 'blind' | 'configured';

export interface BaselineOptions {
  readonly kind: BaselineKind;
  readonly time: VirtualTime;
  readonly network: Network;
  readonly measures: Measures;
  readonly sites: readonly Site[];
}

const TIMEOUT_MS = 900_000;
const MAX_SENDS = 4;
const POSTS_MS = [1000, 2000];
/** Missing tools and servers are noticed after this share of a run. */
const NOTICED_AT = 0.3;

interface Sent {
  readonly task: SimTask;
  sends: number;
  /** The worker to which it was sent last, until a reply arrives. */
  site: Site | undefined;
  /** Workers that could not do it. */
  readonly failedAt: Set<Site>;
  timeout: Plan | undefined;
  ended: boolean;
}

interface Waiting {
  readonly task: SimTask;
  readonly send: number;
}

export class Baseline {
  readonly #options: BaselineOptions;
  readonly #tasks = new Map<string, Sent>();
  /** Worker → its waiting tasks. */
  readonly #inboxes = new Map<Site, Waiting[]>();
  /** Worker → tasks that were sent there and not answered. */
  readonly #outstanding = new Map<Site, number>();
  /** Tasks for which every worker that fits is full, in one queue for each kind of worker they need. */
  readonly #queue = new TaskQueue();
  readonly #fits = new Map<string, ReadonlySet<Site>>();
  #next = 0;
  open = 0;

  constructor(options: BaselineOptions) {
    this.#options = options;
    for (const site of options.sites) {
      this.#inboxes.set(site, []);
      this.#outstanding.set(site, 0);
    }
  }

  submit(task: SimTask): void {
    this.open += 1;
    const sent: Sent = { task, sends: 0, site: undefined, failedAt: new Set(), timeout: undefined, ended: false };
    this.#tasks.set(task.task_id, sent);
    // No message can stop it: the user just stops waiting.
    if (task.cancelAfterMs !== null) this.#options.time.after(task.cancelAfterMs, () => this.#end(sent, 'canceled'));
    this.#send(sent);
  }

  /** Handles the death of its process, with its inbox. */
  crashed(site: Site): void {
    this.#inboxes.set(site, []);
  }

  #send(sent: Sent): void {
    const { time, network, measures } = this.#options;
    if (sent.ended) return;
    if (sent.sends >= MAX_SENDS) return this.#end(sent, 'given up');
    const site = this.#siteFor(sent);
    if (site === undefined) return;
    sent.sends += 1;
    sent.site = site;
    this.#outstanding.set(site, (this.#outstanding.get(site) as number) + 1);
    const send = sent.sends;
    measures.dispatched();
    network.toWorker(site, () => {
      this.#inboxes.get(site)!.push({ task: sent.task, send });
      this.#work(site);
    });
    sent.timeout = time.after(TIMEOUT_MS, () => this.#again(sent));
  }

  /** Returns the worker for a task now; undefined: it waits, or has ended because no worker is eligible. */
  #siteFor(sent: Sent): Site | undefined {
    if (this.#options.kind === 'blind') return this.#inTurn();
    const fitting = [...this.#fitting(sent.task)].filter((site) => !sent.failedAt.has(site));
    if (fitting.length === 0) {
      this.#end(sent, 'given up');
      return undefined;
    }
    let best: Site | undefined;
    let bestRank = Number.POSITIVE_INFINITY;
    for (const site of fitting) {
      const load = (this.#outstanding.get(site) as number) / site.capacity;
      if (!site.up || load >= 1) continue;
      const rank = load + tierDistance(site, sent.task);
      if (rank < bestRank) [best, bestRank] = [site, rank];
    }
    if (best !== undefined) return best;
    const { task_id, spec, arrivalMs } = sent.task;
    const pool = needsOf(sent.task);
    this.#queue.push({ task_id, priority: spec.priority, enqueuedAtMs: arrivalMs, pool });
    this.#queue.pause(pool);
    return undefined;
  }

  #inTurn(): Site {
    const { sites } = this.#options;
    let site = sites[this.#next++ % sites.length]!;
    for (let tried = 1; !site.up && tried < sites.length; tried += 1) site = sites[this.#next++ % sites.length]!;
    return site;
  }

  /** Returns the workers whose configuration meets the requirements of a task. */
  #fitting(task: SimTask): ReadonlySet<Site> {
    const needs = needsOf(task);
    let fitting = this.#fits.get(needs);
    if (fitting === undefined) {
      const { required_mcp, required_capabilities, min_context_window, pool } = task.route;
      const fits = this.#options.sites.filter(
        (site) =>
          required_mcp.every((name) => site.servers.includes(name)) &&
          required_capabilities.every((name) => site.tools.includes(name)) &&
          site.rank >= minRankOf(task) &&
          (min_context_window === null || (site.window ?? 0) >= min_context_window) &&
          (pool === null || site.pools.includes(pool)),
      );
      fitting = new Set(fits);
      this.#fits.set(needs, fitting);
    }
    return fitting;
  }

  /** Frees the place of a task: the next one that is eligible there goes. */
  #free(sent: Sent): void {
    const { site } = sent;
    this.#options.time.cancel(sent.timeout);
    sent.site = undefined;
    if (site === undefined) return;
    this.#outstanding.set(site, (this.#outstanding.get(site) as number) - 1);
    if (this.#options.kind === 'blind') return;
    const pool = this.#queue.firstPaused((needs) => this.#fits.get(needs as string)?.has(site) === true);
    if (pool === undefined) return;
    this.#queue.resume(pool);
    const next = this.#queue.take();
    this.#queue.pause(pool);
    const waiting = next && this.#tasks.get(next.task_id);
    if (waiting !== undefined) this.#send(waiting);
  }

  #again(sent: Sent): void {
    this.#free(sent);
    this.#send(sent);
  }

  #work(site: Site): void {
    const { time, measures, kind } = this.#options;
    const inbox = this.#inboxes.get(site)!;
    while (site.up && site.runs.size < site.capacity && inbox.length > 0) {
      const { task, send } = inbox.shift()!;
      const { route } = task;
      const small = route.min_context_window !== null && (site.window ?? 0) < route.min_context_window;
      if (site.unmet(route.required_mcp, route.required_capabilities) || small) measures.deadOnArrival(true);
      const budget = kind === 'configured' ? route.token_budget : null;
      const limits = { budget, deadlineMs: null, noticesAt: NOTICED_AT };
      new Run(site, task, send, time, limits, (run) => {
        measures.ranTo(run);
        if (run.end === 'killed') return;
        this.#report(site, run, 0);
        this.#work(site);
      });
    }
  }

  #report(site: Site, run: Run, posts: number): void {
    const { time, network } = this.#options;
    let arrived = false;
    network.toOrchestrator(site, () => {
      if (arrived) return;
      arrived = true;
      this.#received(run);
    });
    const again = POSTS_MS[posts];
    if (again === undefined) return;
    time.after(again, () => {
      if (!arrived && site.up) this.#report(site, run, posts + 1);
    });
  }

  #received(run: Run): void {
    const { time, measures } = this.#options;
    const sent = this.#tasks.get(run.task.task_id);
    if (sent === undefined || sent.ended) return;
    if (run.end === 'done' || run.end === 'budget') {
      const status = run.end === 'done' ? 'done' : 'partial';
      measures.accepted(run.task, status, run, time.nowMs);
      this.#end(sent, status);
    } else if (run.end === 'failed') this.#end(sent, 'error');
    else {
      // A requirement was missing there: the next worker is tried.
      sent.failedAt.add(run.site);
      this.#again(sent);
    }
  }

  #end(sent: Sent, state: 'done' | 'partial' | 'error' | 'canceled' | 'given up'): void {
    const { time, measures } = this.#options;
    if (sent.ended) return;
    sent.ended = true;
    this.open -= 1;
    this.#tasks.delete(sent.task.task_id);
    this.#queue.remove(sent.task.task_id);
    measures.ended(sent.task, state === 'given up' ? 'lost' : state, time.nowMs, 0);
    this.#free(sent);
  }
}

function needsOf({ route }: SimTask): string {
  const { required_mcp, required_capabilities, min_tier, min_context_window, pool } = route;
  return JSON.stringify([required_mcp, required_capabilities, min_tier, min_context_window, pool]);
}

function minRankOf({ route: { min_tier } }: SimTask): number {
  return min_tier === 'opus' ? 3 : min_tier === 'sonnet' ? 2 : 1;
}

/**
 * Returns the distance of a tier: the cheapest one that does the task without taking longer comes first, then dearer
 * ones, then lower ones.
 */
function tierDistance({ rank }: Site, task: SimTask): number {
  return rank >= task.rank ? rank - task.rank : 10 + task.rank - rank;
}

/**
 * From the queue to a worker, in a simulation: the real queue and the real router, for as long as one process of the
 * orchestrator lives. Tasks that the same workers can take wait in one line, which stands still while nobody can.
 */
import type { Announced } from '../src/fleet/messages/decoded.ts';
import type { Peers } from '../src/fleet/orchestrator/peers.ts';
import type { TaskRecord } from '../src/fleet/orchestrator/task.ts';
import type { TaskEvent } from '../src/fleet/orchestrator/task-events.ts';
import { TaskQueue } from '../src/fleet/queue.ts';
import { capacityOf, loadOf, reasonsAgainst } from '../src/fleet/route/filters.ts';
import type { Profile, RouteTask } from '../src/fleet/route/profile.ts';
import type { Router } from '../src/fleet/route/router.ts';
import type { Checks } from './checks.ts';
import type { Measures } from './measures.ts';
import type { Network } from './network.ts';
import type { SimWorker } from './sim-worker.ts';
import type { Site } from './site.ts';
import type { VirtualTime } from './virtual-time.ts';
import { EPOCH_MS, SERVERS, type SimTask, TOOLS } from './workload.ts';

/** A task as it is in memory; the record is what is on disk. */
export interface Held {
  readonly task: SimTask;
  record: TaskRecord;
  readonly line: string;
  /** How often it was put aside since it was last with a worker. */
  asides: number;
  /** The dispatch is about to leave: its worker cannot know of it yet. */
  sending: boolean;
}

/** What the tasks of a line have in common, and require. */
interface Line {
  readonly task: RouteTask;
  readonly needs: number;
}

/** The world around the orchestrator. */
export interface SimWorld {
  readonly time: VirtualTime;
  readonly network: Network;
  readonly checks: Checks;
  readonly measures: Measures;
  readonly workers: ReadonlyMap<string, SimWorker>;
  readonly sites: readonly Site[];
  /** A clock of the real world, milliseconds: what a decision costs. */
  readonly stopwatch: () => number;
}

export interface SimDispatchOptions extends SimWorld {
  readonly router: Router;
  readonly peers: Peers;
  readonly wallMs: () => number;
  held(taskId: string): Held;
  apply(held: Held, event: TaskEvent): void;
  renew(held: Held): void;
  /** Its worker is not there any more. */
  unreachable(held: Held): void;
}

/** Time from a change to its being on disk: what is sent because of it leaves after that. */
export const COMMIT_MS = 2;
/** How long a task that one worker might take, but not now, is left alone; twice as long each time. */
const ASIDE_MS = 1000;
const MAX_ASIDE_MS = 60_000;

export class SimDispatch {
  readonly #options: SimDispatchOptions;
  readonly #queue = new TaskQueue();
  /** Lines nobody can take from now. */
  readonly #paused = new Map<string, Line>();
  /** Workers that may have room again. */
  readonly #roomy = new Set<string>();
  /** What each worker has, as it last announced it. */
  readonly #has = new WeakMap<Announced, number>();
  #pumpAtMs = Number.POSITIVE_INFINITY;
  #decisions = 0;
  #stopped = false;

  constructor(options: SimDispatchOptions) {
    this.#options = options;
  }

  /** Its process is dead: what it had planned does not happen. */
  stop(): void {
    this.#stopped = true;
  }

  withdraw(taskId: string): void {
    this.#queue.remove(taskId);
  }

  /** A task waits to be routed, from its `not_before` on. */
  enqueue({ task, record, line }: Held): void {
    if (record.not_before === Number.MAX_SAFE_INTEGER) return;
    const { priority } = task.spec;
    const { task_id, created_at: enqueuedAtMs, not_before: notBeforeMs } = record;
    this.#queue.push({ task_id, priority, enqueuedAtMs, notBeforeMs, pool: line });
    this.#pumpNext();
  }

  #pumpAt(atMs: number): void {
    if (atMs >= this.#pumpAtMs) return;
    const { time } = this.#options;
    this.#pumpAtMs = atMs;
    time.after(atMs - time.nowMs, () => {
      if (this.#stopped || this.#pumpAtMs > time.nowMs) return;
      this.#pumpAtMs = Number.POSITIVE_INFINITY;
      this.#pump();
    });
  }

  #pump(): void {
    this.#routeReady();
    for (const peerId of this.#roomy) this.#fill(peerId);
    this.#roomy.clear();
    this.#pumpNext();
  }

  #routeReady(): void {
    for (;;) {
      const next = this.#queue.take(this.#options.wallMs());
      if (next === undefined) return;
      this.#route(this.#options.held(next.task_id));
    }
  }

  /** A worker has room again: of all lines that stand still it gets the task whose turn it is. */
  #fill(peerId: string): void {
    const tried = new Set<string>();
    for (;;) {
      const profile = this.#options.router.profile(peerId, this.#options.time.nowMs);
      if (profile === undefined || loadOf(profile) >= capacityOf(profile, this.#options.router.policy)) return;
      const name = this.#queue.firstPaused(this.#options.wallMs(), (pool) => {
        return !tried.has(pool!) && this.#meets(peerId, profile, this.#paused.get(pool!)!);
      });
      if (name === undefined) return;
      const line = this.#paused.get(name!)!;
      this.#paused.delete(name!);
      this.#queue.resume(name!);
      this.#route(this.#options.held(this.#queue.take(this.#options.wallMs())!.task_id));
      if (this.#paused.has(name!)) tried.add(name!);
      // The rest of the line waits for its turn among the others; an empty one stands in nobody's way.
      else if (this.#queue.peek(this.#options.wallMs()) !== undefined) this.#pause(name!, line);
    }
  }

  #pause(name: string, line: Line): void {
    this.#paused.set(name, line);
    this.#queue.pause(name);
  }

  #meets(peerId: string, profile: Profile, { task, needs }: Line): boolean {
    const announced = this.#options.peers.get(peerId)?.announced;
    if (announced == null) return false;
    let has = this.#has.get(announced);
    if (has === undefined) {
      has = hasOf(announced);
      this.#has.set(announced, has);
    }
    return (needs & ~has) === 0 && reasonsAgainst(task, profile, this.#options.router.policy).length === 0;
  }

  /** What is ready in a paused line waits for a worker that wakes it. */
  #pumpNext(): void {
    const at = this.#queue.nextAt(this.#options.wallMs());
    if (at !== null) this.#pumpAt(at - EPOCH_MS);
  }

  #route(held: Held): void {
    const { measures, checks, stopwatch } = this.#options;
    const { task, record } = held;
    const excluded = this.#options.peers.excludedOf(record.excluded);
    const at = { nowMs: this.#options.time.nowMs, wallMs: this.#options.wallMs(), excluded };
    const began = stopwatch();
    const decision = this.#options.router.decide(task.route, at);
    measures.decided((stopwatch() - began) * 1000);
    this.#decisions += 1;
    checks.decided(this.#decisions, task.route, decision, this.#options.router, at);
    if (decision.chosen !== null) {
      const incarnation = this.#options.peers.get(decision.chosen)!.announced?.incarnation ?? null;
      this.#options.apply(held, { type: 'reserved', worker: decision.chosen, mode: 'structured', incarnation });
      this.#options.peers.reserve(decision.chosen, record.task_id, record.spec.context_id);
      this.#options.renew(held);
      this.#send(held);
    } else if (decision.reason.startsWith('deadline_')) {
      this.#options.apply(held, { type: 'failed', reason: decision.reason });
    } else if (this.#options.router.eligible(common(task.route), { nowMs: at.nowMs, wallMs: at.wallMs }) === 0) {
      this.#pause(held.line, { task: common(task.route), needs: needsOf(task.route) });
      this.enqueue(held);
    } else {
      held.asides += 1;
      this.#queue.push({
        task_id: record.task_id,
        priority: task.spec.priority,
        enqueuedAtMs: record.created_at,
        notBeforeMs: this.#options.wallMs() + Math.min(MAX_ASIDE_MS, ASIDE_MS * 2 ** (held.asides - 1)),
        pool: held.line,
      });
    }
  }

  /** The row first, then the message. */
  #send(held: Held): void {
    const { time, network, workers, sites, checks } = this.#options;
    const { attempt, worker } = held.record;
    held.sending = true;
    held.asides = 0;
    time.after(COMMIT_MS, () => {
      const { record, task } = held;
      if (this.#stopped) return;
      held.sending = false;
      if (record.attempt !== attempt || record.state !== 'reserved') return;
      const entry = this.#options.peers.get(worker!);
      if (entry?.connected !== true) return this.#options.unreachable(held);
      checks.sent(record);
      this.#options.measures.dispatched();
      const sentAtMs = this.#options.wallMs();
      network.toWorker(sites[indexOf(worker!)]!, () => workers.get(worker!)!.receive(task, attempt, sentAtMs));
      // A process that dies here does not know that it was sent.
      time.after(1, () => {
        if (!this.#stopped && held.record.attempt === attempt) this.#options.apply(held, { type: 'sent' });
      });
    });
  }

  /** A worker may have room. */
  wake(peerId: string): void {
    if (this.#paused.size === 0) return;
    this.#roomy.add(peerId);
    this.#pumpAt(this.#options.time.nowMs);
  }
}

/** Place of a worker among the sites. */
export function indexOf(worker: string): number {
  return Number(worker.slice(2));
}

/** What tasks of one line have in common. */
function common(task: RouteTask): RouteTask {
  return { ...task, token_budget: null, deadlineMs: null, brief_bytes: 0, context_id: null };
}

/** Tasks the same workers can take, but for what is special about one of them. */
export function lineOf({
  required_mcp,
  required_capabilities,
  min_tier,
  min_context_window,
  access,
  pool,
}: RouteTask): string {
  return [required_mcp, required_capabilities, min_tier, min_context_window, access, pool].join(' ');
}

/** Servers and tools a task requires, as bits: most workers are ruled out by these. */
function needsOf({ required_mcp, required_capabilities }: RouteTask): number {
  return bitsOf(
    (name) => required_mcp.includes(name),
    (name) => required_capabilities.includes(name),
  );
}

function hasOf({ mcp_health, tools }: Announced): number {
  return bitsOf(
    (name) => mcp_health.get(name) === 'ok',
    (name) => tools.includes(name),
  );
}

function bitsOf(server: (name: string) => boolean, tool: (name: string) => boolean): number {
  let bits = 0;
  for (const [at, name] of SERVERS.entries()) if (server(name)) bits |= 1 << at;
  for (const [at, name] of TOOLS.entries()) if (tool(name)) bits |= 1 << (SERVERS.length + at);
  return bits;
}

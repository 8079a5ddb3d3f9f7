/**
 * Incremental routing for a fleet that changes: the decisions of `route.ts` without checking every worker.
 *
 * Requirements are sets of bits that are intersected (`eligibility.ts`). The remaining workers are scored one by one when they
 * are few (`scan.ts`), and otherwise found best first (`cells.ts`). With policy hooks every eligible worker is scored, because
 * a hook may change any score.
 *
 * Reads no clock: each call passes its times.
 * @see docs/fleet.md#routing
 */
import { Heap } from '../../base/heap.ts';
import { countBits, eachBit, setBit } from './bits.ts';
import { Cells, freshnessAt } from './cells.ts';
import { Eligibility, type Selected } from './eligibility.ts';
import { type AbsenceInfo, explanationOf } from './explain.ts';
import { NO_EXCLUSIONS, reasonsAgainst, taskReason, withHooked } from './filters.ts';
import type { RouteLearner } from './learner.ts';
import type { Explanation, Learned, Profile, Ranked, Route, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { NO_ELIGIBLE_WORKER, route, routeAmong } from './route.ts';
import { Scan, type TierPoints } from './scan.ts';
import { affinityPart, scoreOf, tierPoints, weightsOf } from './score.ts';
import { rankOf, wantedRank } from './tiers.ts';
import { Top } from './top.ts';
import { ageMsAt, describe, emptySlot, profileAt, reckon, sameFacts, type WorkerSlot } from './worker-slot.ts';

/** The time of a decision, and the workers it excludes. */
export interface DecideAt {
  /** Monotonic clock, milliseconds; the clock passed to `upsert`. A time before the latest one counts as the latest one. */
  readonly nowMs: number;
  /** Epoch milliseconds; a deadline is compared with it. */
  readonly wallMs: number;
  /** Workers left out for this task, by name. */
  readonly excluded?: ReadonlySet<string>;
  /** The attempt that is decided, from 1: learning decides each once. */
  readonly attempt?: number;
}

/**
 * A route that names at most 20 workers in order and at most 50 that were left out. It names 10 when a worker was chosen and
 * more than 50 were left out, because operators rarely need the reasons then.
 */
export type Decision = Route & {
  /** Workers left out beside the ones in `rejected`. */
  readonly rejected_more: number;
  /** The choice by learning, where it had one. */
  readonly learned?: Learned;
};

export interface ExplainAt extends DecideAt {
  /** Epoch milliseconds; null: as soon as something changes. */
  readonly nextAttemptMs?: number | null;
  readonly elsewhere?: AbsenceInfo;
}

const MAX_RANKED = 20;
/** Workers left out that a decision names: all up to the first number; past it, the second when a worker was chosen. */
const MAX_LEFT_OUT = 50;
const MAX_LEFT_OUT_IF_CHOSEN = 10;
/** Up to this many eligible workers are scored one by one: cheaper than walking cells whose workers are mostly left out. */
const SCORE_EACH_UP_TO = 2048;
/** Up to this many known workers each is checked and scored: sets of bits cost more than they save there. */
const CHECK_EACH_UP_TO = 16;

export class Router {
  readonly policy: RoutePolicy;
  readonly #hooks: RouteHooks | undefined;
  readonly #learner: RouteLearner | undefined;
  readonly #checkEachUpTo: number;
  readonly #scoreEachUpTo: number;
  readonly #minChecks: number;
  readonly #workers = new Map<string, WorkerSlot>();
  readonly #bySlot: (WorkerSlot | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #eligibility: Eligibility;
  /** Cells by urgency. */
  readonly #cells = [new Cells(false), new Cells(true)] as const;
  readonly #scan = new Scan();
  readonly #ageing = new Heap<WorkerSlot>((left, right) => left.checkAtMs < right.checkAtMs);
  #nowMs = Number.NEGATIVE_INFINITY;

  /**
   * `checkEachUpTo`: number of workers up to which each is checked; `scoreEachUpTo`: number of eligible workers up to which
   * each is scored; `minChecks`: minimum length of a walk over the cells. They only change the cost of a decision, never its
   * result.
   */
  constructor(
    policy: RoutePolicy,
    hooks?: RouteHooks,
    { checkEachUpTo = CHECK_EACH_UP_TO, scoreEachUpTo = SCORE_EACH_UP_TO, minChecks = 0 } = {},
    learner?: RouteLearner,
  ) {
    this.#learner = learner;
    this.policy = policy;
    this.#hooks = hooks;
    this.#checkEachUpTo = checkEachUpTo;
    this.#scoreEachUpTo = scoreEachUpTo;
    this.#minChecks = minChecks;
    this.#eligibility = new Eligibility(policy, this.#workers);
  }

  get size(): number {
    return this.#workers.size;
  }

  /** Adds or replaces a worker, including `outstanding`. `age_s` is the age of the profile at `atMs`. */
  upsert(profile: Profile, atMs: number): void {
    this.#advance(atMs);
    let worker = this.#workers.get(profile.agent_id);
    if (worker !== undefined && sameFacts(worker.profile, profile)) {
      this.#close(worker);
      describe(worker, profile, Math.floor(atMs), this.policy);
      return this.#reopen(worker);
    }
    if (worker === undefined) {
      worker = emptySlot(this.#free.pop() ?? this.#bySlot.length, profile);
      this.#workers.set(profile.agent_id, worker);
      this.#bySlot[worker.slot] = worker;
    } else {
      this.#close(worker);
      this.#eligibility.leave(worker);
    }
    describe(worker, profile, Math.floor(atMs), this.policy);
    this.#eligibility.enter(worker);
    this.#reopen(worker);
  }

  /** Removes a worker; false: it was unknown. */
  remove(agentId: string): boolean {
    const worker = this.#workers.get(agentId);
    if (worker === undefined) return false;
    this.#close(worker);
    this.#eligibility.leave(worker);
    this.#ageing.remove(worker);
    this.#workers.delete(agentId);
    this.#bySlot[worker.slot] = undefined;
    this.#free.push(worker.slot);
    return true;
  }

  /** Counts a dispatch sent to this worker; false: the worker is unknown. */
  reserve(agentId: string): boolean {
    return this.#addOutstanding(agentId, 1);
  }

  /** Uncounts a dispatch that arrived or was abandoned; false: none was counted. */
  release(agentId: string): boolean {
    return this.#addOutstanding(agentId, -1);
  }

  /** Returns a worker as it is now. */
  profile(agentId: string, nowMs: number): Profile | undefined {
    const worker = this.#workers.get(agentId);
    return worker === undefined ? undefined : profileAt(worker, this.#advance(nowMs));
  }

  /** Yields all workers as they are now. */
  *profiles(nowMs: number): IterableIterator<Profile> {
    const now = this.#advance(nowMs);
    for (const worker of this.#workers.values()) yield profileAt(worker, now);
  }

  /**
   * Returns the time since when a server of a worker has been in its present unhealthy state, as announced; null: healthy or
   * unknown.
   */
  unhealthySinceMs(agentId: string, server: string): number | null {
    return this.#workers.get(agentId)?.unhealthySinceMs.get(server) ?? null;
  }

  /** Returns the number of workers that could accept the task now. */
  eligible(task: RouteTask, { nowMs, wallMs, excluded = NO_EXCLUSIONS }: DecideAt): number {
    if (taskReason(task, this.policy, wallMs) !== null) return 0;
    const now = this.#advance(nowMs);
    const { bits, sameContext } = this.#eligibility.select(task, excluded, now);
    for (const { slot } of sameContext) setBit(bits, slot, true);
    if (this.#hooks !== undefined) this.#applyHooks(this.#hooks, task, bits, now);
    return countBits(bits);
  }

  /** Chooses a worker for the task. Reserves nothing: the caller must call `reserve` before it sends the dispatch. */
  decide(task: RouteTask, at: DecideAt): Decision {
    const decision = this.#decide(task, at);
    if (this.#learner === undefined || decision.chosen === null) return decision;
    const attempt = at.attempt === undefined ? undefined : { taskId: task.task_id, attempt: at.attempt };
    const learned = this.#learner.choose(decision.ranking, this.#alike(decision.verified), attempt);
    return learned?.chosen === undefined ? decision : { ...decision, chosen: learned.chosen, learned };
  }

  /** Returns whether a worker is verified, or not, like the best one: learning never mixes the two. */
  #alike(verified: boolean): (agentId: string) => boolean {
    return (agentId) => this.#workers.get(agentId)?.verified === verified;
  }

  #decide(task: RouteTask, { nowMs, wallMs, excluded = NO_EXCLUSIONS }: DecideAt): Decision {
    const reason = taskReason(task, this.policy, wallMs);
    if (reason !== null) return { chosen: null, reason, rejected_more: 0 };
    const now = this.#advance(nowMs);
    if (this.#workers.size <= this.#checkEachUpTo && this.#hooks === undefined) {
      const ageMs = (worker: WorkerSlot): number => ageMsAt(worker, now);
      return { ...routeAmong(task, this.#workers.values(), this.policy, { excluded, ageMs }), rejected_more: 0 };
    }
    const selected = this.#eligibility.select(task, excluded, now);
    const best =
      this.#hooks === undefined ? this.#best(task, selected, now) : this.#bestHooked(this.#hooks, task, selected, now);
    const { rejected, more } = this.#leftOut(task, selected.bits, excluded, now, best.length > 0);
    const first = best[0];
    if (first === undefined) return { chosen: null, reason: NO_ELIGIBLE_WORKER, rejected, rejected_more: more };
    const ranking = best.map((worker) => this.#score(task, worker, now));
    return { chosen: first.agent_id, verified: first.verified, ranking, rejected, rejected_more: more };
  }

  /** Returns a decision in the form that is stored with its task. */
  explanation(task: RouteTask, decision: Decision, at: ExplainAt): Explanation {
    return explanationOf(task, decision, {
      policy: this.policy,
      nowMs: this.#advance(at.nowMs),
      wallMs: at.wallMs,
      nextAttemptMs: at.nextAttemptMs ?? null,
      rejectedMore: decision.rejected_more,
      learned: decision.learned,
      elsewhere: at.elsewhere,
      fleet: this,
    });
  }

  /** Returns the decision for a task with the reasons against every other worker. Checks each of them. */
  explain(task: RouteTask, at: ExplainAt): Explanation {
    const whole = route(task, this.profiles(at.nowMs), this.policy, {
      nowMs: at.wallMs,
      excluded: at.excluded ?? NO_EXCLUSIONS,
      hooks: this.#hooks,
    });
    const learned =
      whole.chosen === null ? undefined : this.#learner?.preview(whole.ranking, this.#alike(whole.verified));
    return explanationOf(task, whole, {
      learned,
      policy: this.policy,
      nowMs: this.#advance(at.nowMs),
      wallMs: at.wallMs,
      nextAttemptMs: at.nextAttemptMs ?? null,
      rejectedMore: 0,
      elsewhere: at.elsewhere,
      fleet: this,
      most: { ranking: Number.POSITIVE_INFINITY, rejected: Number.POSITIVE_INFINITY },
    });
  }

  /** Closes workers whose profile has expired. Returns the current time of the router, which never goes back. */
  #advance(nowMs: number): number {
    this.#nowMs = Math.max(this.#nowMs, Math.floor(nowMs));
    for (;;) {
      const oldest = this.#ageing.peek();
      if (oldest === undefined || oldest.checkAtMs > this.#nowMs) return this.#nowMs;
      if (oldest.expiresAtMs > this.#nowMs) {
        oldest.checkAtMs = oldest.expiresAtMs;
        this.#ageing.moved(oldest);
      } else {
        this.#ageing.remove(oldest);
        this.#close(oldest);
      }
    }
  }

  /** Stops routing to the worker. Call this before any change to the fields that order it. */
  #close(worker: WorkerSlot): void {
    for (const cells of this.#cells) cells.remove(worker);
    this.#eligibility.open(worker, false);
  }

  /** Enters the worker among those that can accept tasks, if it can. */
  #reopen(worker: WorkerSlot): void {
    const { profile, verified } = worker;
    const unverified = profile.reachable && profile.joining !== true && this.policy.unverified !== 'never';
    const usable = verified ? worker.expiresAtMs > this.#nowMs : unverified;
    if (!usable || profile.draining || profile.circuit === 'open' || worker.load >= worker.capacity) return;
    for (const cells of this.#cells) cells.add(worker);
    this.#scan.set(worker);
    if (verified) this.#watchAge(worker);
    this.#eligibility.open(worker, true);
  }

  /** Schedules a check for the time the profile expires, or before. */
  #watchAge(worker: WorkerSlot): void {
    const listed = this.#ageing.has(worker);
    if (listed && worker.checkAtMs <= worker.expiresAtMs) return;
    worker.checkAtMs = worker.expiresAtMs;
    if (listed) this.#ageing.moved(worker);
    else this.#ageing.push(worker);
  }

  #addOutstanding(agentId: string, change: number): boolean {
    const worker = this.#workers.get(agentId);
    const outstanding = (worker?.profile.outstanding ?? 0) + change;
    if (worker === undefined || outstanding < 0) return false;
    this.#close(worker);
    worker.profile = { ...worker.profile, outstanding };
    reckon(worker);
    this.#reopen(worker);
    return true;
  }

  /** Returns the best of the selected workers. Adds those of `sameContext` to the bits. */
  #best(task: RouteTask, { bits, sameContext }: Selected, nowMs: number): readonly WorkerSlot[] {
    const points = pointsFor(task, this.policy);
    const count = countBits(bits);
    // A walk that costs more than scoring each worker is abandoned.
    const walked =
      count > this.#scoreEachUpTo
        ? this.#walk(task, bits, nowMs, points, Math.max(count / 2, this.#minChecks))
        : undefined;
    const found = walked ?? this.#lists();
    const [verified, others] = found;
    const urgency = task.priority === 'urgent' ? 1 : 0;
    if (walked === undefined) {
      this.#scan.offerBest(bits, urgency, nowMs, points, verified, others, this.#bySlot);
    }
    const { affinity } = weightsOf(urgency === 1);
    for (const worker of sameContext) {
      setBit(bits, worker.slot, true);
      const counted = affinityPart(affinity, worker.profile, false);
      const more = affinityPart(affinity, worker.profile, true) - counted + (points(worker.rank, true) ?? 0);
      verified.offer(worker, worker.bases[urgency] + more + freshnessAt(worker, nowMs));
    }
    return inOrder(found);
  }

  #walk(task: RouteTask, bits: Int32Array, nowMs: number, points: TierPoints, maxChecks: number): Lists | undefined {
    const lists = this.#lists();
    const [verified, others] = lists;
    const cells = this.#cells[task.priority === 'urgent' ? 1 : 0];
    if (!cells.offerBest(verified, bits, nowMs, true, points, maxChecks)) return undefined;
    if (others !== verified && verified.workers.length === MAX_RANKED) return lists;
    return cells.offerBest(others, bits, nowMs, false, points, maxChecks) ? lists : undefined;
  }

  /**
   * Makes a list for the best verified workers and one for the best others; the same list where the policy treats them alike.
   */
  #lists(): Lists {
    const verified = new Top(MAX_RANKED);
    return [verified, this.policy.unverified === 'allow' ? verified : new Top(MAX_RANKED)];
  }

  /** Selects as `#best`, with policy hooks: each eligible worker is scored in full. */
  #bestHooked(
    hooks: RouteHooks,
    task: RouteTask,
    { bits, sameContext }: Selected,
    nowMs: number,
  ): readonly WorkerSlot[] {
    for (const { slot } of sameContext) setBit(bits, slot, true);
    this.#applyHooks(hooks, task, bits, nowMs);
    const lists = this.#lists();
    const [verified, others] = lists;
    eachBit(bits, (slot) => {
      const worker = this.#bySlot[slot]!;
      (worker.verified ? verified : others).offer(worker, this.#score(task, worker, nowMs).score);
      return true;
    });
    return inOrder(lists);
  }

  #score(task: RouteTask, worker: WorkerSlot, nowMs: number): Ranked {
    if (this.#hooks === undefined) return scoreOf(task, worker.profile, this.policy, undefined, ageMsAt(worker, nowMs));
    return scoreOf(task, profileAt(worker, nowMs), this.policy, this.#hooks);
  }

  /** Removes from the bits the workers that a hook rejects. */
  #applyHooks(hooks: RouteHooks, task: RouteTask, bits: Int32Array, nowMs: number): void {
    eachBit(bits, (slot) => {
      const profile = profileAt(this.#bySlot[slot]!, nowMs);
      if (hooks.reject(task, profile).length > 0) setBit(bits, slot, false);
      return true;
    });
  }

  /** Returns the known workers outside these bits, or the named one: some with all their reasons, the others counted. */
  #leftOut(
    task: RouteTask,
    bits: Int32Array,
    excluded: ReadonlySet<string>,
    nowMs: number,
    chosen: boolean,
  ): { readonly rejected: Record<string, string[]>; readonly more: number } {
    const against = (worker: WorkerSlot): string[] => {
      const reasons = reasonsAgainst(task, worker.profile, this.policy, excluded, ageMsAt(worker, nowMs));
      return withHooked(
        reasons,
        this.#hooks,
        task,
        this.#hooks === undefined ? worker.profile : profileAt(worker, nowMs),
      );
    };
    if (task.only !== null) {
      // A task that names a worker needs no reasons against the others.
      const named = chosen ? undefined : this.#workers.get(task.only);
      return { rejected: named === undefined ? {} : { [named.agent_id]: against(named) }, more: 0 };
    }
    const left = this.#eligibility.complement(bits);
    const count = countBits(left);
    const most = chosen && count > MAX_LEFT_OUT ? MAX_LEFT_OUT_IF_CHOSEN : MAX_LEFT_OUT;
    const named: [string, string[]][] = [];
    eachBit(left, (slot) => {
      const worker = this.#bySlot[slot]!;
      named.push([worker.agent_id, against(worker)]);
      return named.length < most;
    });
    return { rejected: Object.fromEntries(named), more: count - named.length };
  }
}

/** Returns the score of each tier for this task, computed once for each; undefined: the tier is not eligible. */
function pointsFor(task: RouteTask, policy: RoutePolicy): TierPoints {
  const { tier } = weightsOf(task.priority === 'urgent');
  const wanted = wantedRank(task, policy);
  const least = task.min_tier === null ? undefined : (rankOf(task.min_tier, policy) ?? Number.POSITIVE_INFINITY);
  const unverified = least === undefined ? Math.floor(tier / 2) : undefined;
  const unranked = least === undefined ? tierPoints(tier, undefined, wanted) : undefined;
  const earned = new Map<number, number | undefined>();
  return (rank, verified) => {
    if (!verified) return unverified;
    if (rank === undefined) return unranked;
    let points = earned.get(rank);
    if (points === undefined && !(least !== undefined && rank < least)) {
      points = tierPoints(tier, rank, wanted);
      earned.set(rank, points);
    }
    return points;
  };
}

type Lists = readonly [verified: Top, others: Top];

function inOrder([verified, others]: Lists): readonly WorkerSlot[] {
  if (others === verified) return verified.workers;
  return [...verified.workers, ...others.workers].slice(0, MAX_RANKED);
}

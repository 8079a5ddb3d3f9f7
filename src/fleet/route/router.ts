/**
 * Routing for a fleet that changes while it is asked: the answers of `route.ts`, without looking at every worker.
 *
 * Requirements are sets of bits that are intersected (`eligibility.ts`); the workers left are scored one by one when they
 * are few, and otherwise found best first (`cells.ts`). With policy hooks every eligible worker is looked at, since a hook
 * may move any of them anywhere.
 *
 * Called by the dispatcher. Keeps no clock: times come with each call.
 * @see docs/fleet.md#routing
 */
import { Heap } from '../../base/heap.ts';
import { countBits, eachBit, setBit } from './bits.ts';
import { Cells, freshnessAt } from './cells.ts';
import { Eligibility, type Selected } from './eligibility.ts';
import { type AbsenceInfo, explanationOf } from './explain.ts';
import { NOBODY, reasonsAgainst, taskReason, withHooked } from './filters.ts';
import type { Explanation, Profile, Ranked, Route, RouteHooks, RoutePolicy, RouteTask } from './profile.ts';
import { NO_ELIGIBLE_WORKER, route } from './route.ts';
import { Scan, type TierPoints } from './scan.ts';
import { affinityPart, scoreOf, tierPoints, weightsOf } from './score.ts';
import { rankOf, wantedRank } from './tiers.ts';
import { Top } from './top.ts';
import { ageMsAt, describe, emptySlot, profileAt, reckon, sameFacts, type WorkerSlot } from './worker-slot.ts';

/** When a decision is made, and for whom it is not. */
export interface DecideAt {
  /** Monotonic clock, milliseconds; the one `upsert` is called with. An earlier time than before counts as that. */
  readonly nowMs: number;
  /** Epoch milliseconds: what a deadline is compared with. */
  readonly wallMs: number;
  /** Workers left out for this task, by name. */
  readonly excluded?: ReadonlySet<string>;
}

/**
 * A route that names at most 20 workers in order, and 50 that were left out; 10 where somebody was chosen and more than 50
 * were left out, since nobody asks then.
 */
export type Decision = Route & {
  /** Workers left out beside the ones in `rejected`. */
  readonly rejected_more: number;
};

export interface ExplainAt extends DecideAt {
  /** Epoch milliseconds; null: as soon as something changes. */
  readonly nextAttemptMs?: number | null;
  readonly elsewhere?: AbsenceInfo;
}

const BEST = 20;
/** Workers left out that a decision names: all, when they are so few; else so many where it has chosen nobody, or somebody. */
const LEFT_OUT = 50;
const LEFT_OUT_BESIDE = 10;
/** Up to so many eligible workers are scored one by one: less work than walking cells most of whose workers are out. */
const FEW = 2048;

export class Router {
  readonly policy: RoutePolicy;
  readonly #hooks: RouteHooks | undefined;
  readonly #few: number;
  readonly #leastLooks: number;
  readonly #workers = new Map<string, WorkerSlot>();
  readonly #bySlot: (WorkerSlot | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #eligibility: Eligibility;
  /** By urgency. */
  readonly #cells = [new Cells(false), new Cells(true)] as const;
  readonly #scan = new Scan();
  readonly #ageing = new Heap<WorkerSlot>((left, right) => left.lookAtMs < right.lookAtMs);
  #nowMs = Number.NEGATIVE_INFINITY;

  /** `scoreEachUpTo`: eligible workers scored one by one; `leastLooks`: how far to walk at least. No answer depends on them. */
  constructor(policy: RoutePolicy, hooks?: RouteHooks, { scoreEachUpTo = FEW, leastLooks = 0 } = {}) {
    this.policy = policy;
    this.#hooks = hooks;
    this.#few = scoreEachUpTo;
    this.#leastLooks = leastLooks;
    this.#eligibility = new Eligibility(policy, this.#workers);
  }

  get size(): number {
    return this.#workers.size;
  }

  /** Takes a worker as it is now; replaces everything known of it, `outstanding` too. `age_s` is its age at `atMs`. */
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

  /** Forgets a worker; false: it was not here. */
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

  /** One more dispatch is on its way to this worker; false: it is not connected. */
  reserve(agentId: string): boolean {
    return this.#addOutstanding(agentId, 1);
  }

  /** One dispatch less is on its way, because it arrived or never will; false: there was none. */
  release(agentId: string): boolean {
    return this.#addOutstanding(agentId, -1);
  }

  /** A worker as it is now. */
  profile(agentId: string, nowMs: number): Profile | undefined {
    const worker = this.#workers.get(agentId);
    return worker === undefined ? undefined : profileAt(worker, this.#advance(nowMs));
  }

  /** All workers as they are now. */
  *profiles(nowMs: number): IterableIterator<Profile> {
    const now = this.#advance(nowMs);
    for (const worker of this.#workers.values()) yield profileAt(worker, now);
  }

  /** Since when a server of a worker has been in its present state, as far as was seen; null: it is well, or unknown. */
  unhealthySinceMs(agentId: string, server: string): number | null {
    return this.#workers.get(agentId)?.unhealthySinceMs.get(server) ?? null;
  }

  /** Number of workers that could take the task now. */
  eligible(task: RouteTask, { nowMs, wallMs, excluded = NOBODY }: DecideAt): number {
    if (taskReason(task, this.policy, wallMs) !== null) return 0;
    const now = this.#advance(nowMs);
    const { bits, friends } = this.#eligibility.select(task, excluded, now);
    for (const friend of friends) setBit(bits, friend.slot, true);
    if (this.#hooks !== undefined) this.#applyHooks(this.#hooks, task, bits, now);
    return countBits(bits);
  }

  /** Where the task goes now. Nothing is reserved: that is for the caller to do before anything is sent. */
  decide(task: RouteTask, { nowMs, wallMs, excluded = NOBODY }: DecideAt): Decision {
    const reason = taskReason(task, this.policy, wallMs);
    if (reason !== null) return { chosen: null, reason, rejected_more: 0 };
    const now = this.#advance(nowMs);
    const selected = this.#eligibility.select(task, excluded, now);
    const best =
      this.#hooks === undefined ? this.#best(task, selected, now) : this.#bestHooked(this.#hooks, task, selected, now);
    const { rejected, more } = this.#leftOut(task, selected.bits, excluded, now, best.length > 0);
    const first = best[0];
    if (first === undefined) return { chosen: null, reason: NO_ELIGIBLE_WORKER, rejected, rejected_more: more };
    const ranking = best.map((worker) => this.#score(task, worker, now));
    return { chosen: first.agent_id, verified: first.verified, ranking, rejected, rejected_more: more };
  }

  /** A decision in the form that is kept with its task. */
  explanation(task: RouteTask, decision: Decision, at: ExplainAt): Explanation {
    return explanationOf(task, decision, {
      policy: this.policy,
      nowMs: this.#advance(at.nowMs),
      wallMs: at.wallMs,
      nextAttemptMs: at.nextAttemptMs ?? null,
      rejectedMore: decision.rejected_more,
      elsewhere: at.elsewhere,
      fleet: this,
    });
  }

  /** Where the task would go and what speaks against every other worker, whole. Looks at each of them. */
  explain(task: RouteTask, at: ExplainAt): Explanation {
    const answer = route(task, this.profiles(at.nowMs), this.policy, {
      nowMs: at.wallMs,
      excluded: at.excluded ?? NOBODY,
      hooks: this.#hooks,
    });
    return explanationOf(task, answer, {
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

  /** Closes workers whose description has become too old. Answers the time that counts. */
  #advance(nowMs: number): number {
    this.#nowMs = Math.max(this.#nowMs, Math.floor(nowMs));
    for (;;) {
      const oldest = this.#ageing.peek();
      if (oldest === undefined || oldest.lookAtMs > this.#nowMs) return this.#nowMs;
      if (oldest.expiresAtMs > this.#nowMs) {
        oldest.lookAtMs = oldest.expiresAtMs;
        this.#ageing.moved(oldest);
      } else {
        this.#ageing.remove(oldest);
        this.#close(oldest);
      }
    }
  }

  /** Nothing goes to it. To be called before anything changes that it is ordered by. */
  #close(worker: WorkerSlot): void {
    for (const cells of this.#cells) cells.remove(worker);
    this.#eligibility.open(worker, false);
  }

  /** Enters it among those that can take something, if it can. */
  #reopen(worker: WorkerSlot): void {
    const { profile, verified } = worker;
    const unverified = profile.reachable && profile.joining !== true && this.policy.unverified !== 'never';
    const there = verified ? worker.expiresAtMs > this.#nowMs : unverified;
    if (!there || profile.draining || profile.circuit === 'open' || worker.load >= worker.capacity) return;
    for (const cells of this.#cells) cells.add(worker);
    this.#scan.set(worker);
    if (verified) this.#watchAge(worker);
    this.#eligibility.open(worker, true);
  }

  /** Makes sure that somebody looks when its description expires, or before. */
  #watchAge(worker: WorkerSlot): void {
    const listed = this.#ageing.has(worker);
    if (listed && worker.lookAtMs <= worker.expiresAtMs) return;
    worker.lookAtMs = worker.expiresAtMs;
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

  /** The best of those selected; afterwards the friends are among the bits. */
  #best(task: RouteTask, { bits, friends }: Selected, nowMs: number): readonly WorkerSlot[] {
    const points = pointsFor(task, this.policy);
    const count = countBits(bits);
    // A walk that takes longer than looking at each of them is given up.
    const walked =
      count > this.#few ? this.#walk(task, bits, nowMs, points, Math.max(count / 2, this.#leastLooks)) : undefined;
    const found = walked ?? this.#lists();
    const [verified, others] = found;
    const urgency = task.priority === 'urgent' ? 1 : 0;
    if (walked === undefined) {
      this.#scan.offerBest(bits, urgency, nowMs, points, verified, others, this.#bySlot);
    }
    const { affinity } = weightsOf(urgency === 1);
    for (const friend of friends) {
      setBit(bits, friend.slot, true);
      const counted = affinityPart(affinity, friend.profile, false);
      const more = affinityPart(affinity, friend.profile, true) - counted + (points(friend.rank, true) ?? 0);
      verified.offer(friend, friend.bases[urgency] + more + freshnessAt(friend, nowMs));
    }
    return inOrder(found);
  }

  #walk(task: RouteTask, bits: Int32Array, nowMs: number, points: TierPoints, looks: number): Lists | undefined {
    const lists = this.#lists();
    const [verified, others] = lists;
    const cells = this.#cells[task.priority === 'urgent' ? 1 : 0];
    if (!cells.offerBest(verified, bits, nowMs, true, points, looks)) return undefined;
    if (others !== verified && verified.workers.length === BEST) return lists;
    return cells.offerBest(others, bits, nowMs, false, points, looks) ? lists : undefined;
  }

  /** A list for the best verified workers and one for the best of the others; the same one where they are alike. */
  #lists(): Lists {
    const verified = new Top(BEST);
    return [verified, this.policy.unverified === 'allow' ? verified : new Top(BEST)];
  }

  /** The same where hooks have a say: each eligible worker is scored whole. */
  #bestHooked(hooks: RouteHooks, task: RouteTask, { bits, friends }: Selected, nowMs: number): readonly WorkerSlot[] {
    for (const friend of friends) setBit(bits, friend.slot, true);
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

  /** Takes out of the bits who a hook rejects. */
  #applyHooks(hooks: RouteHooks, task: RouteTask, bits: Int32Array, nowMs: number): void {
    eachBit(bits, (slot) => {
      const profile = profileAt(this.#bySlot[slot]!, nowMs);
      if (hooks.reject(task, profile).length > 0) setBit(bits, slot, false);
      return true;
    });
  }

  /** Who is here, or was named, but not among these bits: some with all their reasons, the others counted. */
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
      // Nobody asks about the others.
      const named = chosen ? undefined : this.#workers.get(task.only);
      return { rejected: named === undefined ? {} : { [named.agent_id]: against(named) }, more: 0 };
    }
    const left = this.#eligibility.complement(bits);
    const count = countBits(left);
    const most = chosen && count > LEFT_OUT ? LEFT_OUT_BESIDE : LEFT_OUT;
    const named: [string, string[]][] = [];
    eachBit(left, (slot) => {
      const worker = this.#bySlot[slot]!;
      named.push([worker.agent_id, against(worker)]);
      return named.length < most;
    });
    return { rejected: Object.fromEntries(named), more: count - named.length };
  }
}

/** What a tier earns for this task, worked out once for each; undefined: not this tier. */
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
  return [...verified.workers, ...others.workers].slice(0, BEST);
}

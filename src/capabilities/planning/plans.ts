/**
 * The plans of a host: finds the plan that a request names and checks whether its agent may use it, loads plans into memory,
 * and writes changes. The changes of one operation are one transaction of the store; the host acknowledges it when it is on
 * disk, and shows nothing before.
 *
 * A plan is stored with its owner: `plan/<id>`, `task/<plan>/<task>`, and the table `log-<plan>`. A share is stored in the
 * store that all principals share, where the other principal finds it: `share/<principal>/<plan>`.
 *
 * One host has exclusive use of the store, so the state in memory is the truth until a write fails.
 */
import { counted } from '../../base/counted.ts';
import { orAborted } from '../../base/race.ts';
import type { TimerQueue } from '../../base/timer-queue.ts';
import { inTurns, type Turns } from '../../base/turns.ts';
import type { PluginStore, Store } from '../../host/store/store.ts';
import type { Principal } from '../../session/principal.ts';
import { failure } from './errors.ts';
import { TaskGraph } from './graph.ts';
import type { Limits } from './limits.ts';
import { PlanState } from './plan-state.ts';
import type { Share } from './planning.schema.ts';
import type { Actor, PlanChange, StoredEntry, StoredPlan, StoredTask } from './stored.ts';

/** The caller: an agent of a principal, and whether its grant lets it write. */
export interface Caller extends Actor {
  readonly identity: Principal;
  readonly mayWrite: boolean;
  readonly mayShare: boolean;
  /** The signal of its request. */
  readonly signal: AbortSignal;
}

export type Need = 'read' | 'write' | 'own';

export interface PlansDeps {
  /** Returns the store, which is open once a request is running. */
  readonly store: () => PluginStore;
  readonly limits: Limits;
  /** Number of tasks in memory above which idle plans are unloaded. */
  readonly maxLoadedTasks: number;
  /** Epoch seconds. */
  readonly now: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
  /** Timers that fire with `plan/task` when a lease ends. */
  readonly leases: TimerQueue<string>;
  readonly turns: Turns;
  /** Called when entries of a plan are on disk. */
  readonly written: (plan: LoadedPlan, change: PlanChange) => void;
}

/** A plan in memory. */
export interface LoadedPlan {
  readonly state: PlanState;
  readonly store: Store;
  /** The last entry that is on disk. */
  durableSeq: number;
  /** Settles when everything so far is on disk. */
  pending: Promise<void>;
  /** The last entries that are on disk, so that followers need not read the store. */
  recent: StoredEntry[];
  /** The number of requests and subscriptions that use it. */
  users: number;
}

/** Entries and tasks read or deleted at a time. */
const PAGE = 100;
/** Tasks read per turn: each may be long. */
const LOADED_AT_A_TIME = 25;
/** Entries of a plan that stay in memory. */
const RECENT = 256;

export class Plans {
  readonly #deps: PlansDeps;
  /**
   * Start of the leases of stored claims: the first use of the store. Another host of the user may have had the store open, and
   * renewed them, until just before.
   */
  #leasesFrom: number | undefined;
  /** The records of an owner, by plan. */
  readonly #owners = new Map<string, Map<string, StoredPlan>>();
  /** Plans in memory, the most recently used last. */
  readonly #loaded = new Map<string, LoadedPlan>();
  /** Plans being loaded into memory. */
  readonly #loading = new Map<string, Promise<LoadedPlan>>();

  constructor(deps: PlansDeps) {
    this.#deps = deps;
  }

  /**
   * Passes a plan to `work` for an agent with the needed right; reads the plan in turns if it is not in memory. Up to its first
   * await the work has the plan in memory. Fails with `planning.unknown_plan`, `planning.read_only`.
   */
  async use<Result>(
    planId: string,
    caller: Caller,
    need: Need,
    work: (loaded: LoadedPlan) => Result | Promise<Result>,
  ): Promise<Result> {
    for (;;) {
      const plan = this.#allowed(planId, caller, need);
      const loaded = this.#used(plan.plan_id);
      if (loaded !== undefined) return work(loaded);
      // The rights may have changed by the time the plan is loaded.
      await orAborted(this.#load(plan, caller), caller.signal);
    }
  }

  /** Returns the plan for an agent that may read it. */
  find(planId: string, caller: Caller): Promise<LoadedPlan> {
    return this.use(planId, caller, 'read', (loaded) => loaded);
  }

  #allowed(planId: string, caller: Caller, need: Need): StoredPlan {
    const plan = this.#visible(planId, caller);
    if (plan === undefined) {
      throw failure('unknown_plan', `there is no plan ${JSON.stringify(planId.slice(0, 64))}`, {
        plan_id: planId.slice(0, 64),
      });
    }
    if (need !== 'read' && !mayWrite(plan, caller, need)) {
      throw failure('read_only', readOnly(plan, caller, need), { plan_id: planId, owner: plan.owner });
    }
    return plan;
  }

  /** Returns the plans an agent may read, oldest first. */
  list(caller: Caller): StoredPlan[] {
    const own = [...this.#recordsOf(caller.principal, caller.identity).keys()];
    const shared = this.#deps
      .store()
      .shared.list<ShareKey>({ prefix: sharePrefix(caller.principal), limit: this.#deps.limits.maxPlans })
      .map(({ key }) => key.slice(sharePrefix(caller.principal).length));
    return (
      [...own, ...shared]
        .map((id) => this.#visible(id, caller))
        .filter((plan) => plan !== undefined)
        // Plans of one millisecond stay in the order of their creation.
        .sort((left, right) => left.created_at - right.created_at)
    );
  }

  /** Returns the plan of this caller that was created with this key. */
  byKey(key: string, caller: Caller): string | undefined {
    for (const plan of this.#recordsOf(caller.principal, caller.identity).values()) {
      if (plan.key === key && plan.deleting === undefined && visibleTo(plan, caller)) return plan.plan_id;
    }
    return undefined;
  }

  create(plan: StoredPlan, caller: Caller): LoadedPlan {
    if (!caller.mayWrite) throw failure('read_only', 'the grant of this principal is to read plans only');
    const records = this.#recordsOf(caller.principal, caller.identity);
    const { maxPlans } = this.#deps.limits;
    if (records.size >= maxPlans) {
      throw failure('full', `the principal has ${counted(records.size, 'plan')}, as many as it may have; delete some`, {
        limit: 'max_plans',
        max: maxPlans,
      });
    }
    records.set(plan.plan_id, plan);
    const loaded = this.#place(plan, new TaskGraph(plan.rules), caller.identity);
    loaded.state.created(caller);
    return loaded;
  }

  /** Writes the changes of a plan since the last commit. Resolves when they are on disk. */
  commit(loaded: LoadedPlan): Promise<void> {
    const change = loaded.state.takeChange();
    if (change === undefined) return loaded.pending;
    const { plan } = loaded.state;
    const records = this.#owners.get(plan.owner);
    if (change.plan !== undefined) records?.set(plan.plan_id, change.plan);
    const { seq } = loaded.state;
    const written = loaded.store
      .atomically(() => write(loaded.store, plan.plan_id, change))
      .then(
        () => {
          loaded.durableSeq = Math.max(loaded.durableSeq, seq);
          loaded.recent.push(...change.entries);
          if (loaded.recent.length > 2 * RECENT) loaded.recent = loaded.recent.slice(-RECENT);
          if (change.entries.length > 0) this.#deps.written(loaded, change);
        },
        (error) => {
          // The store refused or lost the state in memory: the store is the truth.
          this.#unload(plan.plan_id, loaded);
          this.#owners.delete(plan.owner);
          throw error;
        },
      );
    // A read also waits for the write, and must not fail by it.
    loaded.pending = written.catch(() => {});
    return written;
  }

  /** Stores or removes shares where the other principals find them. */
  async share(loaded: LoadedPlan, shares: readonly Share[], caller: Caller): Promise<void> {
    const { plan } = loaded.state;
    const { shared } = this.#deps.store();
    const before = plan.shares.map(({ principal }) => principal);
    loaded.state.share(shares, caller);
    for (const { principal } of shares) {
      await shared.set(`${sharePrefix(principal)}${plan.plan_id}`, { owner: plan.owner } satisfies ShareKey);
    }
    await this.commit(loaded);
    const ended = before.filter((name) => !shares.some(({ principal }) => principal === name));
    for (const principal of ended) await shared.delete(`${sharePrefix(principal)}${plan.plan_id}`);
  }

  /** Deletes a plan with all its data, in several steps. An interrupted deletion continues when its owner is loaded next. */
  async delete(loaded: LoadedPlan): Promise<{ tasks: number; entries: number }> {
    const { state, store } = loaded;
    const { plan } = state;
    await loaded.pending;
    this.#unload(plan.plan_id, loaded);
    const deleting = { ...plan, deleting: true } as const;
    this.#owners.get(plan.owner)?.set(plan.plan_id, deleting);
    await store.set(planKey(plan.plan_id), deleting);
    const { shared } = this.#deps.store();
    for (const { principal } of plan.shares) await shared.delete(`${sharePrefix(principal)}${plan.plan_id}`);
    return this.#deleteRest(store, deleting);
  }

  async #deleteRest(store: Store, { plan_id, owner }: StoredPlan): Promise<{ tasks: number; entries: number }> {
    const deleted = { tasks: 0, entries: 0 };
    const log = store.rows(logTable(plan_id));
    for (let page = log.list({ limit: PAGE }); page.length > 0; page = log.list({ limit: PAGE })) {
      await store.atomically(() => page.forEach(({ id }) => void log.delete(id)));
      deleted.entries += page.length;
    }
    const prefix = taskKey(plan_id, '');
    for (let page = store.list({ prefix, limit: PAGE }); page.length > 0; page = store.list({ prefix, limit: PAGE })) {
      await store.atomically(() => page.forEach(({ key }) => void store.delete(key)));
      deleted.tasks += page.length;
    }
    await store.delete(planKey(plan_id));
    this.#owners.get(owner)?.delete(plan_id);
    return deleted;
  }

  /** Yields the entries of a plan above a number that are on disk, oldest first, several per read. */
  *entriesBehind(loaded: LoadedPlan, after: number): Generator<StoredEntry> {
    for (let from = after; ; ) {
      const some = this.entriesAfter(loaded, from, LOADED_AT_A_TIME);
      yield* some;
      if (some.length < LOADED_AT_A_TIME) return;
      from = (some.at(-1) as StoredEntry).seq;
    }
  }

  /** Returns the entries of a plan above a number that are on disk, oldest first. */
  entriesAfter({ state, store, durableSeq, recent }: LoadedPlan, after: number, limit: number): StoredEntry[] {
    if (after >= durableSeq) return [];
    const [oldest] = recent;
    if (oldest !== undefined && oldest.seq <= after + 1) {
      return recent.filter(({ seq }) => seq > after).slice(0, limit);
    }
    const rows = store.rows<StoredEntry>(logTable(state.plan.plan_id)).list({ after, limit });
    return rows.map(({ row }) => row).filter(({ seq }) => seq <= durableSeq);
  }

  entry({ state, store }: LoadedPlan, seq: number): StoredEntry | undefined {
    return store.rows<StoredEntry>(logTable(state.plan.plan_id)).get(seq);
  }

  /** Yields the entries of one task from this one backwards. */
  *chain(loaded: LoadedPlan, from: number): Generator<StoredEntry> {
    for (let entry = this.entry(loaded, from); entry !== undefined; entry = this.entry(loaded, entry.prev)) yield entry;
  }

  /** Ends a claim whose lease ran out. `key` is `plan/task`. */
  expire(key: string): void {
    const [planId = '', taskId = ''] = key.split('/');
    const loaded = this.#loaded.get(planId);
    if (loaded?.state.expire(taskId)) void this.commit(loaded).catch(() => {});
  }

  /** Returns a plan that is in memory. */
  loaded(planId: string): LoadedPlan | undefined {
    return this.#loaded.get(planId);
  }

  canRead(plan: StoredPlan, caller: Caller): boolean {
    return plan.deleting === undefined && visibleTo(plan, caller);
  }

  #visible(planId: string, caller: Caller): StoredPlan | undefined {
    const own = this.#recordsOf(caller.principal, caller.identity).get(planId);
    const plan = own ?? this.#sharedWith(planId, caller);
    return plan !== undefined && this.canRead(plan, caller) ? plan : undefined;
  }

  #sharedWith(planId: string, { principal }: Caller): StoredPlan | undefined {
    if (!isPlanId(planId)) return undefined;
    const key = this.#deps.store().shared.get<ShareKey>(`${sharePrefix(principal)}${planId}`);
    return key === undefined ? undefined : this.#recordsOf(key.owner).get(planId);
  }

  #recordsOf(owner: string, identity?: Principal): Map<string, StoredPlan> {
    let records = this.#owners.get(owner);
    if (records !== undefined) return records;
    records = new Map();
    this.#owners.set(owner, records);
    const store = this.#storeOf(owner, identity);
    for (let after = ''; ; ) {
      const page = store.list<StoredPlan>({ prefix: planKey(''), after, limit: PAGE });
      for (const { value } of page) records.set(value.plan_id, value);
      if (page.length < PAGE) break;
      after = page.at(-1)?.key as string;
    }
    for (const plan of records.values()) {
      if (plan.deleting) void this.#deleteRest(store, plan).catch(() => {});
    }
    return records;
  }

  /** Returns the store of an owner. Its limits are those of the principal where it is known. */
  #storeOf(owner: string, identity: Principal | undefined): Store {
    const principal = identity?.name === owner ? identity : { name: owner };
    return this.#deps.store().of({ id: 'planning', agentId: '', principal }).principal;
  }

  /** Returns a plan that is in memory, and marks it as used now. */
  #used(planId: string): LoadedPlan | undefined {
    const known = this.#loaded.get(planId);
    if (known === undefined) return undefined;
    this.#loaded.delete(planId);
    this.#loaded.set(planId, known);
    return known;
  }

  /** Reads a plan that is not in memory; requests that arrive meanwhile wait for the same read. */
  #load(plan: StoredPlan, caller: Caller): Promise<LoadedPlan> {
    const known = this.#loading.get(plan.plan_id);
    if (known !== undefined) return known;
    const loading = this.#read(plan, caller).finally(() => this.#loading.delete(plan.plan_id));
    this.#loading.set(plan.plan_id, loading);
    return loading;
  }

  async #read(plan: StoredPlan, caller: Caller): Promise<LoadedPlan> {
    const { turns } = this.#deps;
    const store = this.#storeOf(plan.owner, caller.identity);
    const tasks: StoredTask[] = [];
    const prefix = taskKey(plan.plan_id, '');
    for (let after = ''; ; ) {
      const page = store.list<StoredTask>({ prefix, after, limit: LOADED_AT_A_TIME });
      for (const { value } of page) tasks.push(value);
      if (page.length < LOADED_AT_A_TIME) break;
      after = page.at(-1)?.key as string;
      while (turns.over) await turns.next();
    }
    // By age, which is the order of lists.
    tasks.sort((left, right) => left.first - right.first);
    const graph = await inTurns(new TaskGraph(plan.rules).fill(tasks), turns);
    // Uses the present record: the plan may have been shared or deleted meanwhile.
    return this.#place(this.#owners.get(plan.owner)?.get(plan.plan_id) ?? plan, graph, caller.identity);
  }

  #place(plan: StoredPlan, graph: TaskGraph, identity: Principal): LoadedPlan {
    const { limits, leases, now, monotonic } = this.#deps;
    const setLease = (taskId: string, at: number | undefined): void => {
      const key = `${plan.plan_id}/${taskId}`;
      if (at === undefined) leases.clear(key);
      else leases.set(key, at);
    };
    const clock = { now, monotonic, setLease };
    this.#leasesFrom ??= monotonic();
    const state = new PlanState(plan, graph, { limits, clock, leasesFrom: this.#leasesFrom });
    const loaded: LoadedPlan = {
      state,
      store: this.#storeOf(plan.owner, identity),
      durableSeq: state.seq,
      pending: Promise.resolve(),
      recent: [],
      users: 0,
    };
    this.#loaded.set(plan.plan_id, loaded);
    this.#unloadIdle(loaded);
    return loaded;
  }

  /** Unloads the least recently used plans, except the newest one. A plan with claims stays: its leases are in memory alone. */
  #unloadIdle(newest: LoadedPlan): void {
    let tasks = 0;
    for (const { state } of this.#loaded.values()) tasks += state.graph.size + 1;
    for (const [planId, loaded] of this.#loaded) {
      if (tasks <= this.#deps.maxLoadedTasks) return;
      const { state, users } = loaded;
      if (loaded === newest || users > 0 || state.hasClaims || state.seq > loaded.durableSeq) continue;
      tasks -= state.graph.size + 1;
      this.#unload(planId, loaded);
    }
  }

  #unload(planId: string, loaded: LoadedPlan): void {
    if (this.#loaded.get(planId) !== loaded) return;
    this.#loaded.delete(planId);
    loaded.state.close();
  }
}

/** The record stored for another principal. */
interface ShareKey {
  readonly owner: string;
}

const planKey = (planId: string): string => `plan/${planId}`;
const taskKey = (planId: string, taskId: string): string => `task/${planId}/${taskId}`;
const logTable = (planId: string): string => `log-${planId}`;
const sharePrefix = (principal: string): string => `share/${encodeURIComponent(principal)}/`;

/** Returns true for the form of a stored plan id; any other text names no plan. */
const isPlanId = (planId: string): boolean => /^[0-9a-f]{12}$/.test(planId);

function write(store: Store, planId: string, { plan, tasks, entries }: PlanChange): void {
  if (plan !== undefined) void store.set(planKey(planId), plan);
  for (const [taskId, task] of tasks) {
    const key = taskKey(planId, taskId);
    void (task === undefined ? store.delete(key) : store.set(key, task));
  }
  const log = store.rows<StoredEntry>(logTable(planId));
  for (const entry of entries) void log.replace(entry.seq, entry);
}

const visibleTo = (plan: StoredPlan, { principal, agent }: Caller): boolean =>
  plan.owner === principal
    ? plan.agent === '' || plan.agent === agent
    : plan.shares.some((share) => share.principal === principal);

function mayWrite(plan: StoredPlan, caller: Caller, need: Need): boolean {
  if (!caller.mayWrite) return false;
  if (plan.owner === caller.principal) return true;
  return (
    need === 'write' && plan.shares.some(({ principal, role }) => principal === caller.principal && role === 'write')
  );
}

function readOnly(plan: StoredPlan, caller: Caller, need: Need): string {
  if (!caller.mayWrite) return 'the grant of this principal is to read plans only';
  if (need === 'own') return `the plan belongs to ${plan.owner}, who alone may do this`;
  return `${plan.owner} shares the plan with you for reading only`;
}

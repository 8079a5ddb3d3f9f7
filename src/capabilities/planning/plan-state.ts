/**
 * One plan with its tasks in memory, and all operations on it. Every operation first checks and then changes, without an await:
 * two requests never see half of each other. Changes are collected, and `plans.ts` writes them in one transaction.
 *
 * Leases are measured on a monotonic clock. A restart, and a takeover by another host, give every claim its whole lease again,
 * counted from the first use of the store: a lease may then last longer, never shorter, even when the wall clock jumped.
 */
import { counted } from '../../base/counted.ts';
import { failure } from './errors.ts';
import type { TaskGraph } from './graph.ts';
import type { Limits } from './limits.ts';
import type { Rules, Share } from './planning.schema.ts';
import { blockedBy, claimedBy, claimLost, conflict } from './refusals.ts';
import { firstColumn, mustAllowMove, rulesFor } from './rules.ts';
import {
  type Actor,
  type PlanChange,
  type StoredClaim,
  type StoredEntry,
  type StoredPlan,
  type StoredTask,
  same,
  TRACKED,
  type TrackedField,
} from './stored.ts';

/** The clocks of a plan, and the timers of its leases. */
export interface PlanClock {
  /** Epoch seconds. */
  readonly now: () => number;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
  /** Sets a timer that calls `expired(taskId)` at a point of the monotonic clock; undefined clears it. */
  readonly setLease: (taskId: string, at: number | undefined) => void;
}

export interface NewTask {
  readonly title: string;
  readonly status: string;
  readonly description: string;
  readonly assignee: string;
  readonly deps: readonly string[];
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly parent: string;
  readonly priority: number;
  readonly key: string;
}

/** The fields that an update sets; absent fields stay. */
export type TaskFields = Partial<Pick<StoredTask, TrackedField>>;

/** The conditions of an update. */
export interface UpdateGuard {
  readonly fence?: number | undefined;
  readonly ifRevision?: number | undefined;
  readonly force?: boolean | undefined;
}

const HOST: Actor = { principal: '', agent: '' };

export class PlanState {
  readonly graph: TaskGraph;
  readonly #limits: Limits;
  readonly #clock: PlanClock;
  readonly #keys = new Map<string, string>();
  /** Times when leases expire, monotonic milliseconds, by task. */
  readonly #leases = new Map<string, number>();
  #plan: StoredPlan;
  #seq: number;
  #planChanged = false;
  /** True after the plan was restored from the archive: every ready task may be claimed again. */
  #restored = false;
  #changed = new Map<string, StoredTask | undefined>();
  #entries: StoredEntry[] = [];

  /** @param leasesFrom start of the leases of stored claims, monotonic milliseconds */
  constructor(
    plan: StoredPlan,
    graph: TaskGraph,
    deps: { readonly limits: Limits; readonly clock: PlanClock; readonly leasesFrom: number },
  ) {
    this.#plan = plan;
    this.#limits = deps.limits;
    this.#clock = deps.clock;
    this.graph = graph;
    this.#seq = plan.seq;
    for (const { task_id, seq, key, claim } of graph.tasks()) {
      this.#seq = Math.max(this.#seq, seq);
      if (key !== undefined) this.#keys.set(key, task_id);
      if (claim !== null) this.#setLease(task_id, deps.leasesFrom + claim.lease_ms);
    }
  }

  get plan(): StoredPlan {
    return this.#plan;
  }

  /** The number of the last entry of the history. */
  get seq(): number {
    return this.#seq;
  }

  /** Returns the changes since the last call. */
  takeChange(): PlanChange | undefined {
    if (!this.#planChanged && this.#changed.size === 0 && this.#entries.length === 0) return undefined;
    const plan = this.#planChanged ? this.#plan : undefined;
    const ready = this.#restored ? new Set(this.graph.readyAssignees()) : this.graph.takeNewlyReady();
    const change = { plan, tasks: this.#changed, entries: this.#entries, ready };
    this.#restored = false;
    this.#planChanged = false;
    this.#changed = new Map();
    this.#entries = [];
    return change;
  }

  task(taskId: string): StoredTask {
    const task = this.graph.get(taskId);
    if (task !== undefined) return task;
    throw failure('unknown_task', `the plan ${this.#plan.plan_id} has no task ${JSON.stringify(taskId.slice(0, 64))}`, {
      plan_id: this.#plan.plan_id,
      task_id: taskId.slice(0, 64),
    });
  }

  /** Returns the milliseconds until the lease of a claim ends. */
  expiresInMs(taskId: string): number {
    return Math.max(0, Math.ceil((this.#leases.get(taskId) ?? 0) - this.#clock.monotonic()));
  }

  byKey(key: string): StoredTask | undefined {
    const taskId = this.#keys.get(key);
    return taskId === undefined ? undefined : this.graph.get(taskId);
  }

  addTask(taskId: string, fields: NewTask, actor: Actor): StoredTask {
    const { columns, rules } = this.#plan;
    const { key, ...given } = fields;
    this.#mustBeOpen();
    if (this.graph.size >= this.#limits.maxTasks) {
      const tasks = counted(this.graph.size, 'task');
      throw failure('full', `the plan has ${tasks}, as many as a plan may have; delete some`, {
        limit: 'max_tasks',
        max: this.#limits.maxTasks,
      });
    }
    const status = given.status === '' ? firstColumn(columns) : given.status;
    if (rules.moves !== null) this.#mustBeColumn(status);
    this.#mustFit(given);
    this.#limits.planDeps(this.graph.deps + given.deps.length);
    this.#mustWaitWell(taskId, given.deps, given.parent);
    const seq = this.#seq + 1;
    const now = this.#clock.now();
    const task: StoredTask = {
      ...given,
      task_id: taskId,
      status,
      archived: false,
      revision: 0,
      created_at: now,
      updated_at: now,
      done_at: rules.done.includes(status) ? now : null,
      first: seq,
      seq: 0,
      fence: 0,
      claim: null,
      ...(key !== '' && { key }),
    };
    if (this.graph.isDone(task)) this.#mustBeUnblocked(task, given.deps, false);
    if (key !== '') this.#keys.set(key, taskId);
    return this.#put(undefined, task, 'created', actor, {});
  }

  /** Sets fields of a task, all or none. */
  updateTask(
    taskId: string,
    fields: TaskFields,
    actor: Actor,
    guard: UpdateGuard & { readonly comment?: string } = {},
  ) {
    const before = this.task(taskId);
    const { comment = '', force = false, fence } = guard;
    this.#mustBeOpen(before, fields.archived === false);
    this.#mustHaveRevision(before, guard.ifRevision, fields);
    const changed = TRACKED.filter((field) => fields[field] !== undefined && !same(fields[field], before[field]));
    this.#mustHold(before, actor, fence, force || changed.every((field) => FREE.has(field)));
    if (changed.length === 0 && comment === '') return before;
    this.#mustFit(fields);
    if (comment !== '') this.#mustFitText('comment', comment);
    const next = { ...before, ...Object.fromEntries(changed.map((field) => [field, fields[field]])) } as StoredTask;
    if (changed.includes('deps')) this.#limits.planDeps(this.graph.deps - before.deps.length + next.deps.length);
    if (changed.includes('deps') || changed.includes('parent')) this.#mustWaitWell(taskId, next.deps, next.parent);
    if (changed.includes('status')) {
      mustAllowMove(this.#plan.rules, this.#plan.columns, before.status, next.status, force);
      if (this.graph.isDone(next)) this.#mustBeUnblocked(next, next.deps, force);
    }
    const ended = before.claim !== null && this.#endsClaim(before, next, fence);
    const claim = ended ? null : before.claim;
    const wasDone = this.graph.isDone(before);
    const done_at = this.graph.isDone(next) ? (wasDone ? before.done_at : this.#clock.now()) : null;
    const action =
      changed.length === 0
        ? 'commented'
        : changed.includes('archived')
          ? next.archived
            ? 'archived'
            : 'restored'
          : 'updated';
    return this.#put(before, { ...next, claim, done_at }, action, actor, { comment, fence });
  }

  /** Adds a comment to a task, archived or not. Returns the entry's number. */
  comment(taskId: string, text: string, actor: Actor): number {
    const before = this.task(taskId);
    if (text === '') throw failure('invalid', 'a comment needs a text', { field: 'text' });
    this.#mustFitText('comment', text);
    return this.#put(before, before, 'commented', actor, { comment: text }).seq;
  }

  deleteTask(taskId: string, actor: Actor, { ifRevision, force = false }: UpdateGuard) {
    const task = this.task(taskId);
    this.#mustBeOpen();
    this.#mustHaveRevision(task, ifRevision, {});
    this.#mustHold(task, actor, undefined, force);
    const { dependents, parts } = this.graph.attached(taskId);
    const attached = [...new Set([...dependents, ...parts])];
    if (attached.length > 0 && !force) {
      const ids = attached.map(({ task_id }) => task_id);
      const which = counted(ids.length, 'task depends on it or is part of it', 'tasks depend on it or are parts of it');
      throw failure('blocked', `${which}; force detaches ${ids.length === 1 ? 'it' : 'them'}`, {
        dependents: ids.slice(0, 100),
      });
    }
    this.#limits.changes(attached.length, 'detach some of them first');
    for (const one of attached) {
      const deps = one.deps.filter((dep) => dep !== taskId);
      const parent = one.parent === taskId ? '' : one.parent;
      this.#put(one, { ...one, deps: same(deps, one.deps) ? one.deps : deps, parent }, 'updated', actor, {});
    }
    const seq = this.#nextSeq();
    const { fence, claim, first, seq: prev, ...shown } = task;
    this.#entries.push({
      ...this.#entryHead(seq, taskId, 'deleted', actor),
      revision: task.revision,
      changes: { task: [shown, null] },
      prev,
    });
    this.graph.remove(taskId);
    this.#setLease(taskId, undefined);
    if (task.key !== undefined) this.#keys.delete(task.key);
    this.#changed.set(taskId, undefined);
    // From here on, only the plan itself has the number of this entry.
    this.#setPlan({ ...this.#plan, seq });
    return { seq, detached: attached.map(({ task_id }) => task_id) };
  }

  /** Returns the first ready task that an agent of this name may claim. */
  nextFor(agent: string): StoredTask | undefined {
    return this.#plan.archived ? undefined : this.graph.next(agent);
  }

  /** Returns true when a task may be claimed now. */
  isReady(taskId: string): boolean {
    return !this.#plan.archived && this.graph.isReady(taskId);
  }

  /** Returns the tasks that an agent of this name may claim now, in order; with `after` only those behind it. */
  ready(agent: string, after?: StoredTask): StoredTask[] {
    return this.#plan.archived ? [] : this.graph.ready(agent, after);
  }

  /** Returns the number of tasks that are assigned to this name ('': to none) and may be claimed. */
  readyFor(assignee: string): number {
    return this.#plan.archived ? 0 : this.graph.readyFor(assignee);
  }

  /** Claims a ready task. */
  claim(taskId: string, actor: Actor, leaseMs: number, key: string): StoredTask {
    const before = this.task(taskId);
    this.#mustBeOpen(before);
    if (before.claim !== null) throw this.#claimedBy(before);
    const blocked = this.graph.blockers(taskId);
    if (blocked.length > 0) throw blockedBy(this.graph, before, blocked);
    if (!this.graph.isReady(taskId)) {
      throw failure('not_allowed', `the task is in ${JSON.stringify(before.status)}, where tasks cannot be claimed`, {
        status: before.status,
      });
    }
    if (!isFor(before, actor.agent)) {
      throw failure('claimed', `the task is assigned to ${JSON.stringify(before.assignee)}`, {
        assignee: before.assignee,
      });
    }
    const fence = before.fence + 1;
    const now = this.#clock.now();
    const claim: StoredClaim = {
      ...actor,
      fence,
      lease_ms: leaseMs,
      claimed_at: now,
      from: before.status,
      ...(key !== '' && { key }),
    };
    const status = this.#plan.rules.active === '' ? before.status : this.#plan.rules.active;
    this.#setLease(taskId, this.#clock.monotonic() + leaseMs);
    return this.#put(before, { ...before, status, fence, claim }, 'claimed', actor, { fence });
  }

  /** Returns the claim in force that was made with this key. */
  claimByKey(key: string, actor: Actor): StoredTask | undefined {
    for (const taskId of this.#leases.keys()) {
      const task = this.graph.get(taskId);
      if (task?.claim?.key === key && isOf(task.claim, actor)) return task;
    }
    return undefined;
  }

  /** Starts a lease again. Writes only if its duration changes: a restart starts it again as well. */
  renew(taskId: string, actor: Actor, fence: number, leaseMs: number | undefined): StoredTask {
    const task = this.task(taskId);
    this.#mustHold(task, actor, fence, false);
    const claim = task.claim as StoredClaim;
    const lease_ms = leaseMs ?? claim.lease_ms;
    this.#setLease(taskId, this.#clock.monotonic() + lease_ms);
    if (lease_ms === claim.lease_ms) return task;
    const renewed = { ...task, claim: { ...claim, lease_ms } };
    this.graph.put(renewed);
    this.#changed.set(taskId, renewed);
    return renewed;
  }

  release(taskId: string, actor: Actor, fence: number, comment: string): StoredTask {
    const task = this.task(taskId);
    this.#mustHold(task, actor, fence, false);
    if (comment !== '') this.#mustFitText('comment', comment);
    return this.#endClaim(task, 'released', actor, comment);
  }

  /** Ends a claim whose lease ran out. Returns false if the lease is running, or the task has no claim. */
  expire(taskId: string): boolean {
    const task = this.graph.get(taskId);
    const at = this.#leases.get(taskId);
    if (task === undefined || task.claim === null || at === undefined || at > this.#clock.monotonic()) return false;
    this.#endClaim(task, 'expired', HOST, '');
    return true;
  }

  configure(
    change: {
      readonly name?: string | undefined;
      readonly description?: string | undefined;
      readonly columns?: readonly string[] | undefined;
      readonly rename?: Readonly<Record<string, string>> | undefined;
      readonly rules?: Partial<Rules> | undefined;
    },
    actor: Actor,
    ifRevision: number | undefined,
  ): void {
    const before = this.#plan;
    this.#mustBeOpen();
    if (ifRevision !== undefined && ifRevision !== before.revision) {
      throw conflict('the plan', before.revision, { if_revision: ifRevision, changes: change }, before);
    }
    const renamed = new Map(Object.entries(change.rename ?? {}));
    const to = (column: string): string => renamed.get(column) ?? column;
    for (const column of renamed.keys()) this.#mustBeColumn(column);
    const columns = this.#limits.columns(change.columns ?? before.columns.map(to));
    const { moves } = before.rules;
    const known: Rules = {
      ...before.rules,
      done: before.rules.done.map(to),
      active: to(before.rules.active),
      moves: moves && Object.fromEntries(Object.entries(moves).map(([from, all]) => [to(from), all.map(to)])),
    };
    const rules = rulesFor(columns, change.rules, known);
    const { name = before.name, description = before.description } = change;
    this.#limits.name(name);
    this.#limits.text('description', description);
    const next = { ...before, name: name || before.name, description, columns, rules };
    const fields = ['name', 'description', 'columns', 'rules'] as const;
    const changes = Object.fromEntries(
      fields.filter((field) => !same(before[field], next[field])).map((field) => [field, [before[field], next[field]]]),
    ) as StoredEntry['changes'];
    if (Object.keys(changes).length === 0) return;
    const moved = renamed.size === 0 ? [] : [...this.graph.tasks()].filter(({ status }) => renamed.has(status));
    this.#limits.changes(moved.length, 'move the tasks of the column to another one instead');
    this.#plan = next;
    this.graph.setRules(rules);
    for (const task of moved) {
      const claim = task.claim && { ...task.claim, from: to(task.claim.from) };
      this.#put(task, { ...task, status: to(task.status), claim }, 'updated', actor, {});
    }
    this.#logPlan('configured', actor, changes);
  }

  archive(archived: boolean, actor: Actor): void {
    if (archived === this.#plan.archived) return;
    const changes = { archived: [this.#plan.archived, archived] } as const;
    this.#plan = { ...this.#plan, archived };
    this.#restored = !archived;
    this.#logPlan(archived ? 'archived' : 'restored', actor, changes);
  }

  share(shares: readonly Share[], actor: Actor): void {
    if (same(shares, this.#plan.shares)) return;
    const changes = { shares: [this.#plan.shares, shares] } as const;
    this.#plan = { ...this.#plan, shares };
    this.#logPlan('shared', actor, changes);
  }

  /** Logs the first entry of a new plan. */
  created(actor: Actor): void {
    const { name, columns, rules } = this.#plan;
    this.#logPlan('created', actor, { name: [null, name], columns: [null, columns], rules: [null, rules] });
  }

  /** Clears the timers of its claims. */
  close(): void {
    for (const taskId of [...this.#leases.keys()]) this.#setLease(taskId, undefined);
  }

  get hasClaims(): boolean {
    return this.#leases.size > 0;
  }

  #put(
    before: StoredTask | undefined,
    next: StoredTask,
    action: string,
    actor: Actor,
    { comment = '', fence }: { readonly comment?: string; readonly fence?: number | undefined },
  ): StoredTask {
    const seq = this.#nextSeq();
    const changes: Record<string, readonly [unknown, unknown]> = {};
    for (const field of TRACKED) {
      if (before === undefined || !same(before[field], next[field]))
        changes[field] = [before?.[field] ?? null, next[field]];
    }
    // A comment is no change: a client that waits for a revision need not know of it.
    const changed = before !== next;
    const task = {
      ...next,
      seq,
      revision: next.revision + (changed ? 1 : 0),
      updated_at: changed ? this.#clock.now() : next.updated_at,
    };
    if (task.claim === null) this.#setLease(task.task_id, undefined);
    this.graph.put(task);
    this.#changed.set(task.task_id, task);
    this.#entries.push({
      ...this.#entryHead(seq, task.task_id, action, actor),
      revision: task.revision,
      changes,
      ...(comment !== '' && { comment }),
      ...(fence !== undefined && { fence }),
      prev: before?.seq ?? 0,
    });
    return task;
  }

  #logPlan(action: string, actor: Actor, changes: StoredEntry['changes']): void {
    const seq = this.#nextSeq();
    const prev = this.#plan.seq;
    this.#setPlan({ ...this.#plan, seq, revision: this.#plan.revision + 1 });
    this.#entries.push({ ...this.#entryHead(seq, '', action, actor), revision: this.#plan.revision, changes, prev });
  }

  #setPlan(plan: StoredPlan): void {
    this.#plan = plan;
    this.#planChanged = true;
  }

  #nextSeq(): number {
    this.#seq += 1;
    return this.#seq;
  }

  #entryHead(seq: number, taskId: string, action: string, { principal, agent }: Actor) {
    return { seq, plan_id: this.#plan.plan_id, task_id: taskId, action, at: this.#clock.now(), principal, agent };
  }

  #setLease(taskId: string, at: number | undefined): void {
    if (at === undefined) {
      if (!this.#leases.delete(taskId)) return;
    } else this.#leases.set(taskId, at);
    this.#clock.setLease(taskId, at);
  }

  /** Ends a claim; a task that is still in the column of the claim returns to its former column. */
  #endClaim(task: StoredTask, action: 'released' | 'expired', actor: Actor, comment: string): StoredTask {
    const { from, fence } = task.claim as StoredClaim;
    const status = task.status === this.#plan.rules.active ? from : task.status;
    return this.#put(task, { ...task, status, claim: null }, action, actor, { comment, fence });
  }

  /** Returns true if the change ends the claim: the task ends, or another agent moves it by force. */
  #endsClaim(before: StoredTask, next: StoredTask, fence: number | undefined): boolean {
    return this.graph.isDone(next) || next.archived || (fence === undefined && next.status !== before.status);
  }

  #mustBeOpen(task?: StoredTask, restores = false): void {
    if (this.#plan.archived) {
      throw failure('archived', `the plan ${this.#plan.plan_id} is archived; restore it first`, {
        plan_id: this.#plan.plan_id,
      });
    }
    if (task?.archived !== true || restores) return;
    throw failure('archived', `the task ${task.task_id} is archived; restore it first`, { task_id: task.task_id });
  }

  #mustHaveRevision(task: StoredTask, ifRevision: number | undefined, fields: TaskFields): void {
    if (ifRevision === undefined || ifRevision === task.revision) return;
    const { fence, first, seq, claim, ...current } = task;
    throw conflict('the task', task.revision, { if_revision: ifRevision, changes: fields }, current);
  }

  /**
   * Checks the claim of a task. With a fence: its claim must be in force. Without: the task must not be claimed, unless the
   * change is free.
   */
  #mustHold(task: StoredTask, actor: Actor, fence: number | undefined, free: boolean): void {
    const { claim } = task;
    if (fence === undefined) {
      if (claim === null || free) return;
      throw this.#claimedBy(task);
    }
    if (claim !== null && claim.fence === fence && isOf(claim, actor)) return;
    throw claimLost(task, fence, this.graph.isDone(task));
  }

  #claimedBy({ task_id, claim }: StoredTask) {
    return claimedBy(task_id, claim as StoredClaim, this.expiresInMs(task_id));
  }

  #mustBeColumn(column: string): void {
    const { columns } = this.#plan;
    if (columns.includes(column)) return;
    throw failure(
      'not_allowed',
      `${JSON.stringify(column.slice(0, 64))} is not a column of this plan; it has ${columns.join(', ')}`,
      {
        allowed: columns,
      },
    );
  }

  #mustFit(fields: TaskFields): void {
    const { title, status, description, assignee, deps, metadata } = fields;
    if (title !== undefined) this.#limits.title(title);
    if (status !== undefined) this.#limits.label('status', status);
    if (assignee !== undefined) this.#limits.label('assignee', assignee);
    if (description !== undefined) this.#mustFitText('description', description);
    if (metadata !== undefined) this.#mustFitText('metadata', JSON.stringify(metadata));
    if (deps !== undefined) this.#limits.deps(deps);
  }

  #mustFitText(field: string, text: string): void {
    this.#limits.text(field, text);
  }

  /** Checks that the dependencies and the parent of a task exist, and do not wait for it. */
  #mustWaitWell(taskId: string, deps: readonly string[], parent: string): void {
    for (const id of [...deps, ...(parent === '' ? [] : [parent])]) if (id !== taskId) this.task(id);
    const cycle = this.graph.cycleWith(taskId, deps, parent);
    if (cycle === undefined) return;
    const shown = cycle.slice(0, 100);
    const titles = shown.map((id) => this.graph.get(id)?.title.slice(0, 80) ?? 'the new task');
    throw failure('cycle', `these tasks would wait for each other: ${titles.slice(0, 10).join(' → ')}`, {
      cycle: shown,
      titles,
      // The first id is not counted twice.
      length: cycle.length - 1,
    });
  }

  /** Checks that the dependencies and parts of a task are done before it ends. */
  #mustBeUnblocked(task: StoredTask, deps: readonly string[], force: boolean): void {
    if (force || this.#plan.rules.deps === 'advisory') return;
    const open = (id: string): boolean => {
      const other = this.graph.get(id);
      return other !== undefined && !this.graph.isDone(other);
    };
    const parts = this.graph.attached(task.task_id).parts.map(({ task_id }) => task_id);
    const blocked = [...new Set([...deps, ...parts])].filter(open);
    if (blocked.length > 0) throw blockedBy(this.graph, task, blocked);
  }
}

/** Fields that every agent may change while a task is claimed: the work does not depend on them. */
const FREE: ReadonlySet<TrackedField> = new Set(['title', 'description', 'assignee', 'metadata', 'priority']);

const isOf = (claim: Actor, { principal, agent }: Actor): boolean =>
  claim.principal === principal && claim.agent === agent;

/** Returns true for a task assigned to an agent of this name, or to none. */
const isFor = ({ assignee }: Pick<StoredTask, 'assignee'>, agent: string): boolean =>
  assignee === '' || assignee === agent;

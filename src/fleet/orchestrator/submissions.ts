/**
 * Accepting tasks: checked, numbered, given their part of a budget, stored, and queued. A task that is submitted again returns
 * the existing task; another one of its name is refused.
 */
import { isDeepStrictEqual } from 'node:util';
import { counted } from '../../base/counted.ts';
import { Turns } from '../../base/turns.ts';
import { asError, fail } from '../../wire/errors.ts';
import { rankedTiers } from '../route/tiers.ts';
import { inOrder } from './dependencies.ts';
import type { Engine } from './engine.ts';
import type { Submitter, TaskRecord, TaskSpec } from './task.ts';
import { isEnded } from './task-machine.ts';
import { type FullSpec, fullSpec, newRecord, routeTaskOf } from './task-record.ts';
import type { TrackedTask } from './task-registry.ts';

/** Maximum number of tasks of one batch. */
const MAX_BATCH = 10_000;
/** Tasks of a batch that are stored in one transaction. */
const STORED_AT_ONCE = 1_024;
/** How often a task is given another number, because another orchestrator on the same store has used it. */
const MAX_RENUMBERED = 8;

/** A request that was read. */
interface Request {
  readonly id: string;
  readonly spec: FullSpec;
  readonly after: readonly string[];
  /** Absent: a program, for which every task exists. */
  readonly submitter: Submitter | undefined;
}

/** Requests of a batch in the order of their dependencies. */
interface Batch {
  readonly ordered: readonly Request[];
  /** Tasks of the batch that exist already. */
  readonly known: Map<string, TaskRecord>;
  /** Tasks outside that they wait for, in memory. */
  readonly others: readonly TrackedTask[];
  readonly submitter: Submitter | undefined;
}

export class Submissions {
  readonly #engine: Engine;
  /** Batches share the process: their tasks are read and added a few at a time. */
  readonly #turns = new Turns();
  #number = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Sets the highest number in use. */
  begin(number: number): void {
    this.#number = Math.max(this.#number, number);
  }

  async submit(spec: TaskSpec, submitter?: Submitter): Promise<TaskRecord> {
    const { registry, dispatcher, hooks } = this.#engine;
    const request = this.#read(spec, submitter);
    const tracked = registry.get(request.id);
    if (tracked !== undefined) return this.#again(tracked, request);
    const known = spec.task_id === undefined ? undefined : await this.#known(request);
    if (known !== undefined) return known;
    await this.#engine.shares.mustHaveRoom(submitter);
    this.#checkCapacity(1, submitter);
    this.checkTier(request.spec);
    const refusal = hooks.refuse(routeTaskOf({ task_id: request.id, spec: request.spec }));
    if (refusal !== null) throw fail('denied', refusal, { task_id: request.id });
    const parent = await this.#parent(request);
    const others = await this.#held(request.after, submitter);
    try {
      // The same request may have been added while these were read from the store.
      const meanwhile = registry.get(request.id);
      if (meanwhile !== undefined) return await this.#again(meanwhile, request);
      const added = this.#add(request, parent);
      this.#queue(added, others);
      dispatcher.pump();
      const granted = parent === undefined ? undefined : registry.save(parent);
      try {
        await this.#store(added);
        await granted;
      } catch (thrown) {
        return await this.#notStored(added, request, thrown);
      }
      return added.record;
    } finally {
      this.#release(others);
    }
  }

  async submitBatch(specs: readonly TaskSpec[], submitter?: Submitter): Promise<readonly TaskRecord[]> {
    if (specs.length > MAX_BATCH) throw fail('schema_violation', `a batch has at most ${MAX_BATCH} tasks`);
    const requests: Request[] = [];
    for (const spec of specs) {
      while (this.#turns.over) await this.#turns.next();
      requests.push(this.#read(spec, submitter));
    }
    const ids = new Set(requests.map(({ id }) => id));
    if (ids.size < requests.length) throw fail('schema_violation', 'two tasks of the batch have the same id');
    const ordered = inOrder(requests);
    const known = new Map<string, TaskRecord>();
    const named = new Set(specs.map(({ task_id }) => task_id));
    for (const request of ordered) {
      while (this.#turns.over) await this.#turns.next();
      const record = named.has(request.id) ? await this.#known(request) : undefined;
      if (record !== undefined) known.set(request.id, record);
    }
    const outside = new Set(ordered.flatMap(({ id, after }) => (known.has(id) ? [] : after)));
    const others = await this.#held(
      [...outside].filter((id) => !ids.has(id) || known.has(id)),
      submitter,
    );
    try {
      const taken = await this.#takeBatch({ ordered, known, others, submitter });
      return requests.map(({ id }) => known.get(id) ?? (taken.get(id) as TaskRecord));
    } finally {
      this.#release(others);
    }
  }

  /** Adds, stores and queues the tasks of a batch that are not `known`. Tasks that were added meanwhile become known. */
  async #takeBatch({ ordered, known, others, submitter }: Batch): Promise<ReadonlyMap<string, TaskRecord>> {
    const { registry, dispatcher, hooks } = this.#engine;
    const parents = new Map<string, TrackedTask>();
    for (const request of ordered) {
      while (this.#turns.over) await this.#turns.next();
      const parent = await this.#parent(request);
      if (parent !== undefined) parents.set(parent.id, parent);
    }
    await this.#engine.shares.mustHaveRoom(submitter);
    this.#checkCapacity(ordered.filter(({ id }) => !known.has(id)).length, submitter);
    const added: TrackedTask[] = [];
    const tracked = new Map(others.map((other) => [other.id, other]));
    try {
      for (const request of ordered) {
        const { id, spec } = request;
        if (known.has(id)) continue;
        while (this.#turns.over) await this.#turns.next();
        const meanwhile = registry.get(id);
        if (meanwhile !== undefined) {
          this.#sameOrFail(meanwhile.record, request);
          known.set(id, meanwhile.record);
          tracked.set(id, meanwhile);
          continue;
        }
        this.#checkCapacity(1, submitter);
        this.checkTier(spec);
        const refusal = hooks.refuse(routeTaskOf({ task_id: id, spec }));
        if (refusal !== null) throw fail('denied', refusal, { task_id: id });
        const task = this.#add(request, parents.get(spec.parent_task_id ?? ''));
        added.push(task);
        tracked.set(id, task);
      }
      await this.#inParts(added, (task) => this.#store(task));
      await this.#inParts([...parents.values()], (parent) => registry.save(parent));
    } catch (thrown) {
      await this.#undoBatch(added);
      throw thrown;
    }
    for (const task of added) {
      while (this.#turns.over) await this.#turns.next();
      const after = task.record.spec.after.map((id) => tracked.get(id) as TrackedTask);
      this.#queue(task, after);
    }
    dispatcher.pump();
    return new Map(added.map(({ id, record }) => [id, record]));
  }

  /**
   * Fails with `schema_violation` for a tier that neither the policy nor any worker knows: no worker could ever be compared
   * with it.
   */
  checkTier({ min_tier }: FullSpec): void {
    if (min_tier === null) return;
    const { peers, router } = this.#engine;
    const known = new Set(rankedTiers(router.policy));
    if (known.has(min_tier)) return;
    for (const { announced } of peers.all()) if (announced !== null) known.add(announced.model_tier);
    known.delete('unknown');
    if (known.has(min_tier)) return;
    throw fail('schema_violation', `no tier is named ${min_tier}; known: ${[...known].join(', ')}`, {
      path: '/requirements/min_tier',
    });
  }

  /**
   * Returns the tasks that others wait for, held in memory until `#release`, so that their records show their end. Fails with
   * `schema_violation` for a task that does not exist, or that the submitter may not see.
   */
  async #held(ids: readonly string[], submitter?: Submitter): Promise<readonly TrackedTask[]> {
    const { registry } = this.#engine;
    const held: TrackedTask[] = [];
    try {
      for (const id of ids) {
        while (this.#turns.over) await this.#turns.next();
        const tracked = await registry.pin(id);
        if (tracked !== undefined) held.push(tracked);
        if (tracked === undefined || !existsFor(submitter, tracked.record))
          throw fail('schema_violation', `no task ${id} to wait for`, { path: '/after', task_id: id });
      }
      return held;
    } catch (thrown) {
      this.#release(held);
      throw thrown;
    }
  }

  #release(held: readonly TrackedTask[]): void {
    for (const tracked of held) this.#engine.registry.release(tracked);
  }

  /** Checks that the tasks it waits for let it run, when an operator tries it again. Fails with `invalid_message`. */
  async waitAgain(tracked: TrackedTask): Promise<void> {
    const others = await this.#held(tracked.record.spec.after);
    const why = this.#engine.dependencies.add(tracked.id, recordsOf(others));
    this.#release(others);
    if (why !== undefined) throw fail('invalid_message', why, { task_id: tracked.id });
  }

  /** Checks the waits of a task that waits already, after a restart; it ends when it never can run. */
  async waitStill(tracked: TrackedTask): Promise<void> {
    const { after } = tracked.record.spec;
    if (after.length === 0) return;
    let others: readonly TrackedTask[];
    try {
      others = await this.#held(after);
    } catch (thrown) {
      const reason = `dependency_failed: ${asError(thrown).message}`;
      this.#engine.registry.apply(tracked, { type: 'failed', reason });
      return;
    }
    this.#queue(tracked, others, false);
    this.#release(others);
  }

  #read(spec: TaskSpec, submitter: Submitter | undefined): Request {
    const id = spec.task_id ?? this.#engine.newId();
    const full = fullSpec(id, inOwnContext(spec, submitter));
    if (full.after.includes(id)) throw fail('schema_violation', 'a task waits for itself', { path: '/after' });
    return { id, spec: full, after: full.after, submitter };
  }

  #checkCapacity(count: number, submitter: Submitter | undefined): void {
    this.#engine.shares.mustHaveOpen(count, submitter);
    const { registry, maxOpenTasks } = this.#engine;
    if (registry.openCount + count <= maxOpenTasks) return;
    throw fail('over_capacity', `${counted(registry.openCount, 'task is', 'tasks are')} open already`, {
      limit: maxOpenTasks,
      retry_after_ms: 1000,
    });
  }

  /** Returns the task whose budget this one uses a part of; undefined: none, or one without a budget. */
  async #parent({ spec, submitter }: Request): Promise<TrackedTask | undefined> {
    const { parent_task_id: id } = spec;
    if (id === null) return undefined;
    const tracked = this.#engine.registry.get(id);
    const record = tracked?.record ?? (await this.#engine.options.store.get(id))?.record;
    const exists = record !== undefined && existsFor(submitter, record);
    if (exists && tracked !== undefined && !isEnded(record))
      return record.spec.token_budget === null ? undefined : tracked;
    if (!exists) throw fail('schema_violation', `no task ${id}`, { path: '/task/parent_task_id' });
    if (record.spec.token_budget === null) return undefined;
    throw fail('budget_spent', `task ${id} has ended, and its budget with it`, { task_id: id });
  }

  /** Puts a task in memory. A child without a budget gets all that its parent has left. */
  #add(request: Request, parent: TrackedTask | undefined): TrackedTask {
    const { registry, now } = this.#engine;
    let { spec } = request;
    if (parent !== undefined) {
      const left = leftOf(parent);
      const asked = spec.token_budget ?? left;
      if (left < 1 || asked > left) {
        throw fail('budget_spent', `task ${parent.id} has ${Math.max(0, left)} tokens left, ${asked} are asked for`, {
          task_id: parent.id,
          left: Math.max(0, left),
        });
      }
      spec = { ...spec, token_budget: asked };
      registry.apply(parent, { type: 'granted', tokens: asked });
    }
    this.#number += 1;
    const submitter = request.submitter?.name;
    const tracked = registry.add(newRecord(request.id, spec, this.#number, now(), submitter));
    this.#openStream(tracked);
    this.#engine.count('submitted');
    return tracked;
  }

  #openStream({ record }: TrackedTask): void {
    const { journal } = this.#engine;
    const { number, submitter } = record;
    const { priority, batch, after, parent_task_id } = record.spec;
    const submitted = { number, priority, batch, after, parent_task_id };
    journal.begin(record, submitter);
    journal.write(record, 'submitted', submitter === undefined ? submitted : { ...submitted, submitter });
  }

  /** Lets a task wait for others, or be routed. */
  #queue(tracked: TrackedTask, others: readonly TrackedTask[], watch = true): void {
    const { dependencies, registry } = this.#engine;
    const why = dependencies.add(tracked.id, recordsOf(others));
    if (why !== undefined) registry.apply(tracked, { type: 'failed', reason: why });
    else if (watch) this.#engine.admit(tracked);
  }

  /** Stores a new task; gives it another number where two orchestrators on one store gave the same. */
  async #store(tracked: TrackedTask): Promise<void> {
    const { registry, options } = this.#engine;
    for (let tries = 0; ; tries += 1) {
      try {
        return await registry.save(tracked);
      } catch (thrown) {
        const { code, detail } = asError(thrown);
        if (code !== 'superseded' || detail.number === undefined || tries === MAX_RENUMBERED) throw thrown;
        this.#number = Math.max(this.#number, await options.store.lastNumber()) + 1;
        registry.renumber(tracked, this.#number);
        // The number is part of the stream's name.
        this.#openStream(tracked);
      }
    }
  }

  /** Handles a failed store: returns the existing task, or undoes the submission and throws. */
  async #notStored(tracked: TrackedTask, request: Request, thrown: unknown): Promise<TaskRecord> {
    this.#undo(tracked);
    if (asError(thrown).code !== 'superseded') throw thrown;
    const record = await this.#known(request);
    if (record === undefined) throw thrown;
    return record;
  }

  #undo(tracked: TrackedTask): void {
    const { registry } = this.#engine;
    this.#engine.stopTracking(tracked);
    registry.drop(tracked);
    const { parent_task_id, token_budget } = tracked.record.spec;
    const parent = parent_task_id === null ? undefined : registry.get(parent_task_id);
    if (parent !== undefined && token_budget !== null) {
      registry.apply(parent, { type: 'granted', tokens: -token_budget });
    }
  }

  /** Undoes a batch, all or none: the tasks that were written before another one failed are ended. */
  async #undoBatch(added: readonly TrackedTask[]): Promise<void> {
    const { registry } = this.#engine;
    await this.#inParts(added, async (tracked) => {
      if (tracked.superseded || tracked.revision === 0) return this.#undo(tracked);
      registry.apply(tracked, { type: 'canceled', reason: 'another task of its batch could not be stored' });
      // The error that stopped the batch counts.
      await registry.save(tracked).catch(() => {});
    });
  }

  /** Stores tasks, a part of them in one turn of the event loop. Rejects once no write is under way. */
  async #inParts(tasks: readonly TrackedTask[], store: (tracked: TrackedTask) => Promise<void>): Promise<void> {
    for (let at = 0; at < tasks.length; at += STORED_AT_ONCE) {
      const stored = await Promise.allSettled(tasks.slice(at, at + STORED_AT_ONCE).map(store));
      const failed = stored.find(({ status }) => status === 'rejected');
      if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
    }
  }

  async #again(tracked: TrackedTask, request: Request): Promise<TaskRecord> {
    this.#sameOrFail(tracked.record, request);
    await this.#engine.registry.save(tracked);
    return tracked.record;
  }

  async #known(request: Request): Promise<TaskRecord | undefined> {
    const { registry, options } = this.#engine;
    const record = registry.get(request.id)?.record ?? (await options.store.get(request.id))?.record;
    if (record !== undefined) this.#sameOrFail(record, request);
    return record;
  }

  #sameOrFail(record: TaskRecord, { id, spec, submitter }: Request): void {
    // Later changes by an operator, or by the parent's budget, were not part of the request.
    const asked = { ...spec, worker: null, ...(spec.parent_task_id !== null && { token_budget: null }) };
    const kept = { ...record.spec, worker: null, ...(spec.parent_task_id !== null && { token_budget: null }) };
    if (isDeepStrictEqual(asked, kept) && existsFor(submitter, record)) return;
    throw fail('duplicate_conflict', `task ${id} exists with other content`, { task_id: id });
  }
}

/**
 * Conversations of a submitter that has nothing but its own tasks are its own too: their names start with its name, which has
 * no colon. A task that names none would continue the one of its id.
 */
function inOwnContext(spec: TaskSpec, submitter: Submitter | undefined): TaskSpec {
  const context = spec.context_id ?? spec.task_id;
  if (submitter?.ownOnly !== true || typeof context !== 'string') return spec;
  const own = `${submitter.name}:`;
  return { ...spec, context_id: context.startsWith(own) ? context : own + context };
}

const recordsOf = (tasks: readonly TrackedTask[]): readonly TaskRecord[] => tasks.map(({ record }) => record);

const existsFor = (submitter: Submitter | undefined, record: TaskRecord): boolean =>
  submitter?.ownOnly !== true || record.submitter === submitter.name;

/** Returns the tokens that a task may still grant: those that neither it nor its children have used. */
function leftOf({ record, tokensSoFar }: TrackedTask): number {
  const spent = record.tokens_spent ?? 0;
  return (record.spec.token_budget ?? 0) - (record.granted_tokens ?? 0) - spent - tokensSoFar;
}

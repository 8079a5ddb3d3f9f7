/**
 * Accepting tasks: checked, numbered, given their part of a budget, stored, and queued. The same task again is the task there
 * is; another one of its name is refused.
 */
import { isDeepStrictEqual } from 'node:util';
import { asError, fail } from '../../wire/errors.ts';
import { rankedTiers } from '../route/tiers.ts';
import { inOrder } from './dependencies.ts';
import type { Engine } from './engine.ts';
import type { Submitter, TaskRecord, TaskSpec } from './task.ts';
import { isEnded } from './task-machine.ts';
import { type FullSpec, fullSpec, newRecord, routeTaskOf } from './task-record.ts';
import type { TrackedTask } from './task-registry.ts';

/** Most tasks of one batch. */
const MAX_BATCH = 10_000;
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

export class Submissions {
  readonly #engine: Engine;
  #number = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** The highest number in use. */
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
    const others = request.after.length === 0 ? [] : await this.#records(request.after, submitter);
    const parent = await this.#parent(request);
    // The same request may have been added while these were read from the store.
    const meanwhile = registry.get(request.id);
    if (meanwhile !== undefined) return this.#again(meanwhile, request);
    const added = this.#add(request, parent);
    this.#queue(added, others);
    dispatcher.pump();
    const granted = parent === undefined ? undefined : registry.save(parent);
    try {
      await this.#store(added);
      await granted;
    } catch (thrown) {
      return this.#notStored(added, request, thrown);
    }
    return added.record;
  }

  async submitBatch(specs: readonly TaskSpec[], submitter?: Submitter): Promise<readonly TaskRecord[]> {
    const { registry, dispatcher, hooks } = this.#engine;
    if (specs.length > MAX_BATCH) throw fail('schema_violation', `a batch has at most ${MAX_BATCH} tasks`);
    const requests = specs.map((spec) => this.#read(spec, submitter));
    const ids = new Set(requests.map(({ id }) => id));
    if (ids.size < requests.length) throw fail('schema_violation', 'two tasks of the batch have the same id');
    const ordered = inOrder(requests);
    const known = new Map<string, TaskRecord>();
    const named = new Set(specs.map(({ task_id }) => task_id));
    for (const request of ordered) {
      const record = named.has(request.id) ? await this.#known(request) : undefined;
      if (record !== undefined) known.set(request.id, record);
    }
    const outside = new Set(ordered.flatMap(({ id, after }) => (known.has(id) ? [] : after)));
    const wanted = [...outside].filter((id) => !ids.has(id) || known.has(id));
    const others = new Map((await this.#records(wanted, submitter)).map((record) => [record.task_id, record]));
    const parents = new Map<string, TrackedTask>();
    for (const request of ordered) {
      const parent = await this.#parent(request);
      if (parent !== undefined) parents.set(parent.id, parent);
    }
    await this.#engine.shares.mustHaveRoom(submitter);
    // Nothing is waited for from here on until all of them are in memory.
    for (const request of ordered) {
      const meanwhile = registry.get(request.id);
      if (meanwhile === undefined || known.has(request.id)) continue;
      this.#sameOrFail(meanwhile.record, request);
      known.set(request.id, meanwhile.record);
    }
    const fresh = ordered.filter(({ id }) => !known.has(id));
    this.#checkCapacity(fresh.length, submitter);
    for (const { id, spec } of fresh) {
      this.checkTier(spec);
      const refusal = hooks.refuse(routeTaskOf({ task_id: id, spec }));
      if (refusal !== null) throw fail('denied', refusal, { task_id: id });
    }
    const added: TrackedTask[] = [];
    try {
      for (const request of fresh) added.push(this.#add(request, parents.get(request.spec.parent_task_id ?? '')));
      await Promise.all([
        ...added.map((tracked) => this.#store(tracked)),
        ...parents.values().map((parent) => registry.save(parent)),
      ]);
    } catch (thrown) {
      await this.#undoBatch(added);
      throw thrown;
    }
    for (const tracked of added) {
      const after = tracked.record.spec.after.map((id) => others.get(id) ?? (registry.get(id)?.record as TaskRecord));
      this.#queue(tracked, after);
    }
    dispatcher.pump();
    const taken = new Map(added.map((tracked) => [tracked.id, tracked.record]));
    return requests.map(({ id }) => known.get(id) ?? (taken.get(id) as TaskRecord));
  }

  /** Fails with `schema_violation` for a tier that neither the policy nor any worker knows: no worker could ever be compared with it. */
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

  /** What tasks wait for. Fails with `schema_violation` for one that does not exist, or not for its submitter. */
  async #records(ids: readonly string[], submitter?: Submitter): Promise<TaskRecord[]> {
    const { registry, options } = this.#engine;
    const records: TaskRecord[] = [];
    for (const id of ids) {
      const record = registry.get(id)?.record ?? (await options.store.get(id))?.record;
      if (record === undefined || !existsFor(submitter, record))
        throw fail('schema_violation', `no task ${id} to wait for`, { path: '/after', task_id: id });
      records.push(record);
    }
    return records;
  }

  /** Whether what a task waits for lets it run: used when an operator tries it again. Fails with `invalid_message`. */
  async waitAgain(tracked: TrackedTask): Promise<void> {
    const others = await this.#records(tracked.record.spec.after);
    const why = this.#engine.dependencies.add(tracked.id, others);
    if (why !== undefined) throw fail('invalid_message', why, { task_id: tracked.id });
  }

  /** After a restart: the same for a task that waits already; it ends when it never can run. */
  async waitStill(tracked: TrackedTask): Promise<void> {
    const { after } = tracked.record.spec;
    if (after.length === 0) return;
    let others: TaskRecord[];
    try {
      others = await this.#records(after);
    } catch (thrown) {
      const reason = `dependency_failed: ${asError(thrown).message}`;
      this.#engine.registry.apply(tracked, { type: 'failed', reason });
      return;
    }
    this.#queue(tracked, others, false);
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
    throw fail('over_capacity', `${registry.openCount} tasks are open already`, {
      limit: maxOpenTasks,
      retry_after_ms: 1000,
    });
  }

  /** The task whose budget this one uses a part of; undefined: none, or one without a budget. */
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
  #queue(tracked: TrackedTask, others: readonly TaskRecord[], watch = true): void {
    const { dependencies, registry } = this.#engine;
    const why = dependencies.add(tracked.id, others);
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

  /** It could not be stored: it is the task there is, or nothing has happened. */
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

  /** All or none: what was written before another one could not be is ended. */
  async #undoBatch(added: readonly TrackedTask[]): Promise<void> {
    const { registry } = this.#engine;
    await Promise.allSettled(
      added.map(async (tracked) => {
        if (tracked.superseded || tracked.revision === 0) return this.#undo(tracked);
        registry.apply(tracked, { type: 'canceled', reason: 'another task of its batch could not be stored' });
        await registry.save(tracked);
      }),
    );
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
    // What an operator, or the parent's budget, has changed since was not asked for.
    const asked = { ...spec, worker: null, ...(spec.parent_task_id !== null && { token_budget: null }) };
    const kept = { ...record.spec, worker: null, ...(spec.parent_task_id !== null && { token_budget: null }) };
    if (isDeepStrictEqual(asked, kept) && existsFor(submitter, record)) return;
    throw fail('duplicate_conflict', `task ${id} exists with other content`, { task_id: id });
  }
}

/**
 * Conversations of a submitter that has nothing but its own tasks are its own too: their names start with its name, which has no
 * colon. A task that names none would continue the one of its id.
 */
function inOwnContext(spec: TaskSpec, submitter: Submitter | undefined): TaskSpec {
  const context = spec.context_id ?? spec.task_id;
  if (submitter?.ownOnly !== true || typeof context !== 'string') return spec;
  const own = `${submitter.name}:`;
  return { ...spec, context_id: context.startsWith(own) ? context : own + context };
}

const existsFor = (submitter: Submitter | undefined, record: TaskRecord): boolean =>
  submitter?.ownOnly !== true || record.submitter === submitter.name;

/** Tokens a task may still grant: what neither it nor its children have used. */
function leftOf({ record, tokensSoFar }: TrackedTask): number {
  const spent = record.tokens_spent ?? 0;
  return (record.spec.token_budget ?? 0) - (record.granted_tokens ?? 0) - spent - tokensSoFar;
}

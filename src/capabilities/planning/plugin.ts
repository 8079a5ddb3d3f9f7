/**
 * The planning capability of a host: plans, tasks, claims, history and subscriptions over `context.store`.
 *
 * Host builders call `planningPlugin()`. Every request runs its operation on the plan in memory without an await, writes the
 * changes, and replies when they are on disk.
 * @see docs/planning.md
 */
import { Page, pageOf } from '../../base/page.ts';
import { type Clock, processTimer, TimerQueue } from '../../base/timer-queue.ts';
import { Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin, type PluginContext } from '../../host/plugin.ts';
import { HandfastError } from '../../wire/errors.ts';
import { ClaimQueue } from './claim-queue.ts';
import { failure } from './errors.ts';
import { Limits } from './limits.ts';
import { readDocument, syncMarkdown } from './markdown-sync.ts';
import * as messages from './messages.ts';
import { PLAN_LIMITS, planningOffer } from './offer.ts';
import type { PlanState, TaskFields } from './plan-state.ts';
import type { Board, Refusal, TaskLine, TaskListReq, TaskUpdateReq } from './planning.schema.ts';
import { type Caller, type LoadedPlan, type Need, Plans } from './plans.ts';
import { DEFAULT_COLUMNS, rulesFor } from './rules.ts';
import type { StoredPlan, StoredTask } from './stored.ts';
import { boardView, planLine, planView, taskLine, taskView } from './views.ts';
import { Watchers } from './watchers.ts';

export interface PlanningOptions {
  /** Plans of one principal. Default 1,000. */
  readonly maxPlans?: number | undefined;
  /** Tasks of one plan. Default 20,000. */
  readonly maxTasks?: number | undefined;
  /** Bytes of plans, tasks and history of one principal. Default 256 MiB. */
  readonly quotaBytes?: number | undefined;
  /** Duration of a lease that names none, milliseconds. Default 60,000. */
  readonly leaseMs?: number | undefined;
  /** Longest lease, milliseconds. Default one day. */
  readonly maxLeaseMs?: number | undefined;
  /** Number of tasks in memory above which idle plans are unloaded. Default 200,000. */
  readonly maxLoadedTasks?: number | undefined;
  /** Epoch seconds. */
  readonly now?: () => number;
  /** Monotonic milliseconds. */
  readonly clock?: Clock;
  /** Makes new ids of 12 hex digits. */
  readonly newId?: () => string;
}

/** The grants of a principal within the capability. */
interface PlanningGrant {
  readonly access: 'read' | 'write';
  readonly share: boolean;
}

const MIN_LEASE_MS = 100;
const MAX_WAIT_MS = 60_000;
const MAX_PAGE = 1_000;

export function planningPlugin(options: PlanningOptions = {}): Plugin {
  const { maxPlans = PLAN_LIMITS.maxPlans, maxTasks = PLAN_LIMITS.maxTasks, maxLoadedTasks = 200_000 } = options;
  const { leaseMs = 60_000, maxLeaseMs = 86_400_000, now = () => Date.now() / 1000 } = options;
  const { clock = { monotonic: () => performance.now(), timer: processTimer } } = options;
  const { newId = () => crypto.randomUUID().slice(-12) } = options;
  const limits = new Limits({ maxPlans, maxTasks });
  const turns = new Turns();
  const watchers = new Watchers(() => plans);
  // The count of an unloaded plan is unknown: the woken claim loads it.
  const claims = new ClaimQueue((planId, assignee) => plans.loaded(planId)?.state.readyFor(assignee) ?? 1);
  const leases = new TimerQueue<string>(clock, (key) => plans.expire(key));
  let host: PluginContext;
  const plans = new Plans({
    store: () => host.store,
    limits,
    maxLoadedTasks,
    now,
    monotonic: clock.monotonic,
    leases,
    turns,
    written(loaded, { entries, ready }) {
      watchers.written(loaded, entries);
      claims.notify(loaded.state.plan.plan_id, ready);
    },
  });

  const leaseOf = (ms: number | undefined): number | undefined =>
    ms === undefined ? undefined : Math.min(maxLeaseMs, Math.max(MIN_LEASE_MS, ms));

  /** Runs an operation on a plan, and writes its changes. Resolves with the result of the operation once these are on disk. */
  const within = async <Result>(
    context: CallContext,
    planId: string,
    need: Need,
    operate: (state: PlanState, caller: Caller, loaded: LoadedPlan) => Result,
  ): Promise<Result> => {
    const caller = callerOf(context);
    return plans.use(planId, caller, need, async (loaded) => {
      let result: Result;
      try {
        result = operate(loaded.state, caller, loaded);
      } catch (error) {
        // A refusal shows the state that causes it.
        await plans.commit(loaded);
        throw error;
      }
      await plans.commit(loaded);
      return result;
    });
  };

  /**
   * Passes one plan, or all that the caller may read, to `read`, one after the other in turns, until it returns false. Resolves
   * when the passed states are on disk.
   */
  const reading = async (context: CallContext, planId: string, read: (state: PlanState) => boolean): Promise<void> => {
    const caller = callerOf(context);
    const ids =
      planId === ''
        ? plans
            .list(caller)
            .filter(({ archived }) => !archived)
            .map(idOf)
        : [planId];
    const pending = new Set<Promise<void>>();
    for (const id of ids) {
      const found = await plans.find(id, caller).catch((error: HandfastError) => {
        // One of many plans may have been deleted meanwhile.
        if (planId === '' && error.code === 'planning.unknown_plan') return undefined;
        throw error;
      });
      if (found === undefined) continue;
      const wantsMore = read(found.state);
      pending.add(found.pending);
      if (!wantsMore) break;
      while (turns.over) await turns.next();
    }
    await Promise.all(pending);
  };

  return definePlugin({
    name: 'planning',
    type: 'planning',
    ...planningOffer(options),
    start(context) {
      host = context;
    },
    stop() {
      leases.stop();
    },
    methods: [
      handle(messages.planCreate, (request, context) =>
        refusable({ plan_id: '', columns: [] }, async () => {
          const caller = callerOf(context);
          const { name = 'default', description = '', key = '' } = request;
          const known = key === '' ? undefined : plans.byKey(key, caller);
          let loaded = known === undefined ? undefined : await plans.find(known, caller);
          if (loaded === undefined) {
            limits.name(name);
            limits.text('description', description);
            const columns = limits.columns(request.columns?.length ? request.columns : DEFAULT_COLUMNS);
            const plan: StoredPlan = {
              plan_id: newId(),
              name,
              columns: [...columns],
              description,
              owner: caller.principal,
              agent: request.private === true ? caller.agent : '',
              shares: [],
              rules: structuredClone(rulesFor(columns, request.rules)),
              revision: 0,
              archived: false,
              created_at: now(),
              seq: 0,
              ...(key !== '' && { key }),
            };
            loaded = plans.create(plan, caller);
          }
          await plans.commit(loaded);
          const view = planView(loaded.state);
          return { plan_id: view.plan_id, columns: view.columns, plan: view };
        }),
      ),
      handle(messages.planList, ({ include_archived = false }, context) => ({
        plans: plans
          .list(callerOf(context))
          .filter(({ archived }) => include_archived || !archived)
          .map(planLine),
      })),
      handle(messages.taskAdd, (request, context) =>
        refusable({ task_id: '', status: '' }, () =>
          within(context, request.plan_id, 'write', (state, caller) => {
            const { title, status = '', description = '', assignee = '', deps = [], metadata = {} } = request;
            const { parent = '', priority = 0, key = '' } = request;
            const known = key === '' ? undefined : state.byKey(key);
            const fields = {
              title,
              status,
              description,
              assignee,
              deps: unique(deps),
              metadata: limits.metadata(metadata),
              parent,
              priority,
              key,
            };
            const task = known ?? state.addTask(newId(), fields, caller);
            return { task_id: task.task_id, status: task.status, task: taskView(state, task) };
          }),
        ),
      ),
      handle(messages.taskUpdate, (request, context) =>
        refusable({ task_id: request.task_id }, () =>
          within(context, request.plan_id, 'write', (state, caller) => {
            const { task_id, fence, if_revision: ifRevision, force, comment } = request;
            const fields = fieldsOf(request, state.task(task_id), limits);
            const guard = { fence, ifRevision, force, ...(comment && { comment }) };
            return { task_id, task: taskView(state, state.updateTask(task_id, fields, caller, guard)) };
          }),
        ),
      ),
      handle(messages.taskList, async (request, context) => {
        const list = new TaskListing(request, limits);
        await reading(context, request.plan_id ?? '', (state) => list.add(state));
        return list.reply();
      }),
      handle(messages.planBoard, async ({ plan_id = '', limit, include_archived = false }, context) => {
        const boards: Board[] = [];
        let listed = 0;
        await reading(context, plan_id, (state) => {
          const board = boardView(state, limit ?? Number.POSITIVE_INFINITY, include_archived, (count) =>
            limits.listed(listed + count),
          );
          listed += Object.values(board.tasks).reduce((sum, { length }) => sum + length, 0);
          boards.push(board);
          return true;
        });
        return { boards };
      }),
      handle(messages.planShow, ({ plan_id }, context) =>
        within(context, plan_id, 'read', (state) => ({ plan: planView(state) })),
      ),
      handle(messages.planConfigure, ({ plan_id, if_revision, ...change }, context) =>
        within(context, plan_id, 'own', (state, caller) => {
          state.configure(change, caller, if_revision);
          return { plan: planView(state) };
        }),
      ),
      handle(messages.planArchive, ({ plan_id, archived = true }, context) =>
        within(context, plan_id, 'own', (state, caller) => {
          state.archive(archived, caller);
          return { plan: planView(state) };
        }),
      ),
      handle(messages.planDelete, async ({ plan_id, force = false }, context) => {
        const deleted = await plans.use(plan_id, callerOf(context), 'own', (loaded) => {
          if (loaded.state.plan.archived || force) return plans.delete(loaded);
          throw failure('blocked', 'archive the plan first, or force its deletion', { plan_id });
        });
        watchers.deleted(plan_id);
        claims.removed(plan_id);
        return deleted;
      }),
      handle(messages.planShare, ({ plan_id, principal, role }, context) => {
        const caller = callerOf(context);
        return plans.use(plan_id, caller, 'own', async (loaded) => {
          if (!caller.mayShare) throw failure('read_only', 'the grant of this principal does not let it share plans');
          limits.name(principal);
          if (principal === '' || principal === loaded.state.plan.owner) {
            const why = principal === '' ? 'the name of the principal is empty' : `the plan belongs to ${principal}`;
            throw failure('invalid', `${why}; name the principal to share it with`, { field: 'principal' });
          }
          const others = loaded.state.plan.shares.filter((share) => share.principal !== principal);
          if (others.length >= limits.maxShares) {
            throw failure('full', 'the plan is shared with as many as may be', {
              limit: 'shares',
              max: limits.maxShares,
            });
          }
          await plans.share(loaded, role === 'none' ? others : [...others, { principal, role }], caller);
          return { plan: planView(loaded.state) };
        });
      }),
      handle(messages.taskShow, ({ plan_id, task_id }, context) =>
        within(context, plan_id, 'read', (state) => ({ task: taskView(state, state.task(task_id)) })),
      ),
      handle(messages.taskReady, ({ plan_id, assignee, limit = 100, after = '' }, context) =>
        within(context, plan_id, 'read', (state, { agent }) => {
          const tasks = state.ready(assignee ?? agent, after === '' ? undefined : state.task(after));
          const lines = function* () {
            for (const task of tasks) yield taskLine(state, task);
          };
          const { page, more } = pageOf(lines(), Math.min(limit, MAX_PAGE));
          const next = more ? { next: page.at(-1)?.task_id } : {};
          return {
            tasks: page,
            total: state.plan.archived ? 0 : state.graph.counts.ready,
            ...openCounts(state),
            ...next,
          };
        }),
      ),
      handle(messages.taskClaim, ({ plan_id, task_id = '', key = '', wait_ms = 0, lease_ms }, context) => {
        const lease = leaseOf(lease_ms) ?? leaseMs;
        const claim = () =>
          within(context, plan_id, 'write', (state, caller) => {
            const known = key === '' ? undefined : state.claimByKey(key, caller);
            const next = known ?? (task_id === '' ? state.nextFor(caller.agent) : state.task(task_id));
            if (next === undefined) return { task: null, fence: 0, lease_ms: 0, ...openCounts(state) };
            const task = known ?? state.claim(next.task_id, caller, lease, key);
            return { task: taskView(state, task), fence: task.fence, lease_ms: lease, ...openCounts(state) };
          });
        const { agentId: agent } = context.session;
        const waitMs = Math.min(wait_ms, MAX_WAIT_MS);
        return claims.claim({ planId: plan_id, agent, waitMs, context }, claim);
      }),
      handle(messages.taskRenew, ({ plan_id, task_id, fence, lease_ms }, context) =>
        within(context, plan_id, 'write', (state, caller) => {
          const task = state.renew(task_id, caller, fence, leaseOf(lease_ms));
          return { lease_ms: task.claim?.lease_ms ?? 0 };
        }),
      ),
      handle(messages.taskRelease, ({ plan_id, task_id, fence, comment = '' }, context) =>
        within(context, plan_id, 'write', (state, caller) => ({
          task: taskView(state, state.release(task_id, caller, fence, comment)),
        })),
      ),
      handle(messages.taskComment, ({ plan_id, task_id, text }, context) =>
        within(context, plan_id, 'write', (state, caller) => ({ seq: state.comment(task_id, text, caller) })),
      ),
      handle(messages.taskArchive, ({ plan_id, task_id, archived = true, if_revision }, context) =>
        within(context, plan_id, 'write', (state, caller) => {
          const guard = { ifRevision: if_revision };
          return { task: taskView(state, state.updateTask(task_id, { archived }, caller, guard)) };
        }),
      ),
      handle(messages.taskDelete, ({ plan_id, task_id, if_revision, force }, context) =>
        within(context, plan_id, 'write', (state, caller) =>
          state.deleteTask(task_id, caller, { ifRevision: if_revision, force }),
        ),
      ),
      handle(messages.history, async ({ plan_id, task_id = '', after = 0, limit = 100 }, context) => {
        const loaded = await plans.find(plan_id, callerOf(context));
        await loaded.pending;
        const most = Math.min(limit, MAX_PAGE);
        if (task_id === '') {
          const { page, more } = pageOf(plans.entriesBehind(loaded, after), most);
          return { entries: page, next: more ? (page.at(-1)?.seq ?? 0) : 0 };
        }
        const from = after === 0 ? loaded.state.task(task_id).seq : (plans.entry(loaded, after)?.prev ?? 0);
        const { page, more } = pageOf(plans.chain(loaded, from), most);
        return { entries: page, next: more ? (page.at(-1)?.seq ?? 0) : 0 };
      }),
      handle(messages.markdown, async (request, context) => {
        const document = await readDocument(request.text, request.plan_id, limits, turns);
        const need = request.dry_run ? 'read' : 'write';
        const { outcome, text } = await within(context, request.plan_id, need, (state, actor, loaded) => {
          const chain = (from: number) => plans.chain(loaded, from);
          return syncMarkdown(document, request, { state, actor, newId, chain, limits });
        });
        return { text: await text(turns), ...outcome };
      }),
      handle(messages.watch, async ({ plan_id = '', after }, context) => {
        const caller = callerOf(context);
        if (plan_id === '') {
          context.keepStream();
          watchers.watch(context, caller, '', 0);
          return { seq: 0 };
        }
        const loaded = await plans.find(plan_id, caller);
        await loaded.pending;
        context.keepStream();
        watchers.watch(context, caller, plan_id, after ?? loaded.durableSeq);
        return { seq: loaded.durableSeq };
      }),
    ],
  });
}

/** Runs a request of A2E 1.0, whose refusals are replies: `success` false, with the error beside it. */
async function refusable<Empty extends object, Reply extends object>(
  empty: Empty,
  run: () => Promise<Reply>,
): Promise<(Empty | Reply) & { success: boolean; error?: Refusal }> {
  try {
    return { success: true, ...(await run()) };
  } catch (error) {
    if (!(error instanceof HandfastError) || !error.code.startsWith('planning.')) throw error;
    const { code, message, detail } = error;
    return { success: false, ...empty, error: { code, message, detail } };
  }
}

function callerOf({ session, grant, signal }: CallContext): Caller {
  const { principal, agentId } = session;
  const { access = 'write', share = true } = (grant ?? {}) as Partial<PlanningGrant>;
  return {
    principal: principal.name,
    agent: agentId,
    identity: principal,
    mayWrite: access === 'write',
    mayShare: access === 'write' && share,
    signal,
  };
}

/** Returns the fields that an update sets: fields that A2E 1.0 leaves empty are unchanged, `clear` empties fields. */
function fieldsOf(request: Omit<TaskUpdateReq, 'type' | 'id'>, task: StoredTask, limits: Limits): TaskFields {
  const { status, assignee, title, description, parent, priority, deps = [], metadata, clear = [] } = request;
  const { add_deps = [], remove_deps = [] } = request;
  const unknown = clear.find((field) => !CLEARABLE.has(field));
  if (unknown !== undefined) {
    throw failure('invalid', `the field ${JSON.stringify(unknown.slice(0, 64))} cannot be emptied`, {
      field: 'clear',
      allowed: [...CLEARABLE],
    });
  }
  const base = clear.includes('deps') ? [] : deps.length > 0 ? deps : task.deps;
  const changesDeps = clear.includes('deps') || deps.length + add_deps.length + remove_deps.length > 0;
  const emptied = (field: string): { [field]?: string } => (clear.includes(field) ? { [field]: '' } : {});
  return {
    ...(status && { status }),
    ...(title && { title }),
    ...(assignee ? { assignee } : emptied('assignee')),
    ...(description ? { description } : emptied('description')),
    ...(parent ? { parent } : emptied('parent')),
    ...(priority !== undefined && { priority }),
    ...(changesDeps && { deps: unique([...base, ...add_deps]).filter((id) => !remove_deps.includes(id)) }),
    ...(metadata !== undefined && { metadata: merged(task.metadata, limits.metadata(metadata)) }),
  };
}

const CLEARABLE: ReadonlySet<string> = new Set(['assignee', 'deps', 'description', 'parent']);

/** Merges members; null removes a member. */
function merged(known: StoredTask['metadata'], given: StoredTask['metadata']): Record<string, unknown> {
  return Object.fromEntries(Object.entries({ ...known, ...given }).filter(([, value]) => value !== null));
}

const unique = (ids: readonly string[]): string[] => [...new Set(ids)];
const idOf = ({ plan_id }: StoredPlan): string => plan_id;

/**
 * Lists the tasks of some plans, from the one behind `after` on: a page with a limit; without a limit all of them, as A2E 1.0
 * has it.
 */
class TaskListing {
  readonly #request: Omit<TaskListReq, 'type' | 'id'>;
  readonly #limits: Limits;
  readonly #page: Page<TaskLine> | undefined;
  readonly #tasks: TaskLine[] = [];
  #started: boolean;

  constructor(request: Omit<TaskListReq, 'type' | 'id'>, limits: Limits) {
    this.#request = request;
    this.#limits = limits;
    this.#page = request.limit === undefined ? undefined : new Page<TaskLine>(request.limit);
    this.#started = (request.after ?? '') === '';
  }

  /** Adds the tasks of a plan. Returns false when the page is full. */
  add(state: PlanState): boolean {
    const { after = '', status = '', assignee = '', include_archived = false } = this.#request;
    for (const task of state.graph.tasks()) {
      if (!this.#started) {
        this.#started = task.task_id === after;
        continue;
      }
      if ((task.archived && !include_archived) || (status !== '' && task.status !== status)) continue;
      const line = taskLine(state, task);
      if (assignee !== '' && line.assignee !== assignee) continue;
      if (this.#page === undefined) {
        this.#tasks.push(line);
        this.#limits.listed(this.#tasks.length);
      } else if (!this.#page.add(line)) return false;
    }
    return true;
  }

  reply(): { tasks: TaskLine[]; next?: string | undefined } {
    if (!this.#started) {
      const { after } = this.#request;
      throw failure('unknown_task', 'the page before ended at a task that is not there', { after });
    }
    if (this.#page === undefined) return { tasks: this.#tasks };
    const { page, more } = this.#page;
    return { tasks: page, ...(more && { next: page.at(-1)?.task_id }) };
  }
}

function openCounts({ graph }: PlanState): { claimed: number; open: number } {
  const { tasks, done, claimed } = graph.counts;
  return { claimed, open: tasks - done };
}

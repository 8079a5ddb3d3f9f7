/**
 * The planning capability of an agent: `agent.planning`. Present only when the agent asked for `planning`.
 *
 * Hosts of plain A2E 1.0 serve `createPlan`, `plans`, `add`, `update`, `tasks` and `boards`, and send fewer members.
 * @see docs/planning.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { ClaimedTask } from './claimed-task.ts';
import * as messages from './messages.ts';
import * as replies from './planning.replies.generated.ts';
import type * as schema from './planning.schema.ts';
import type { Entry, Rules, Share, Task } from './planning.schema.ts';
import { accepted, changeBody, type TaskChange, type TaskOptions } from './task-change.ts';

const calls = {
  planCreate: answered(messages.planCreate, replies.PlanCreateResp),
  planList: answered(messages.planList, replies.PlanListResp),
  taskAdd: answered(messages.taskAdd, replies.TaskAddResp),
  taskUpdate: answered(messages.taskUpdate, replies.TaskUpdateResp),
  taskList: answered(messages.taskList, replies.TaskListResp),
  planBoard: answered(messages.planBoard, replies.BoardResp),
  planShow: answered(messages.planShow, replies.PlanShowResp),
  planConfigure: answered(messages.planConfigure, replies.PlanConfigureResp),
  planArchive: answered(messages.planArchive, replies.PlanArchiveResp),
  planDelete: answered(messages.planDelete, replies.PlanDeleteResp),
  planShare: answered(messages.planShare, replies.PlanShareResp),
  taskShow: answered(messages.taskShow, replies.TaskShowResp),
  taskReady: answered(messages.taskReady, replies.TaskReadyResp),
  taskClaim: answered(messages.taskClaim, replies.TaskClaimResp),
  taskRenew: answered(messages.taskRenew, replies.TaskRenewResp),
  taskRelease: answered(messages.taskRelease, replies.TaskReleaseResp),
  taskComment: answered(messages.taskComment, replies.TaskCommentResp),
  taskArchive: answered(messages.taskArchive, replies.TaskArchiveResp),
  taskDelete: answered(messages.taskDelete, replies.TaskDeleteResp),
  history: answered(messages.history, replies.HistoryResp),
  markdown: answered(messages.markdown, replies.MarkdownResp),
  watch: answered(messages.watch, replies.WatchResp),
};

export type Plan = schema.Plan & Required<Omit<schema.Plan, 'seq' | 'tasks' | 'done'>>;
export type TaskLine = Required<schema.TaskLine>;
export type Board = Omit<Required<schema.Board>, 'tasks'> & {
  readonly tasks: Readonly<Record<string, readonly TaskLine[]>>;
};
export type { Entry, Rules, Share, Task, TaskChange, TaskOptions };

export interface PlanOptions {
  /** Default: backlog, todo, in_progress, done. */
  readonly columns?: readonly string[];
  readonly description?: string;
  readonly rules?: Partial<Rules>;
  /** Only this agent may use it, not all agents of the principal. */
  readonly private?: boolean;
  /** Idempotency key: a second call with it gets the plan of the first. */
  readonly key?: string;
}

export interface TaskFilter {
  readonly status?: string;
  readonly assignee?: string;
  readonly includeArchived?: boolean;
}

export interface ClaimOptions extends CallOptions {
  /** The task to claim. Default: the first that is ready. */
  readonly taskId?: string;
  /** Duration of the lease, milliseconds. Default: the host's, 60,000. */
  readonly leaseMs?: number;
  /** Longest wait for a ready task, milliseconds. Default 0. */
  readonly waitMs?: number;
  /** Idempotency key: a repeated claim gets the claim of the first, while it is in force. */
  readonly key?: string;
  /** False: the caller renews the lease itself. Default true: it is renewed until the claim ends. */
  readonly renew?: boolean;
}

/** A document that was merged with a plan, and the outcome. */
export interface MergedMarkdown {
  /** The document with the merged changes. */
  readonly text: string;
  readonly added: readonly string[];
  readonly updated: readonly string[];
  /** Tasks that were once written into the document and are now absent from it. They stay in the plan. */
  readonly missing: readonly string[];
  /** Ids that the plan does not have, or that occur twice. */
  readonly unknown: readonly string[];
  /** Items that were not merged, with both sides. */
  readonly conflicts: readonly {
    readonly task_id: string;
    readonly code: string;
    readonly message: string;
    readonly yours?: Readonly<Record<string, unknown>>;
    readonly current?: Readonly<Record<string, unknown>>;
  }[];
}

/** Tasks of one page of {@link PlanningClient.tasks}: a page stays far below the largest message. */
const PAGE = 500;

export class PlanningClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** Rejects with `planning.full`, `planning.invalid`, `planning.read_only`. */
  createPlan(name = 'default', options: PlanOptions = {}, call: CallOptions = {}): Call<Plan> {
    const { columns = [], description = '', rules, key, private: own } = options;
    const body = {
      name,
      columns: [...columns],
      description,
      ...(rules && { rules }),
      ...(own && { private: true }),
      ...(key && { key }),
    };
    return this.#agent.calls.call(calls.planCreate, body, call, (reply) => {
      const { plan_id, columns, plan } = accepted(reply);
      return (plan ?? { plan_id, name, columns }) as Plan;
    });
  }

  /** Returns the plans of the principal and those shared with it, oldest first. */
  plans(options: { readonly includeArchived?: boolean } = {}, call: CallOptions = {}): Call<readonly Plan[]> {
    const body = options.includeArchived ? { include_archived: true } : {};
    return this.#agent.calls.call(calls.planList, body, call, ({ plans }) => plans as Plan[]);
  }

  /** Rejects with `planning.unknown_plan`. */
  plan(planId: string, call: CallOptions = {}): Call<Plan> {
    return this.#agent.calls.call(calls.planShow, { plan_id: planId }, call, planOf);
  }

  /** Rejects with `planning.conflict`, `planning.invalid`, `planning.not_allowed`, `planning.read_only`. */
  configure(
    planId: string,
    change: Pick<PlanOptions, 'columns' | 'description' | 'rules'> & {
      readonly name?: string;
      /** Columns to rename with their tasks: old name to new name. */
      readonly rename?: Readonly<Record<string, string>>;
      readonly ifRevision?: number;
    },
    call: CallOptions = {},
  ): Call<Plan> {
    const { ifRevision, columns, ...fields } = change;
    const body = {
      plan_id: planId,
      ...fields,
      ...(columns && { columns: [...columns] }),
      ...(ifRevision !== undefined && { if_revision: ifRevision }),
    };
    return this.#agent.calls.call(calls.planConfigure, body, call, planOf);
  }

  archivePlan(planId: string, call: CallOptions = {}): Call<Plan> {
    return this.#agent.calls.call(calls.planArchive, { plan_id: planId, archived: true }, call, planOf);
  }

  restorePlan(planId: string, call: CallOptions = {}): Call<Plan> {
    return this.#agent.calls.call(calls.planArchive, { plan_id: planId, archived: false }, call, planOf);
  }

  /** Deletes an archived plan permanently. Rejects with `planning.blocked` for a plan that is not archived, unless forced. */
  deletePlan(planId: string, { force = false }: { readonly force?: boolean } = {}, call: CallOptions = {}) {
    return this.#agent.calls.call(calls.planDelete, { plan_id: planId, force }, call, ({ tasks, entries }) => ({
      tasks,
      entries,
    }));
  }

  /** Grants another principal the use of a plan, or withdraws it (`none`). */
  share(planId: string, principal: string, role: Share['role'] | 'none', call: CallOptions = {}): Call<Plan> {
    return this.#agent.calls.call(calls.planShare, { plan_id: planId, principal, role }, call, planOf);
  }

  /** Rejects with `planning.unknown_plan`, `planning.unknown_task`, `planning.cycle`, `planning.full`, … */
  add(planId: string, title: string, options: TaskOptions = {}, call: CallOptions = {}): Call<Task> {
    const { deps = [], metadata = {}, ...fields } = options;
    const body = { plan_id: planId, title, ...fields, deps: [...deps], metadata };
    return this.#agent.calls.call(calls.taskAdd, body, call, (reply) => {
      const { task, task_id, status } = accepted(reply);
      return task ?? ({ task_id, status, title, plan_id: planId } as Task);
    });
  }

  /**
   * Changes the given fields together, or none; other fields stay as other agents left them.
   *
   * Rejects with `planning.conflict` (`detail.yours`, `detail.current`), `planning.blocked`, `planning.not_allowed`,
   * `planning.cycle`, `planning.claimed`, `planning.claim_lost`, `planning.archived`, …
   */
  update(planId: string, taskId: string, change: TaskChange, call: CallOptions = {}): Call<Task> {
    return this.#agent.calls.call(
      calls.taskUpdate,
      { plan_id: planId, task_id: taskId, ...changeBody(change) },
      call,
      (reply) => {
        const { task } = accepted(reply);
        return task ?? ({ task_id: taskId, plan_id: planId } as Task);
      },
    );
  }

  /** Rejects with `planning.unknown_task`. */
  task(planId: string, taskId: string, call: CallOptions = {}): Call<Task> {
    return this.#agent.calls.call(calls.taskShow, { plan_id: planId, task_id: taskId }, call, taskOf);
  }

  /** Returns all tasks that fit, oldest first, read page by page. Without a plan: of all plans. */
  async tasks(planId = '', filter: TaskFilter = {}, call: CallOptions = {}): Promise<TaskLine[]> {
    const { status = '', assignee = '', includeArchived = false } = filter;
    const tasks: TaskLine[] = [];
    for (let after = ''; ; ) {
      const body = {
        plan_id: planId,
        status,
        limit: PAGE,
        ...(assignee !== '' && { assignee }),
        ...(includeArchived && { include_archived: true }),
        ...(after !== '' && { after }),
      };
      const page = await this.#agent.calls.call(calls.taskList, body, call);
      tasks.push(...(page.tasks as TaskLine[]));
      if (page.next === undefined) return tasks;
      after = page.next;
    }
  }

  /** Returns the board of a plan, or of every plan. `limit`: maximum tasks of each column; `counts` has their total numbers. */
  boards(planId = '', { limit }: { readonly limit?: number } = {}, call: CallOptions = {}): Call<readonly Board[]> {
    const body = { plan_id: planId, ...(limit !== undefined && { limit }) };
    return this.#agent.calls.call(calls.planBoard, body, call, ({ boards }) => boards as Board[]);
  }

  /**
   * Returns the tasks that this agent could claim now, and the numbers of ready, open and claimed tasks; `next` starts the next
   * page as `after`. Rejects with `planning.unknown_task` when the task that ended the page before was deleted.
   */
  ready(
    planId: string,
    { limit = 100, after }: { readonly limit?: number; readonly after?: string | undefined } = {},
    call: CallOptions = {},
  ) {
    const body = { plan_id: planId, limit, ...(after !== undefined && { after }) };
    return this.#agent.calls.call(calls.taskReady, body, call, ({ tasks, total, claimed, open, next }) => ({
      tasks: tasks as TaskLine[],
      total,
      claimed,
      open,
      ...(next !== undefined && { next }),
    }));
  }

  /**
   * Claims a ready task: no other agent gets it before the lease expires. Undefined: none is ready. The lease is renewed
   * until the claim ends; the `signal` of the claimed task aborts when it is lost.
   *
   * With a `taskId`, rejects with `planning.claimed`, `planning.blocked`, `planning.not_allowed`.
   */
  async claim(planId: string, options: ClaimOptions = {}): Promise<ClaimedTask | undefined> {
    const { taskId, leaseMs, waitMs, key, renew = true, ...given } = options;
    const { timeoutMs = this.#agent.calls.limits.timeoutMs } = given;
    // The host replies after the wait.
    const call = { ...given, timeoutMs: timeoutMs > 0 ? timeoutMs + (waitMs ?? 0) : 0 };
    const askedAt = performance.now();
    const body = {
      plan_id: planId,
      ...(taskId !== undefined && { task_id: taskId }),
      ...(leaseMs !== undefined && { lease_ms: leaseMs }),
      ...(waitMs !== undefined && { wait_ms: waitMs }),
      ...(key !== undefined && { key }),
    };
    const { task, fence, lease_ms } = await this.#agent.calls.call(calls.taskClaim, body, call);
    if (task === null) return undefined;
    // If waiting took part of the lease, as far as this side can know, the lease is started again.
    const waited = performance.now() - askedAt > lease_ms / 4;
    const startedAt = waited ? performance.now() : askedAt;
    const deps = { agent: this.#agent, task, fence, leaseMs: lease_ms, startedAt, renew };
    const claimed = new ClaimedTask(deps);
    if (waited) await claimed.renew(undefined, call);
    return claimed;
  }

  /** Starts the lease of a claim again; resolves with its duration, milliseconds. Rejects with `planning.claim_lost`. */
  renew(planId: string, taskId: string, fence: number, leaseMs?: number, call: CallOptions = {}): Call<number> {
    const body = { plan_id: planId, task_id: taskId, fence, ...(leaseMs !== undefined && { lease_ms: leaseMs }) };
    return this.#agent.calls.call(calls.taskRenew, body, call, ({ lease_ms }) => lease_ms);
  }

  /** Releases a claim: the task returns to the column it was claimed in. Rejects with `planning.claim_lost`. */
  release(planId: string, taskId: string, fence: number, comment = '', call: CallOptions = {}): Call<Task> {
    const body = { plan_id: planId, task_id: taskId, fence, ...(comment !== '' && { comment }) };
    return this.#agent.calls.call(calls.taskRelease, body, call, taskOf);
  }

  /** Adds a comment to a task. Resolves with the entry's number in the history. */
  comment(planId: string, taskId: string, text: string, call: CallOptions = {}): Call<number> {
    const body = { plan_id: planId, task_id: taskId, text };
    return this.#agent.calls.call(calls.taskComment, body, call, ({ seq }) => seq);
  }

  archive(planId: string, taskId: string, call: CallOptions = {}): Call<Task> {
    return this.#agent.calls.call(
      calls.taskArchive,
      { plan_id: planId, task_id: taskId, archived: true },
      call,
      taskOf,
    );
  }

  restore(planId: string, taskId: string, call: CallOptions = {}): Call<Task> {
    return this.#agent.calls.call(
      calls.taskArchive,
      { plan_id: planId, task_id: taskId, archived: false },
      call,
      taskOf,
    );
  }

  /** Deletes a task permanently. Rejects with `planning.blocked` while others depend on it, unless forced. */
  delete(
    planId: string,
    taskId: string,
    { force = false, ifRevision }: { readonly force?: boolean; readonly ifRevision?: number } = {},
    call: CallOptions = {},
  ): Call<readonly string[]> {
    const body = {
      plan_id: planId,
      task_id: taskId,
      force,
      ...(ifRevision !== undefined && { if_revision: ifRevision }),
    };
    return this.#agent.calls.call(calls.taskDelete, body, call, ({ detached }) => detached);
  }

  /** Yields the history of a plan, oldest first; or of a task, newest first. */
  async *history(planId: string, taskId = '', call: CallOptions = {}): AsyncGenerator<Entry> {
    for (let after = 0; ; ) {
      const body = { plan_id: planId, task_id: taskId, after, limit: PAGE };
      const { entries, next } = await this.#agent.calls.call(calls.history, body, call);
      yield* entries;
      if (next === 0) return;
      after = next;
    }
  }

  /**
   * Merges the task lists of a Markdown document with a plan, both ways; an empty text becomes a document of the whole plan.
   * @param options.prefer the side that wins where both changed; default: neither, the item is one of `conflicts`
   */
  markdown(
    planId: string,
    text: string,
    options: { readonly prefer?: 'plan' | 'text'; readonly append?: boolean; readonly dryRun?: boolean } = {},
    call: CallOptions = {},
  ): Call<MergedMarkdown> {
    const { prefer, append, dryRun } = options;
    const body = {
      plan_id: planId,
      text,
      ...(prefer && { prefer }),
      ...(append !== undefined && { append }),
      ...(dryRun && { dry_run: true }),
    };
    return this.#agent.calls.call(
      calls.markdown,
      body,
      call,
      ({ added, updated, missing, unknown, conflicts, ...rest }) => ({
        text: rest.text,
        added,
        updated,
        missing,
        unknown,
        conflicts,
      }),
    );
  }

  /**
   * Yields the changes of a plan, or of every plan, until the caller leaves the loop. Stored entries above `after` come first,
   * so that a follower that has stored the last `seq` misses none, even after a restart of the host.
   */
  async *watch(
    planId = '',
    { after, signal }: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Entry> {
    const body = { plan_id: planId, ...(after !== undefined && { after }) };
    const options = { keepStream: true, streaming: true, timeoutMs: 0, ...(signal && { signal }) };
    const call = this.#agent.calls.call(calls.watch, body, options);
    for await (const { kind, data } of call) if (kind === 'change') yield data as unknown as Entry;
  }
}

const planOf = ({ plan }: { readonly plan: schema.Plan }): Plan => plan as Plan;
const taskOf = ({ task }: { readonly task: Task }): Task => task;

/**
 * The messages of the planning capability as schemas.
 *
 * The six pairs of A2E 1.0 come first; their requests have no `/req`. Fields that A2E 1.0 does not have are optional, and so
 * are the further messages.
 * @see docs/planning.md
 */
import { answer, base, eventFields, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, orNull, shape } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import {
  Board,
  Claim,
  Entry,
  fence,
  flag,
  ifRevision,
  integer,
  key,
  leaseMs,
  list,
  mayFlag,
  maySeq,
  mayText,
  Plan,
  planId,
  Refusal,
  Rules,
  Share,
  SomeRules,
  Task,
  TaskLine,
  taskId,
  text,
  texts,
} from './records.schema.ts';

const { Literal, Object: object, Optional: may } = Type;

const PlanCreateReq = object(
  {
    ...base,
    type: Literal('planning/plan/create'),
    name: mayText('Default "default".'),
    columns: may(texts('Columns of the board; empty: backlog, todo, in_progress, done.')),
    description: mayText('For people and models.'),
    rules: may(SomeRules),
    private: mayFlag('Only this agent may use it, not all agents of the principal.'),
    key,
  },
  { ...fromAgent, description: 'Creates a plan.' },
);

const refusable = { success: flag('False: refused, see error.'), error: may(Refusal) };

const PlanCreateResp = object(
  {
    ...answer,
    type: Literal('planning/plan/create/resp'),
    ...refusable,
    plan_id: text('Empty when refused.'),
    columns: texts('Its columns.'),
    plan: may(Plan),
  },
  { ...fromHost, description: 'The new plan.' },
);

const PlanListReq = object(
  { ...base, type: Literal('planning/plan/list'), include_archived: mayFlag('Also archived plans.') },
  { ...fromAgent, description: 'Lists the plans of the principal, and those shared with it.' },
);

const PlanListResp = object(
  { ...answer, type: Literal('planning/plan/list/resp'), plans: list(Plan, 'The plans, oldest first.') },
  { ...fromHost, description: 'The plans.' },
);

const TaskAddReq = object(
  {
    ...base,
    type: Literal('planning/task/add'),
    plan_id: planId,
    title: text('One line.'),
    status: mayText('Its column; default backlog, or the first column of a plan without one.'),
    description: mayText('For people and models.'),
    assignee: mayText('The assignee: the agent or person that is to do it.'),
    deps: may(texts('Tasks that must be done first.')),
    metadata: may(anyObject('Free facts.')),
    parent: mayText('The task it is a part of.'),
    priority: may(Type.Integer({ description: 'Higher is handed out first; default 0.' })),
    key,
  },
  { ...fromAgent, description: 'Adds a task.' },
);

const TaskAddResp = object(
  {
    ...answer,
    type: Literal('planning/task/add/resp'),
    ...refusable,
    task_id: text('Empty when refused.'),
    status: text('Its column.'),
    task: may(Task),
  },
  { ...fromHost, description: 'The new task.' },
);

const TaskUpdateReq = object(
  {
    ...base,
    type: Literal('planning/task/update'),
    plan_id: planId,
    task_id: taskId,
    status: mayText('Moves it; empty: unchanged.'),
    assignee: mayText('Empty: unchanged.'),
    deps: may(texts('All its dependencies; empty: unchanged.')),
    title: mayText('Empty: unchanged.'),
    description: mayText('Empty: unchanged.'),
    parent: mayText('Empty: unchanged.'),
    priority: may(Type.Integer({ description: 'Higher is handed out first.' })),
    metadata: may(anyObject('Members to set; null removes one. Others stay.')),
    add_deps: may(texts('Dependencies to add; others stay.')),
    remove_deps: may(texts('Dependencies to remove; others stay.')),
    clear: may(texts('Fields to empty: assignee, deps, description, parent.')),
    comment: mayText('Said with the change.'),
    fence: may(fence),
    if_revision: ifRevision,
    force: mayFlag('Moves it also with open dependencies, against the allowed moves, or under the claim of another.'),
  },
  { ...fromAgent, description: 'Changes the given fields of a task, together or not at all; other fields stay.' },
);

const TaskUpdateResp = object(
  {
    ...answer,
    type: Literal('planning/task/update/resp'),
    ...refusable,
    task_id: taskId,
    task: may(Task),
  },
  { ...fromHost, description: 'The task as it is now.' },
);

const paging = {
  after: mayText('Only tasks behind this one: next of the page before.'),
  limit: may(integer('Tasks at most; default: all.', 1)),
};

const TaskListReq = object(
  {
    ...base,
    type: Literal('planning/task/list'),
    plan_id: mayText('Empty: of all plans.'),
    status: mayText('Only of this column.'),
    assignee: mayText('Only of this assignee.'),
    include_archived: mayFlag('Also archived tasks.'),
    ...paging,
  },
  { ...fromAgent, description: 'Lists tasks.' },
);

const TaskListResp = object(
  {
    ...answer,
    type: Literal('planning/task/list/resp'),
    tasks: list(TaskLine, 'The tasks, oldest first.'),
    next: mayText('Where the next page starts; absent: there is none.'),
  },
  { ...fromHost, description: 'The tasks.' },
);

const BoardReq = object(
  {
    ...base,
    type: Literal('planning/plan/board'),
    plan_id: mayText('Empty: a board of each plan.'),
    limit: may(integer('Tasks of each column at most; default: all.')),
    include_archived: mayFlag('Also archived tasks.'),
  },
  { ...fromAgent, description: 'Reads boards.' },
);

const BoardResp = object(
  { ...answer, type: Literal('planning/plan/board/resp'), boards: list(Board, 'The boards.') },
  { ...fromHost, description: 'The boards.' },
);

// Messages that A2E 1.0 does not have.

const PlanShowReq = object(
  { ...base, type: Literal('planning/plan/show/req'), plan_id: planId },
  { ...fromAgent, description: 'Reads a plan.' },
);

const planReply = (type: string, description: string) =>
  object({ ...answer, type: Literal(type), plan: Plan }, { ...fromHost, description });
const taskReply = (type: string, description: string) =>
  object({ ...answer, type: Literal(type), task: Task }, { ...fromHost, description });

const PlanShowResp = planReply('planning/plan/show/resp', 'The plan.');

const PlanConfigureReq = object(
  {
    ...base,
    type: Literal('planning/plan/configure/req'),
    plan_id: planId,
    name: mayText('Empty: unchanged.'),
    description: mayText('Its new description.'),
    columns: may(texts('All columns, in order. Tasks of a removed one stay in it, behind the others.')),
    rename: may(
      Type.Unsafe<Readonly<Record<string, string>>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'Columns to rename, with their tasks: old name to new name.',
      }),
    ),
    rules: may(SomeRules),
    if_revision: ifRevision,
  },
  { ...fromAgent, description: 'Changes a plan itself. Only its owner may.' },
);
const PlanConfigureResp = planReply('planning/plan/configure/resp', 'The plan as it is now.');

const PlanArchiveReq = object(
  {
    ...base,
    type: Literal('planning/plan/archive/req'),
    plan_id: planId,
    archived: mayFlag('False restores it. Default true.'),
  },
  { ...fromAgent, description: 'Archives a plan or restores it. Nothing is deleted.' },
);
const PlanArchiveResp = planReply('planning/plan/archive/resp', 'The plan as it is now.');

const PlanDeleteReq = object(
  {
    ...base,
    type: Literal('planning/plan/delete/req'),
    plan_id: planId,
    force: mayFlag('Also when it is not archived.'),
  },
  { ...fromAgent, description: 'Deletes an archived plan with its tasks and history, for good.' },
);
const PlanDeleteResp = object(
  {
    ...answer,
    type: Literal('planning/plan/delete/resp'),
    tasks: integer('Tasks that were deleted.'),
    entries: integer('Entries of its history that were deleted.'),
  },
  { ...fromHost, description: 'The deleted items.' },
);

const PlanShareReq = object(
  {
    ...base,
    type: Literal('planning/plan/share/req'),
    plan_id: planId,
    principal: text('The other principal, by the name of its token.'),
    role: Type.Unsafe<'read' | 'write' | 'none'>({
      enum: ['read', 'write', 'none'],
      description: 'none ends the share.',
    }),
  },
  { ...fromAgent, description: 'Lets another principal use a plan. Only its owner may.' },
);
const PlanShareResp = planReply('planning/plan/share/resp', 'The plan as it is now.');

const TaskShowReq = object(
  { ...base, type: Literal('planning/task/show/req'), plan_id: planId, task_id: taskId },
  { ...fromAgent, description: 'Reads a task, whole.' },
);
const TaskShowResp = taskReply('planning/task/show/resp', 'The task.');

const TaskReadyReq = object(
  {
    ...base,
    type: Literal('planning/task/ready/req'),
    plan_id: planId,
    assignee: mayText('Also tasks assigned to this name. Default: the id of the agent.'),
    limit: may(integer('Tasks at most, default 100; 1,000 at most.', 1)),
    after: mayText('The `next` of the page before.'),
  },
  {
    ...fromAgent,
    description:
      'Lists the tasks that could be claimed now: open, unclaimed, every dependency done, not assigned to another.',
  },
);
const TaskReadyResp = object(
  {
    ...answer,
    type: Literal('planning/task/ready/resp'),
    tasks: list(TaskLine, 'First by priority, then by age.'),
    next: mayText('Where the next page starts; absent: there is none.'),
    total: integer('How many are ready for any agent.'),
    claimed: integer('How many are claimed.'),
    open: integer('How many are not done.'),
  },
  { ...fromHost, description: 'The ready tasks.' },
);

const TaskClaimReq = object(
  {
    ...base,
    type: Literal('planning/task/claim/req'),
    plan_id: planId,
    task_id: mayText('The task to claim; empty: the first that is ready.'),
    lease_ms: leaseMs,
    key,
    wait_ms: may(integer('How long to wait for a ready task, milliseconds; default 0, at most 60,000.')),
  },
  { ...fromAgent, description: 'Claims a ready task: no other agent gets it before the lease expires.' },
);
const TaskClaimResp = object(
  {
    ...answer,
    type: Literal('planning/task/claim/resp'),
    task: orNull(Task),
    fence: integer('Sent with every change under the claim; 0 without a task.'),
    lease_ms: integer('Duration of the lease from the request on, milliseconds.'),
    claimed: integer('How many tasks of the plan are claimed.'),
    open: integer('How many tasks of the plan are not done.'),
  },
  { ...fromHost, description: 'The claimed task; null: none is ready.' },
);

const TaskRenewReq = object(
  {
    ...base,
    type: Literal('planning/task/renew/req'),
    plan_id: planId,
    task_id: taskId,
    fence,
    lease_ms: leaseMs,
  },
  { ...fromAgent, description: 'Starts the lease of a claim again.' },
);
const TaskRenewResp = object(
  {
    ...answer,
    type: Literal('planning/task/renew/resp'),
    lease_ms: integer('Duration of the lease from the request on, milliseconds.'),
  },
  { ...fromHost, description: 'The claim is in force.' },
);

const TaskReleaseReq = object(
  {
    ...base,
    type: Literal('planning/task/release/req'),
    plan_id: planId,
    task_id: taskId,
    fence,
    comment: mayText('Why.'),
  },
  { ...fromAgent, description: 'Gives a claim back: the task returns to the column it was claimed in.' },
);
const TaskReleaseResp = taskReply('planning/task/release/resp', 'The task as it is now.');

const TaskCommentReq = object(
  {
    ...base,
    type: Literal('planning/task/comment/req'),
    plan_id: planId,
    task_id: taskId,
    text: text('The text of the comment.'),
  },
  { ...fromAgent, description: 'Comments on a task.' },
);
const TaskCommentResp = object(
  { ...answer, type: Literal('planning/task/comment/resp'), seq: integer('Its entry in the history.', 1) },
  { ...fromHost, description: 'The comment is stored.' },
);

const TaskArchiveReq = object(
  {
    ...base,
    type: Literal('planning/task/archive/req'),
    plan_id: planId,
    task_id: taskId,
    archived: mayFlag('False restores it. Default true.'),
    if_revision: ifRevision,
  },
  { ...fromAgent, description: 'Archives a task or restores it. Nothing is deleted.' },
);
const TaskArchiveResp = taskReply('planning/task/archive/resp', 'The task as it is now.');

const TaskDeleteReq = object(
  {
    ...base,
    type: Literal('planning/task/delete/req'),
    plan_id: planId,
    task_id: taskId,
    if_revision: ifRevision,
    force: mayFlag('Also when others depend on it, or it has parts: those no longer do. Or under a claim.'),
  },
  { ...fromAgent, description: 'Deletes a task for good. Its history stays, and has it as it was.' },
);
const TaskDeleteResp = object(
  {
    ...answer,
    type: Literal('planning/task/delete/resp'),
    seq: integer('The entry of the deletion in the history.', 1),
    detached: texts('Tasks that depended on it or were parts of it.'),
  },
  { ...fromHost, description: 'The task is deleted.' },
);

const HistoryReq = object(
  {
    ...base,
    type: Literal('planning/history/req'),
    plan_id: planId,
    task_id: mayText('Only of this task, newest first. Empty: of the plan, oldest first.'),
    after: maySeq('Of the plan: entries above; of a task: entries below (0: from the newest).'),
    limit: may(integer('Entries at most, default 100.', 1)),
  },
  { ...fromAgent, description: 'Reads the history of a plan or of a task, comments included.' },
);
const HistoryResp = object(
  {
    ...answer,
    type: Literal('planning/history/resp'),
    entries: list(Entry, 'The entries.'),
    next: integer('The after of the next page; 0: there is none.'),
  },
  { ...fromHost, description: 'The entries.' },
);

const WatchReq = object(
  {
    ...base,
    type: Literal('planning/watch/req'),
    plan_id: mayText('Empty: every plan the principal may read, from now on.'),
    after: maySeq('Of one plan: entries above it, stored ones first. Default: from now on.'),
  },
  { ...fromAgent, description: 'Subscribes to changes. The stream continues until it is cancelled.' },
);
const WatchEvent = object(
  { ...eventFields, type: Literal('planning/watch/event') },
  { ...fromHost, description: 'Something changed, and is on disk: kind is change, data an Entry.' },
);
const WatchResp = object(
  { ...answer, type: Literal('planning/watch/resp'), seq: integer('The last entry of the plan now; 0 for all plans.') },
  { ...fromHost, description: 'The subscription started.' },
);

const MarkdownReq = object(
  {
    ...base,
    type: Literal('planning/markdown/req'),
    plan_id: planId,
    text: text('A Markdown document with task lists; empty: a new one.'),
    prefer: may(
      Type.Unsafe<'plan' | 'text'>({
        enum: ['plan', 'text'],
        description: 'Which side wins where both changed. Default: neither; it is a conflict.',
      }),
    ),
    append: mayFlag('Adds the tasks of the plan that the document lacks to its end. Default true.'),
    dry_run: mayFlag('Changes nothing in the plan.'),
  },
  { ...fromAgent, description: 'Merges a document with a plan, both ways.' },
);
const MarkdownResp = object(
  {
    ...answer,
    type: Literal('planning/markdown/resp'),
    text: text('The document as it should be now. Outside of task items it has every byte of the request.'),
    added: texts('Tasks that were new in the document.'),
    updated: texts('Tasks that were changed by the document.'),
    missing: texts('Tasks that were once written into the document and are not in it now. They stay in the plan.'),
    unknown: texts('Ids in the document that the plan does not have. Their items stay as they are.'),
    conflicts: list(
      shape('An item that was not merged.', {
        task_id: taskId,
        code: text('planning.conflict, or why the plan refused the change.'),
        message: text('For people.'),
        yours: may(anyObject('The values of the document.')),
        current: may(anyObject('The values of the plan.')),
      }),
      'Items that were not merged.',
    ),
  },
  { ...fromHost, description: 'The merged document, and what changed in the plan.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const planningSchemas = {
  PlanCreateReq,
  PlanCreateResp,
  PlanListReq,
  PlanListResp,
  TaskAddReq,
  TaskAddResp,
  TaskUpdateReq,
  TaskUpdateResp,
  TaskListReq,
  TaskListResp,
  BoardReq,
  BoardResp,
  PlanShowReq,
  PlanShowResp,
  PlanConfigureReq,
  PlanConfigureResp,
  PlanArchiveReq,
  PlanArchiveResp,
  PlanDeleteReq,
  PlanDeleteResp,
  PlanShareReq,
  PlanShareResp,
  TaskShowReq,
  TaskShowResp,
  TaskReadyReq,
  TaskReadyResp,
  TaskClaimReq,
  TaskClaimResp,
  TaskRenewReq,
  TaskRenewResp,
  TaskReleaseReq,
  TaskReleaseResp,
  TaskCommentReq,
  TaskCommentResp,
  TaskArchiveReq,
  TaskArchiveResp,
  TaskDeleteReq,
  TaskDeleteResp,
  HistoryReq,
  HistoryResp,
  WatchReq,
  WatchEvent,
  WatchResp,
  MarkdownReq,
  MarkdownResp,
  Plan,
  Rules,
  Share,
  TaskLine,
  Task,
  Claim,
  Entry,
  Board,
  Refusal,
};

type Of<Name extends keyof typeof planningSchemas> = Static<(typeof planningSchemas)[Name]>;

export type PlanCreateReq = Of<'PlanCreateReq'>;
export type PlanCreateResp = Of<'PlanCreateResp'>;
export type PlanListReq = Of<'PlanListReq'>;
export type PlanListResp = Of<'PlanListResp'>;
export type TaskAddReq = Of<'TaskAddReq'>;
export type TaskAddResp = Of<'TaskAddResp'>;
export type TaskUpdateReq = Of<'TaskUpdateReq'>;
export type TaskUpdateResp = Of<'TaskUpdateResp'>;
export type TaskListReq = Of<'TaskListReq'>;
export type TaskListResp = Of<'TaskListResp'>;
export type BoardReq = Of<'BoardReq'>;
export type BoardResp = Of<'BoardResp'>;
export type PlanShowReq = Of<'PlanShowReq'>;
export type PlanShowResp = Of<'PlanShowResp'>;
export type PlanConfigureReq = Of<'PlanConfigureReq'>;
export type PlanArchiveReq = Of<'PlanArchiveReq'>;
export type PlanDeleteReq = Of<'PlanDeleteReq'>;
export type PlanDeleteResp = Of<'PlanDeleteResp'>;
export type PlanShareReq = Of<'PlanShareReq'>;
export type TaskShowReq = Of<'TaskShowReq'>;
export type TaskShowResp = Of<'TaskShowResp'>;
export type TaskReadyReq = Of<'TaskReadyReq'>;
export type TaskReadyResp = Of<'TaskReadyResp'>;
export type TaskClaimReq = Of<'TaskClaimReq'>;
export type TaskClaimResp = Of<'TaskClaimResp'>;
export type TaskRenewReq = Of<'TaskRenewReq'>;
export type TaskRenewResp = Of<'TaskRenewResp'>;
export type TaskReleaseReq = Of<'TaskReleaseReq'>;
export type TaskCommentReq = Of<'TaskCommentReq'>;
export type TaskCommentResp = Of<'TaskCommentResp'>;
export type TaskArchiveReq = Of<'TaskArchiveReq'>;
export type TaskDeleteReq = Of<'TaskDeleteReq'>;
export type TaskDeleteResp = Of<'TaskDeleteResp'>;
export type HistoryReq = Of<'HistoryReq'>;
export type HistoryResp = Of<'HistoryResp'>;
export type WatchReq = Of<'WatchReq'>;
export type WatchResp = Of<'WatchResp'>;
export type MarkdownReq = Of<'MarkdownReq'>;
export type MarkdownResp = Of<'MarkdownResp'>;
export type { Board, Claim, Entry, Plan, Refusal, Rules, Share, Task, TaskLine } from './records.schema.ts';

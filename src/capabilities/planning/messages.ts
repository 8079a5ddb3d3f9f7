/**
 * The methods of the planning capability, with their checks and options.
 *
 * @see docs/planning.md
 */
import { method, methodsOf } from '../../protocol/method.ts';
import * as checks from './planning.generated.ts';
import type * as schema from './planning.schema.ts';

const planning = methodsOf({ capability: 'planning', event: 'planning/event' });
const read = { idempotent: true } as const;

export const planCreate = planning<schema.PlanCreateReq, schema.PlanCreateResp>(
  'planning/plan/create',
  checks.PlanCreateReq,
);
export const planList = planning<schema.PlanListReq, schema.PlanListResp>(
  'planning/plan/list',
  checks.PlanListReq,
  read,
);
export const taskAdd = planning<schema.TaskAddReq, schema.TaskAddResp>('planning/task/add', checks.TaskAddReq);
export const taskUpdate = planning<schema.TaskUpdateReq, schema.TaskUpdateResp>(
  'planning/task/update',
  checks.TaskUpdateReq,
);
export const taskList = planning<schema.TaskListReq, schema.TaskListResp>(
  'planning/task/list',
  checks.TaskListReq,
  read,
);
export const planBoard = planning<schema.BoardReq, schema.BoardResp>('planning/plan/board', checks.BoardReq, read);

type PlanReply = schema.PlanShowResp;
type TaskReply = schema.TaskShowResp;

export const planShow = planning<schema.PlanShowReq, PlanReply>('planning/plan/show/req', checks.PlanShowReq, read);
export const planConfigure = planning<schema.PlanConfigureReq, PlanReply>(
  'planning/plan/configure/req',
  checks.PlanConfigureReq,
);
export const planArchive = planning<schema.PlanArchiveReq, PlanReply>(
  'planning/plan/archive/req',
  checks.PlanArchiveReq,
  read,
);
export const planDelete = planning<schema.PlanDeleteReq, schema.PlanDeleteResp>(
  'planning/plan/delete/req',
  checks.PlanDeleteReq,
);
export const planShare = planning<schema.PlanShareReq, PlanReply>('planning/plan/share/req', checks.PlanShareReq, read);
export const taskShow = planning<schema.TaskShowReq, TaskReply>('planning/task/show/req', checks.TaskShowReq, read);
export const taskReady = planning<schema.TaskReadyReq, schema.TaskReadyResp>(
  'planning/task/ready/req',
  checks.TaskReadyReq,
  read,
);
export const taskClaim = planning<schema.TaskClaimReq, schema.TaskClaimResp>(
  'planning/task/claim/req',
  checks.TaskClaimReq,
  { waits: ({ wait_ms = 0 }) => wait_ms > 0 },
);
export const taskRenew = planning<schema.TaskRenewReq, schema.TaskRenewResp>(
  'planning/task/renew/req',
  checks.TaskRenewReq,
  read,
);
export const taskRelease = planning<schema.TaskReleaseReq, TaskReply>(
  'planning/task/release/req',
  checks.TaskReleaseReq,
);
export const taskComment = planning<schema.TaskCommentReq, schema.TaskCommentResp>(
  'planning/task/comment/req',
  checks.TaskCommentReq,
);
export const taskArchive = planning<schema.TaskArchiveReq, TaskReply>(
  'planning/task/archive/req',
  checks.TaskArchiveReq,
);
export const taskDelete = planning<schema.TaskDeleteReq, schema.TaskDeleteResp>(
  'planning/task/delete/req',
  checks.TaskDeleteReq,
);
export const history = planning<schema.HistoryReq, schema.HistoryResp>('planning/history/req', checks.HistoryReq, read);
export const markdown = planning<schema.MarkdownReq, schema.MarkdownResp>('planning/markdown/req', checks.MarkdownReq);

export const watch = method<schema.WatchReq, schema.WatchResp>({
  request: 'planning/watch/req',
  reply: 'planning/watch/resp',
  event: 'planning/watch/event',
  subscribes: true,
  capability: 'planning',
  idempotent: true,
  checkRequest: checks.WatchReq,
});

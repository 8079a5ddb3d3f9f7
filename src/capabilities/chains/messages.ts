/**
 * The methods of the chains capability, with their checks and options.
 *
 * @see docs/chains.md
 */
import { methodsOf } from '../../protocol/method.ts';
import * as checks from './chains.generated.ts';
import { ChainEvent } from './chains.replies.generated.ts';
import type * as schema from './chains.schema.ts';
import { shortResult } from './short-result.ts';

const chains = methodsOf({ capability: 'chains', event: 'chain/event' });
const read = { idempotent: true } as const;
const runs = { checkEvent: ChainEvent, shorten: shortResult } as const;
/** Options of methods that run nodes: tools and programs work in the workspace of their host. */
const starts = { ...runs, inWorkspace: true } as const;
const waits = { waits: () => true } as const;
/** Nodes that wait for people and subagents; those with a `retry` wait for the next attempt. */
const WAITING_KINDS: ReadonlySet<unknown> = new Set(['wait', 'agent', 'task']);

// The run itself has the timeout of the request: it ends with a reply, not with an error message.
export const chainRun = chains<schema.ChainReq, schema.ChainResp>('chain/req', checks.ChainReq, {
  ...starts,
  streaming: ({ streaming }) => streaming !== false,
  // The request does not tell whether a stored chain has a node that waits.
  waits: ({ nodes }) => nodes?.some((node) => WAITING_KINDS.has(node?.kind) || node?.retry !== undefined) ?? true,
});
export const chainCheck = chains<schema.ChainCheckReq, schema.ChainCheckResp>(
  'chain/check/req',
  checks.ChainCheckReq,
  read,
);
export const chainPut = chains<schema.ChainPutReq, schema.ChainPutResp>('chain/put/req', checks.ChainPutReq);
export const chainGet = chains<schema.ChainGetReq, schema.ChainGetResp>('chain/get/req', checks.ChainGetReq, read);
export const chainList = chains<schema.ChainListReq, schema.ChainListResp>('chain/list/req', checks.ChainListReq, read);
export const chainRemove = chains<schema.ChainRemoveReq, schema.ChainRemoveResp>(
  'chain/remove/req',
  checks.ChainRemoveReq,
);
export const chainRuns = chains<schema.ChainRunsReq, schema.ChainRunsResp>('chain/runs/req', checks.ChainRunsReq, read);
export const chainStatus = chains<schema.ChainStatusReq, schema.ChainStatusResp>(
  'chain/status/req',
  checks.ChainStatusReq,
  read,
);
export const chainHistory = chains<schema.ChainHistoryReq, schema.ChainHistoryResp>(
  'chain/history/req',
  checks.ChainHistoryReq,
  read,
);
export const chainWatch = chains<schema.ChainWatchReq, schema.ChainWatchResp>('chain/watch/req', checks.ChainWatchReq, {
  ...read,
  ...runs,
  ...waits,
});
export const chainPause = chains<schema.ChainPauseReq, schema.ChainPauseResp>(
  'chain/pause/req',
  checks.ChainPauseReq,
  read,
);
export const chainResume = chains<schema.ChainResumeReq, schema.ChainResumeResp>(
  'chain/resume/req',
  checks.ChainResumeReq,
  { ...starts, ...waits },
);
export const chainRetry = chains<schema.ChainRetryReq, schema.ChainRetryResp>('chain/retry/req', checks.ChainRetryReq, {
  ...starts,
  ...waits,
});
export const chainCancel = chains<schema.ChainCancelReq, schema.ChainCancelResp>(
  'chain/cancel/req',
  checks.ChainCancelReq,
  read,
);
export const chainApprove = chains<schema.ChainApproveReq, schema.ChainApproveResp>(
  'chain/approve/req',
  checks.ChainApproveReq,
);
export const chainApprovals = chains<schema.ChainApprovalsReq, schema.ChainApprovalsResp>(
  'chain/approvals/req',
  checks.ChainApprovalsReq,
  read,
);
export const chainDeliver = chains<schema.ChainDeliverReq, schema.ChainDeliverResp>(
  'chain/deliver/req',
  checks.ChainDeliverReq,
);

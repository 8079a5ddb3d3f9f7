/**
 * The methods of the multi_agent capability, with their checks and options.
 *
 * @see docs/multi-agent.md
 */
import { methodsOf, push } from '../../protocol/method.ts';
import * as checks from './multi_agent.generated.ts';
import { MultiAgentMessagePush, MultiAgentSaidPush, SubagentEvent } from './multi_agent.replies.generated.ts';
import type * as schema from './multi_agent.schema.ts';
import { shortList } from './short-list.ts';

const multi = methodsOf({ capability: 'multi_agent', event: 'multi_agent/event' });
const idempotent = { idempotent: true } as const;
const waits = { waits: () => true } as const;
/** Subagents work in the workspace of their host. */
const starts = { inWorkspace: true } as const;

export const spawn = multi<schema.MultiAgentSpawn, schema.MultiAgentSpawnResp>(
  'multi_agent/spawn',
  checks.MultiAgentSpawn,
  starts,
);
export const delegate = multi<schema.MultiAgentDelegate, schema.MultiAgentDelegateResp>(
  'multi_agent/delegate',
  checks.MultiAgentDelegate,
);
export const awaitTask = multi<schema.MultiAgentAwait, schema.MultiAgentAwaitResp>(
  'multi_agent/await',
  checks.MultiAgentAwait,
  { ...idempotent, ...waits, streaming: ({ streaming }) => streaming === true },
);
export const list = multi<schema.MultiAgentList, schema.MultiAgentListResp>('multi_agent/list', checks.MultiAgentList, {
  ...idempotent,
  shorten: shortList,
});
export const terminate = multi<schema.MultiAgentTerminate, schema.MultiAgentTerminateResp>(
  'multi_agent/terminate',
  checks.MultiAgentTerminate,
  idempotent,
);

export const kinds = multi<schema.MultiAgentKindsReq, schema.MultiAgentKindsResp>(
  'multi_agent/kinds/req',
  checks.MultiAgentKindsReq,
  idempotent,
);
export const cancel = multi<schema.MultiAgentCancelReq, schema.MultiAgentCancelResp>(
  'multi_agent/cancel/req',
  checks.MultiAgentCancelReq,
  idempotent,
);

export const merge = multi<schema.MultiAgentMergeReq, schema.MultiAgentMergeResp>(
  'multi_agent/merge/req',
  checks.MultiAgentMergeReq,
  { waits: ({ wait }) => wait !== false },
);
export const message = multi<schema.MultiAgentMessageReq, schema.MultiAgentMessageResp>(
  'multi_agent/message/req',
  checks.MultiAgentMessageReq,
);
export const channel = multi<schema.MultiAgentChannelReq, schema.MultiAgentChannelResp>(
  'multi_agent/channel/req',
  checks.MultiAgentChannelReq,
  idempotent,
);
export const say = multi<schema.MultiAgentSayReq, schema.MultiAgentSayResp>(
  'multi_agent/say/req',
  checks.MultiAgentSayReq,
);
export const history = multi<schema.MultiAgentHistoryReq, schema.MultiAgentHistoryResp>(
  'multi_agent/history/req',
  checks.MultiAgentHistoryReq,
  idempotent,
);

// Requests of subagents that run outside of the host.
export const task = multi<schema.MultiAgentTaskReq, schema.MultiAgentTaskResp>(
  'multi_agent/task/req',
  checks.MultiAgentTaskReq,
  waits,
);
export const progress = multi<schema.MultiAgentProgressReq, schema.MultiAgentProgressResp>(
  'multi_agent/progress/req',
  checks.MultiAgentProgressReq,
  idempotent,
);
export const finish = multi<schema.MultiAgentFinishReq, schema.MultiAgentFinishResp>(
  'multi_agent/finish/req',
  checks.MultiAgentFinishReq,
);

// The upper-case forms. Two of them have no separate reply type.
export const subagentSpawn = multi<schema.SubagentSpawnReq, schema.SubagentSpawnResp>(
  'SUBAGENT_SPAWN_REQ',
  checks.SubagentSpawnReq,
  { ...starts, reply: 'SUBAGENT_SPAWN_RESP' },
);
export const subagentDelegate = multi<schema.SubagentDelegateReq, schema.SubagentDelegateResp>(
  'SUBAGENT_DELEGATE_REQ',
  checks.SubagentDelegateReq,
  { reply: 'SUBAGENT_DELEGATE_RESP' },
);
export const subagentAwait = multi<schema.SubagentAwaitReq, schema.SubagentAwaitResp>(
  'SUBAGENT_AWAIT_REQ',
  checks.SubagentAwaitReq,
  { reply: 'SUBAGENT_AWAIT_RESP', idempotent: true, ...waits },
);
export const subagentList = multi<schema.SubagentListReq, schema.SubagentListResp>(
  'SUBAGENT_LIST_REQ',
  checks.SubagentListReq,
  { reply: 'SUBAGENT_LIST_RESP', idempotent: true, shorten: shortList },
);
export const subagentCancel = multi<schema.SubagentCancelReq, schema.SubagentEvent>(
  'SUBAGENT_CANCEL_REQ',
  checks.SubagentCancelReq,
  { reply: 'SUBAGENT_EVENT', idempotent: true },
);
export const subagentTerminate = multi<schema.SubagentTerminateReq, schema.SubagentEvent>(
  'SUBAGENT_TERMINATE_REQ',
  checks.SubagentTerminateReq,
  { reply: 'SUBAGENT_EVENT', idempotent: true },
);

export const subagentMessage = multi<schema.SubagentMessageReq, schema.SubagentMessageResp>(
  'SUBAGENT_MESSAGE_REQ',
  checks.SubagentMessageReq,
  { reply: 'SUBAGENT_MESSAGE_RESP' },
);
export const subagentMerge = multi<schema.SubagentMergeReq, schema.SubagentMergeResp>(
  'SUBAGENT_MERGE_REQ',
  checks.SubagentMergeReq,
  { reply: 'SUBAGENT_MERGE_RESP', ...waits },
);

/** A message of another agent. */
export const messagePush = push<Omit<schema.MultiAgentMessagePush, 'type'>>({
  push: 'multi_agent/message/push',
  capability: 'multi_agent',
  check: MultiAgentMessagePush,
});
/** A message in a channel. */
export const saidPush = push<Omit<schema.MultiAgentSaidPush, 'type'>>({
  push: 'multi_agent/said/push',
  capability: 'multi_agent',
  check: MultiAgentSaidPush,
});
/** An event of a subagent. */
export const subagentEvent = push<Omit<schema.SubagentEvent, 'type'>>({
  push: 'SUBAGENT_EVENT',
  capability: 'multi_agent',
  check: SubagentEvent,
});

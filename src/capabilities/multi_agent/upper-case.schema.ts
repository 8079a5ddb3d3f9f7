/**
 * The upper-case forms of A2E 1.0, `SUBAGENT_*`, whose requests may come without base fields. Replies have all of them.
 *
 * Part of `multi_agent.schema.ts`, which lists them. @see docs/multi-agent.md
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import {
  count,
  id,
  mayText,
  metadata,
  moreOfOutcome,
  outcome,
  Refusal,
  SubagentMessage,
  texts,
} from './shared.schema.ts';

const { Literal, Object: object } = Type;

const bare = { ...base, id: may(Type.String({ description: 'May be missing; the answer then has an empty req_id.' })) };
const SUBAGENT_STATUS = 'READY, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED or TERMINATED.';
const subagentStatus = text(SUBAGENT_STATUS);

export const SubagentConfig = shape('How a subagent is to be.', {
  name: text('For people.'),
  role: may(orNull(text('Its purpose.'))),
  model: text('As in multi_agent/spawn.'),
  system_prompt: may(orNull(text('Instructions for all its tasks.'))),
  capabilities: may(texts('Capabilities that it may use; none: all that may be delegated.')),
  memory_scope: may(oneOf(['shared', 'isolated', 'snapshot'], 'snapshot is refused. Default shared.')),
  tool_scope: may(oneOf(['shared', 'restricted', 'isolated'], 'As in multi_agent/spawn. Default restricted.')),
  max_steps: may(Type.Integer({ description: 'Default 40.' })),
  timeout_seconds: may(Type.Number({ description: 'Default 600.' })),
  metadata,
});

export const SubagentTask = shape('A task.', {
  name: text('A short name.'),
  instruction: text('The work to do.'),
  success_criteria: may(texts('When it is done.')),
  result_schema: may(anyObject('As in multi_agent/delegate.')),
  metadata,
});

export const SubagentSpawnReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_SPAWN_REQ'),
    agent: SubagentConfig,
    parent_agent_id: may(orNull(text('Not believed: the parent is the agent that asks.'))),
    root_agent_id: may(orNull(text('Not believed either.'))),
  },
  { ...fromAgent, description: 'As multi_agent/spawn.' },
);
export const SubagentSpawnResp = object(
  { ...answer, type: Literal('SUBAGENT_SPAWN_RESP'), subagent_id: id, status: subagentStatus },
  { ...fromHost, description: 'The subagent.' },
);
export const SubagentDelegateReq = object(
  { ...bare, type: Literal('SUBAGENT_DELEGATE_REQ'), subagent_id: id, task: SubagentTask },
  { ...fromAgent, description: 'As multi_agent/delegate.' },
);
export const SubagentDelegateResp = object(
  {
    ...answer,
    type: Literal('SUBAGENT_DELEGATE_RESP'),
    accepted: flag('False: it has a task, or it has ended.'),
    status: subagentStatus,
    task_id: mayText('The task.'),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'Whether it has the task.' },
);
export const SubagentAwaitReq = object(
  { ...bare, type: Literal('SUBAGENT_AWAIT_REQ'), subagent_id: id },
  { ...fromAgent, description: 'As multi_agent/await.' },
);
export const SubagentAwaitResp = object(
  {
    ...answer,
    type: Literal('SUBAGENT_AWAIT_RESP'),
    subagent_id: id,
    status: subagentStatus,
    ...outcome,
    ...moreOfOutcome,
  },
  { ...fromHost, description: 'The outcome of the task.' },
);
export const SubagentMessageReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_MESSAGE_REQ'),
    from_subagent_id: text('Must be the agent that asks, or empty.'),
    to_subagent_id: text('A subagent of this agent, one with the same parent, or parent.'),
    message: SubagentMessage,
  },
  { ...fromAgent, description: 'Sends a message to a subagent, or to the agent above.' },
);
export const SubagentMessageResp = object(
  { ...answer, type: Literal('SUBAGENT_MESSAGE_RESP'), delivered: flag('False: it has ended.') },
  { ...fromHost, description: 'Whether it has the message.' },
);
export const SubagentListReq = object(
  { ...bare, type: Literal('SUBAGENT_LIST_REQ') },
  { ...fromAgent, description: 'As multi_agent/list.' },
);
export const SubagentInfo = shape('A subagent.', {
  subagent_id: id,
  name: text('For people.'),
  status: subagentStatus,
  parent_agent_id: may(orNull(text('The agent that made it.'))),
  root_agent_id: may(orNull(text('The agent at the top.'))),
  depth: may(count('1 below an agent.')),
  config: SubagentConfig,
});
export const SubagentListResp = object(
  {
    ...answer,
    type: Literal('SUBAGENT_LIST_RESP'),
    subagents: Type.Array(SubagentInfo, { description: 'Oldest first.' }),
  },
  { ...fromHost, description: 'The subagents.' },
);
export const SubagentCancelReq = object(
  { ...bare, type: Literal('SUBAGENT_CANCEL_REQ'), subagent_id: id },
  { ...fromAgent, description: 'Ends the task of a subagent, which then takes another. Answered by SUBAGENT_EVENT.' },
);
export const SubagentTerminateReq = object(
  { ...bare, type: Literal('SUBAGENT_TERMINATE_REQ'), subagent_id: id },
  { ...fromAgent, description: 'As multi_agent/terminate. Answered by SUBAGENT_EVENT.' },
);
export const SubagentMergeReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_MERGE_REQ'),
    subagent_ids: texts('The subagents whose last results are merged.'),
    strategy: may(
      text(
        'hierarchical_summary, voting, custom, concat, vote, first_success or best_by_score. Default hierarchical_summary.',
      ),
    ),
    tool: mayText('With custom: the tool that merges.'),
  },
  { ...fromAgent, description: 'As multi_agent/merge/req.' },
);
export const SubagentMergeResp = object(
  { ...answer, type: Literal('SUBAGENT_MERGE_RESP'), merged_result: anyObject('The merged result.') },
  { ...fromHost, description: 'The results as one.' },
);
export const SubagentEvent = object(
  {
    ...answer,
    type: Literal('SUBAGENT_EVENT'),
    subagent_id: id,
    event: text('started, progress, waiting, resumed, message, completed, failed, cancelled or terminated.'),
    content: may(anyObject('Details of the event; left_out names values that no message may hold.')),
  },
  {
    ...fromHost,
    description:
      'Something happened to a subagent of this agent, or to one below it. Of no request, but for the answer to SUBAGENT_CANCEL_REQ and SUBAGENT_TERMINATE_REQ.',
  },
);

export type SubagentAwaitReq = Static<typeof SubagentAwaitReq>;
export type SubagentAwaitResp = Static<typeof SubagentAwaitResp>;
export type SubagentCancelReq = Static<typeof SubagentCancelReq>;
export type SubagentConfig = Static<typeof SubagentConfig>;
export type SubagentDelegateReq = Static<typeof SubagentDelegateReq>;
export type SubagentDelegateResp = Static<typeof SubagentDelegateResp>;
export type SubagentEvent = Static<typeof SubagentEvent>;
export type SubagentInfo = Static<typeof SubagentInfo>;
export type SubagentListReq = Static<typeof SubagentListReq>;
export type SubagentListResp = Static<typeof SubagentListResp>;
export type SubagentMergeReq = Static<typeof SubagentMergeReq>;
export type SubagentMergeResp = Static<typeof SubagentMergeResp>;
export type SubagentMessageReq = Static<typeof SubagentMessageReq>;
export type SubagentMessageResp = Static<typeof SubagentMessageResp>;
export type SubagentSpawnReq = Static<typeof SubagentSpawnReq>;
export type SubagentSpawnResp = Static<typeof SubagentSpawnResp>;
export type SubagentTask = Static<typeof SubagentTask>;
export type SubagentTerminateReq = Static<typeof SubagentTerminateReq>;

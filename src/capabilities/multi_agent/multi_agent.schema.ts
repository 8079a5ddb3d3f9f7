/**
 * The messages of the multi_agent capability as schemas.
 *
 * The five pairs of A2E 1.0 come first, then the `SUBAGENT_*` forms, whose requests may come without an id. Fields that A2E 1.0
 * does not have are optional; further requests end in `/req`.
 * @see docs/multi-agent.md
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import {
  count,
  id,
  mayText,
  metadata,
  moreOfOutcome,
  outcome,
  Refusal,
  STATUS,
  SubagentBudget,
  SubagentMessage,
  SubagentUsage,
  seconds,
  status,
  texts,
} from './shared.schema.ts';
import * as upperCase from './upper-case.schema.ts';

export type { SubagentBudget, SubagentMessage, SubagentUsage } from './shared.schema.ts';
export type * from './upper-case.schema.ts';

const { Literal, Object: object } = Type;

const MultiAgentSpawn = object(
  {
    ...base,
    type: Literal('multi_agent/spawn'),
    name: text('For people.'),
    role: mayText('Its purpose; its backend gets it.'),
    model: mayText('The model, where its backend has a choice; or the kind.'),
    max_steps: may(Type.Integer({ description: 'Steps of one task after which it ends. Default 20.' })),
    metadata,
    kind: mayText('One of multi_agent/kinds/req. Default: the model where it names one, else the first.'),
    system_prompt: mayText('Instructions for all its tasks, where its backend takes them.'),
    capabilities: may(
      texts('Capabilities that it may use, of those that this agent may delegate. Default: all of them.'),
    ),
    memory_scope: may(
      oneOf(['shared', 'isolated'], 'isolated: without memory, learning and planning. Default shared.'),
    ),
    tool_scope: may(
      oneOf(
        ['shared', 'restricted', 'isolated'],
        'shared: every tool that may be delegated. restricted: none with the risk exec, destructive or network, unless its kind names it. isolated: none. Default shared.',
      ),
    ),
    timeout_seconds: may(seconds('Longest time of a task.')),
    budget: may(SubagentBudget),
  },
  { ...fromAgent, description: 'Makes a subagent, which waits for a task.' },
);

const MultiAgentSpawnResp = object(
  {
    ...answer,
    type: Literal('multi_agent/spawn/resp'),
    subagent_id: id,
    status,
    kind: mayText('Its kind.'),
  },
  { ...fromHost, description: 'The subagent.' },
);

const MultiAgentDelegate = object(
  {
    ...base,
    type: Literal('multi_agent/delegate'),
    subagent_id: id,
    task_name: text('A short name.'),
    instruction: text('The work to do.'),
    success_criteria: may(texts('When it is done.')),
    result_schema: may(
      anyObject(
        'JSON Schema that the result must fit; one that does not fails the task with multi_agent.invalid_result.',
      ),
    ),
    metadata,
    timeout_seconds: may(seconds('Longest time of this task.')),
  },
  { ...fromAgent, description: 'Gives a subagent a task. It has one at a time.' },
);

const MultiAgentDelegateResp = object(
  {
    ...answer,
    type: Literal('multi_agent/delegate/resp'),
    accepted: flag('False: it has a task, or it has ended.'),
    status,
    task_id: mayText('The task.'),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'Whether it has the task.' },
);

const MultiAgentAwait = object(
  {
    ...base,
    type: Literal('multi_agent/await'),
    subagent_id: id,
    task_id: mayText('One of its tasks. Default: its last.'),
    streaming: may(
      flag('Ask for multi_agent/event messages while it runs: progress, with what was spent so far. Default false.'),
    ),
  },
  { ...fromAgent, description: 'Waits until the task of a subagent has ended.' },
);

const MultiAgentAwaitResp = object(
  { ...answer, type: Literal('multi_agent/await/resp'), subagent_id: id, status, ...outcome, ...moreOfOutcome },
  { ...fromHost, description: 'The outcome of the task.' },
);

const MultiAgentList = object(
  {
    ...base,
    type: Literal('multi_agent/list'),
    all: may(flag('With those of subagents, as deep as they go. Default false.')),
  },
  {
    ...fromAgent,
    description:
      'Lists the subagents of this agent, ended ones too. Where no message may hold them, the newest, with short texts and without metadata.',
  },
);

const SubagentSummary = shape('A subagent.', {
  subagent_id: id,
  name: mayText('For people.'),
  status: mayText(STATUS),
  role: mayText('Its purpose.'),
  model: mayText('The model.'),
  kind: mayText('Its kind.'),
  backend: mayText('Its backend: function, command, …'),
  parent_agent_id: mayText('The agent that made it.'),
  root_agent_id: mayText('The agent at the top.'),
  depth: may(count('1 below an agent, one more below each subagent.')),
  open: may(flag('True while it takes tasks.')),
  task: mayText('The name of its last task.'),
  created_at: may(number('Epoch seconds.')),
  ended_at: may(number('Epoch seconds; 0 while it is open.')),
  session_id: mayText('Its session on this host; empty without one.'),
  control_session_id: mayText('The session of session RPC whose turns are its tasks.'),
  waiting: may(flag('True while its task waits for a person.')),
  usage: may(SubagentUsage),
  metadata,
});

const MultiAgentListResp = object(
  {
    ...answer,
    type: Literal('multi_agent/list/resp'),
    subagents: Type.Array(SubagentSummary, { description: 'Oldest first.' }),
  },
  { ...fromHost, description: 'The subagents.' },
);

const MultiAgentTerminate = object(
  { ...base, type: Literal('multi_agent/terminate'), subagent_id: id },
  { ...fromAgent, description: 'Ends a subagent, and all below it. Its results stay.' },
);

const MultiAgentTerminateResp = object(
  {
    ...answer,
    type: Literal('multi_agent/terminate/resp'),
    success: flag('False: it had ended already.'),
    subagent_id: id,
  },
  { ...fromHost, description: 'It has ended.' },
);

// Messages that A2E 1.0 does not have.

const SubagentKind = shape('A kind of subagent.', {
  kind: text('Its name.'),
  about: text('Its purpose.'),
  backend: text('function, command, or what else runs it.'),
});
const MultiAgentKindsReq = object(
  { ...base, type: Literal('multi_agent/kinds/req') },
  { ...fromAgent, description: 'Lists the kinds of subagents that this agent may make.' },
);
const MultiAgentKindsResp = object(
  {
    ...answer,
    type: Literal('multi_agent/kinds/resp'),
    kinds: Type.Array(SubagentKind, { description: 'The first is the default.' }),
  },
  { ...fromHost, description: 'The kinds.' },
);
const MultiAgentCancelReq = object(
  { ...base, type: Literal('multi_agent/cancel/req'), subagent_id: id },
  { ...fromAgent, description: 'Ends the task of a subagent, which then takes another.' },
);
const MultiAgentCancelResp = object(
  {
    ...answer,
    type: Literal('multi_agent/cancel/resp'),
    success: flag('False: it had no task.'),
    subagent_id: id,
  },
  { ...fromHost, description: 'It has no task.' },
);

const MultiAgentTaskReq = object(
  {
    ...base,
    type: Literal('multi_agent/task/req'),
    wait_seconds: may(
      Type.Number({ minimum: 0, description: 'Longest wait; then task is null. Default: without end.' }),
    ),
  },
  { ...fromAgent, description: 'Of a subagent that runs outside of the host: waits for its next task.' },
);
const SubagentWork = shape('A task as its subagent gets it.', {
  task_id: text('The task.'),
  name: text('A short name.'),
  instruction: text('The work to do.'),
  success_criteria: texts('When it is done.'),
  result_schema: may(anyObject('JSON Schema that the result must fit.')),
  metadata: anyObject('Free facts.'),
  role: text('The purpose of the subagent.'),
  model: text('The model that was asked for.'),
  system_prompt: text('Instructions for all its tasks.'),
  max_steps: Type.Integer({ description: 'Steps after which it ends.' }),
  seconds_left: orNull(number('Time until it ends; null: none.')),
  tokens_left: orNull(number('The tokens it may spend; null: no limit.')),
});
const MultiAgentTaskResp = object(
  { ...answer, type: Literal('multi_agent/task/resp'), task: orNull(SubagentWork) },
  { ...fromHost, description: 'The task; null: none came.' },
);
const MultiAgentProgressReq = object(
  {
    ...base,
    type: Literal('multi_agent/progress/req'),
    task_id: text('The task.'),
    message: mayText('For people.'),
    percent: may(Type.Number({ minimum: 0, maximum: 100, description: 'How far it is.' })),
    tokens: may(Type.Number({ minimum: 0, description: 'Tokens of this task so far: a total.' })),
    cost_usd: may(Type.Number({ minimum: 0, description: 'Cost of this task so far: a total.' })),
    steps: may(count('Steps of this task so far that are no requests of this host: a total.')),
  },
  { ...fromAgent, description: 'Of a subagent: the progress of its task, and its usage.' },
);
const MultiAgentProgressResp = object(
  { ...answer, type: Literal('multi_agent/progress/resp'), ended: flag('True: the task has ended; stop.') },
  { ...fromHost, description: 'Noted.' },
);
const MultiAgentFinishReq = object(
  {
    ...base,
    type: Literal('multi_agent/finish/req'),
    task_id: text('The task.'),
    result: may(Type.Unknown({ description: 'An object; any other value becomes one.' })),
    error: may(orNull(text('Why it failed.'))),
    score: may(number('How good the result is.')),
  },
  { ...fromAgent, description: 'Of a subagent: its task has ended.' },
);
const MultiAgentFinishResp = object(
  { ...answer, type: Literal('multi_agent/finish/resp'), accepted: flag('False: the task had ended before.') },
  { ...fromHost, description: 'Noted.' },
);

const STRATEGIES = ['concat', 'vote', 'first_success', 'best_by_score', 'tool'] as const;
const MultiAgentMergeReq = object(
  {
    ...base,
    type: Literal('multi_agent/merge/req'),
    subagent_ids: texts('The subagents whose last results are merged, in this order.'),
    strategy: may(
      oneOf(
        STRATEGIES,
        'concat: all, in order. vote: the commonest. first_success: the first that completed. best_by_score: that with the highest score. tool: what the tool makes of them. Default concat.',
      ),
    ),
    field: mayText('The member of the results that is compared by vote. Default: the whole result.'),
    tool: mayText('With tool: its name. It is called with the rights of this agent and the argument results.'),
    wait: may(flag('False: tasks that run are left out. Default true: until each has ended.')),
  },
  { ...fromAgent, description: 'Makes one result of those of several subagents.' },
);
const MultiAgentMergeResp = object(
  {
    ...answer,
    type: Literal('multi_agent/merge/resp'),
    result: orNull(anyObject('The result; null: none of them completed.')),
    from: texts('The subagents whose results are in it.'),
    failed: texts('Those without a result.'),
  },
  { ...fromHost, description: 'The results as one.' },
);

const MultiAgentMessageReq = object(
  {
    ...base,
    type: Literal('multi_agent/message/req'),
    to: text('A subagent of this agent, one with the same parent, or empty: the agent above.'),
    message: SubagentMessage,
  },
  { ...fromAgent, description: 'Sends a message to a subagent, or to the agent above.' },
);
const MultiAgentMessageResp = object(
  { ...answer, type: Literal('multi_agent/message/resp'), delivered: flag('False: it has ended.') },
  { ...fromHost, description: 'Whether it has the message.' },
);
const MultiAgentMessagePush = object(
  {
    ...answer,
    type: Literal('multi_agent/message/push'),
    from: text('The subagent that sent it; empty: the agent above.'),
    message: SubagentMessage,
  },
  { ...fromHost, description: 'A message of another agent, in the order of that agent.' },
);

const ChannelMessage = shape('A message of a channel.', {
  seq: count('Its place in the channel, from 1.'),
  from: text('The subagent that sent it; empty: the agent that made the channel.'),
  at: number('Epoch seconds.'),
  message: SubagentMessage,
});
const channelName = text('The channel: of the agent that asks, or one that it is a member of.');
const MultiAgentChannelReq = object(
  {
    ...base,
    type: Literal('multi_agent/channel/req'),
    channel: channelName,
    members: may(texts('Subagents of this agent that are to be its members from now on.')),
    close: may(flag('Ends the channel.')),
  },
  { ...fromAgent, description: 'Makes a channel of this agent, changes who is in it, or ends it.' },
);
const MultiAgentChannelResp = object(
  {
    ...answer,
    type: Literal('multi_agent/channel/resp'),
    channel: channelName,
    members: texts('Its members.'),
    last_seq: count('Its last message; 0: none.'),
  },
  { ...fromHost, description: 'The channel.' },
);
const MultiAgentSayReq = object(
  { ...base, type: Literal('multi_agent/say/req'), channel: channelName, message: SubagentMessage },
  { ...fromAgent, description: 'Sends a message to all in a channel.' },
);
const MultiAgentSayResp = object(
  { ...answer, type: Literal('multi_agent/say/resp'), seq: count('Its place in the channel.') },
  { ...fromHost, description: 'It has its place.' },
);
const MultiAgentHistoryReq = object(
  {
    ...base,
    type: Literal('multi_agent/history/req'),
    channel: channelName,
    after: may(count('Messages behind this one. Default 0.')),
    limit: may(count('At most so many, and as many as a message may hold. Default 100.')),
  },
  { ...fromAgent, description: 'Reads the messages of a channel, also those before one was a member.' },
);
const MultiAgentHistoryResp = object(
  {
    ...answer,
    type: Literal('multi_agent/history/resp'),
    messages: Type.Array(ChannelMessage, { description: 'In their order.' }),
    last_seq: count('The last message of the channel.'),
  },
  { ...fromHost, description: 'The messages.' },
);
const MultiAgentSaidPush = object(
  { ...answer, type: Literal('multi_agent/said/push'), channel: channelName, said: ChannelMessage },
  { ...fromHost, description: 'A message in a channel of this agent, in the order of the channel.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const multi_agentSchemas = {
  MultiAgentSpawn,
  MultiAgentSpawnResp,
  MultiAgentDelegate,
  MultiAgentDelegateResp,
  MultiAgentAwait,
  MultiAgentAwaitResp,
  MultiAgentList,
  MultiAgentListResp,
  MultiAgentTerminate,
  MultiAgentTerminateResp,
  SubagentSummary,
  SubagentBudget,
  SubagentUsage,
  SubagentSpawnReq: upperCase.SubagentSpawnReq,
  SubagentSpawnResp: upperCase.SubagentSpawnResp,
  SubagentDelegateReq: upperCase.SubagentDelegateReq,
  SubagentDelegateResp: upperCase.SubagentDelegateResp,
  SubagentAwaitReq: upperCase.SubagentAwaitReq,
  SubagentAwaitResp: upperCase.SubagentAwaitResp,
  SubagentMessageReq: upperCase.SubagentMessageReq,
  SubagentMessageResp: upperCase.SubagentMessageResp,
  SubagentListReq: upperCase.SubagentListReq,
  SubagentListResp: upperCase.SubagentListResp,
  SubagentCancelReq: upperCase.SubagentCancelReq,
  SubagentTerminateReq: upperCase.SubagentTerminateReq,
  SubagentMergeReq: upperCase.SubagentMergeReq,
  SubagentMergeResp: upperCase.SubagentMergeResp,
  SubagentEvent: upperCase.SubagentEvent,
  SubagentConfig: upperCase.SubagentConfig,
  SubagentTask: upperCase.SubagentTask,
  SubagentInfo: upperCase.SubagentInfo,
  SubagentMessage,
  MultiAgentKindsReq,
  MultiAgentKindsResp,
  SubagentKind,
  MultiAgentCancelReq,
  MultiAgentCancelResp,
  MultiAgentTaskReq,
  MultiAgentTaskResp,
  SubagentWork,
  MultiAgentProgressReq,
  MultiAgentProgressResp,
  MultiAgentFinishReq,
  MultiAgentFinishResp,
  MultiAgentMergeReq,
  MultiAgentMergeResp,
  MultiAgentMessageReq,
  MultiAgentMessageResp,
  MultiAgentMessagePush,
  MultiAgentChannelReq,
  MultiAgentChannelResp,
  MultiAgentSayReq,
  MultiAgentSayResp,
  MultiAgentHistoryReq,
  MultiAgentHistoryResp,
  MultiAgentSaidPush,
  ChannelMessage,
};

export type MultiAgentAwait = Static<typeof MultiAgentAwait>;
export type MultiAgentAwaitResp = Static<typeof MultiAgentAwaitResp>;
export type MultiAgentCancelReq = Static<typeof MultiAgentCancelReq>;
export type MultiAgentCancelResp = Static<typeof MultiAgentCancelResp>;
export type MultiAgentDelegate = Static<typeof MultiAgentDelegate>;
export type MultiAgentDelegateResp = Static<typeof MultiAgentDelegateResp>;
export type MultiAgentFinishReq = Static<typeof MultiAgentFinishReq>;
export type MultiAgentFinishResp = Static<typeof MultiAgentFinishResp>;
export type MultiAgentKindsReq = Static<typeof MultiAgentKindsReq>;
export type MultiAgentKindsResp = Static<typeof MultiAgentKindsResp>;
export type MultiAgentList = Static<typeof MultiAgentList>;
export type MultiAgentListResp = Static<typeof MultiAgentListResp>;
export type MultiAgentProgressReq = Static<typeof MultiAgentProgressReq>;
export type MultiAgentProgressResp = Static<typeof MultiAgentProgressResp>;
export type MultiAgentSpawn = Static<typeof MultiAgentSpawn>;
export type MultiAgentSpawnResp = Static<typeof MultiAgentSpawnResp>;
export type MultiAgentTaskReq = Static<typeof MultiAgentTaskReq>;
export type MultiAgentTaskResp = Static<typeof MultiAgentTaskResp>;
export type MultiAgentTerminate = Static<typeof MultiAgentTerminate>;
export type MultiAgentTerminateResp = Static<typeof MultiAgentTerminateResp>;
export type SubagentKind = Static<typeof SubagentKind>;
export type SubagentSummary = Static<typeof SubagentSummary>;
export type SubagentWork = Static<typeof SubagentWork>;
export type MultiAgentMergeReq = Static<typeof MultiAgentMergeReq>;
export type MultiAgentMergeResp = Static<typeof MultiAgentMergeResp>;
export type MultiAgentMessageReq = Static<typeof MultiAgentMessageReq>;
export type MultiAgentMessageResp = Static<typeof MultiAgentMessageResp>;
export type MultiAgentMessagePush = Static<typeof MultiAgentMessagePush>;
export type MultiAgentChannelReq = Static<typeof MultiAgentChannelReq>;
export type MultiAgentChannelResp = Static<typeof MultiAgentChannelResp>;
export type MultiAgentSayReq = Static<typeof MultiAgentSayReq>;
export type MultiAgentSayResp = Static<typeof MultiAgentSayResp>;
export type MultiAgentHistoryReq = Static<typeof MultiAgentHistoryReq>;
export type MultiAgentHistoryResp = Static<typeof MultiAgentHistoryResp>;
export type MultiAgentSaidPush = Static<typeof MultiAgentSaidPush>;
export type ChannelMessage = Static<typeof ChannelMessage>;

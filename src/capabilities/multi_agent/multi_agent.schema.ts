/**
 * The messages of the multi_agent capability as schemas. `messages.ts` makes method values of them.
 *
 * The five pairs of A2E 1.0 come first, then the `SUBAGENT_*` forms, whose requests may come without an id. Fields that A2E 1.0
 * does not have are optional; further requests end in `/req`.
 * @see docs/multi-agent.md
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const { Literal, Object: object } = Type;
const mayText = (description: string) => may(text(description));
const count = (description: string) => Type.Integer({ minimum: 0, description });
const texts = (description: string) => Type.Array(Type.String(), { description });
const seconds = (description: string) => Type.Number({ exclusiveMinimum: 0, description });
const id = text('The subagent.');
const STATUS = 'READY, RUNNING, COMPLETED, FAILED or TERMINATED.';
const status = text(STATUS);
const metadata = may(anyObject('Free facts; the host does not read them.'));
const SubagentBudget = shape('What a subagent and all below it may spend. Left out: as much as its parent has left.', {
  tokens: may(Type.Number({ minimum: 0, description: 'Tokens, as its backend reports them.' })),
  cost_usd: may(Type.Number({ minimum: 0, description: 'Cost, as its backend reports it.' })),
});

const SubagentUsage = shape('What was spent.', {
  tokens: number('Tokens that were reported.'),
  cost_usd: number('Cost that was reported.'),
  steps: count('Requests that the subagent made of this host, with the steps that its backend reported.'),
  duration_ms: count('How long it took.'),
});

const MultiAgentSpawn = object(
  {
    ...base,
    type: Literal('multi_agent/spawn'),
    name: text('For people.'),
    role: mayText('What it is for; its backend gets it.'),
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
    instruction: text('What to do.'),
    success_criteria: may(texts('When it is done.')),
    metadata,
    timeout_seconds: may(seconds('Longest time of this task.')),
  },
  { ...fromAgent, description: 'Gives a subagent a task. It has one at a time.' },
);

const Refusal = shape('Why it was refused.', {
  code: text('See docs/multi-agent.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts; row names the row of docs/errors.md.')),
});

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
  },
  { ...fromAgent, description: 'Waits until the task of a subagent has ended.' },
);

/** What came of a task; both forms of the answer have it. */
const outcome = {
  result: may(orNull(anyObject('What the task has given; null without a result.'))),
  error: may(orNull(text('Why it failed; null: it did not.'))),
};
const moreOfOutcome = {
  task_id: mayText('The task.'),
  code: mayText('The code of the error.'),
  score: may(number('How good the subagent finds its result.')),
  usage: may(SubagentUsage),
  verified: may(oneOf(['yes', 'no', 'not_checked'], 'What came of checking the changes that the result names.')),
};

const MultiAgentAwaitResp = object(
  { ...answer, type: Literal('multi_agent/await/resp'), subagent_id: id, status, ...outcome, ...moreOfOutcome },
  { ...fromHost, description: 'What came of the task.' },
);

const MultiAgentList = object(
  {
    ...base,
    type: Literal('multi_agent/list'),
    all: may(flag('With those of subagents, as deep as they go. Default false.')),
  },
  { ...fromAgent, description: 'Lists the subagents of this agent, ended ones too.' },
);

const SubagentSummary = shape('A subagent.', {
  subagent_id: id,
  name: mayText('For people.'),
  status: mayText(STATUS),
  role: mayText('What it is for.'),
  model: mayText('The model.'),
  kind: mayText('Its kind.'),
  backend: mayText('What runs it: function, command, …'),
  parent_agent_id: mayText('The agent that made it.'),
  root_agent_id: mayText('The agent at the top.'),
  depth: may(count('1 below an agent, one more below each subagent.')),
  open: may(flag('True while it takes tasks.')),
  task: mayText('The name of its last task.'),
  created_at: may(number('Epoch seconds.')),
  ended_at: may(number('Epoch seconds; 0 while it is open.')),
  session_id: mayText('Its session on this host; empty without one.'),
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

// The forms of A2E 1.0 without base fields. What is missing is accepted; answers have all of them.

const bare = { ...base, id: may(Type.String({ description: 'May be missing; the answer then has an empty req_id.' })) };
const SUBAGENT_STATUS = 'READY, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED or TERMINATED.';
const subagentStatus = text(SUBAGENT_STATUS);

const SubagentConfig = shape('How a subagent is to be.', {
  name: text('For people.'),
  role: may(orNull(text('What it is for.'))),
  model: text('As in multi_agent/spawn.'),
  system_prompt: may(orNull(text('Instructions for all its tasks.'))),
  capabilities: may(texts('Capabilities that it may use; none: all that may be delegated.')),
  memory_scope: may(oneOf(['shared', 'isolated', 'snapshot'], 'snapshot is refused. Default shared.')),
  tool_scope: may(oneOf(['shared', 'restricted', 'isolated'], 'As in multi_agent/spawn. Default restricted.')),
  max_steps: may(Type.Integer({ description: 'Default 40.' })),
  timeout_seconds: may(Type.Number({ description: 'Default 600.' })),
  metadata,
});

const SubagentTask = shape('A task.', {
  name: text('A short name.'),
  instruction: text('What to do.'),
  success_criteria: may(texts('When it is done.')),
  metadata,
});

const SubagentSpawnReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_SPAWN_REQ'),
    agent: SubagentConfig,
    parent_agent_id: may(orNull(text('Not believed: the parent is the agent that asks.'))),
    root_agent_id: may(orNull(text('Not believed either.'))),
  },
  { ...fromAgent, description: 'As multi_agent/spawn.' },
);
const SubagentSpawnResp = object(
  { ...answer, type: Literal('SUBAGENT_SPAWN_RESP'), subagent_id: id, status: subagentStatus },
  { ...fromHost, description: 'The subagent.' },
);
const SubagentDelegateReq = object(
  { ...bare, type: Literal('SUBAGENT_DELEGATE_REQ'), subagent_id: id, task: SubagentTask },
  { ...fromAgent, description: 'As multi_agent/delegate.' },
);
const SubagentDelegateResp = object(
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
const SubagentAwaitReq = object(
  { ...bare, type: Literal('SUBAGENT_AWAIT_REQ'), subagent_id: id },
  { ...fromAgent, description: 'As multi_agent/await.' },
);
const SubagentAwaitResp = object(
  {
    ...answer,
    type: Literal('SUBAGENT_AWAIT_RESP'),
    subagent_id: id,
    status: subagentStatus,
    ...outcome,
    ...moreOfOutcome,
  },
  { ...fromHost, description: 'What came of the task.' },
);
const SubagentMessage = shape('What one says to another.', {
  type: text('What it is, e.g. note.'),
  content: Type.Unknown({ description: 'Any JSON.' }),
});
const SubagentMessageReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_MESSAGE_REQ'),
    from_subagent_id: text('Must be the agent that asks, or empty.'),
    to_subagent_id: text('A subagent of this agent, one with the same parent, or parent.'),
    message: SubagentMessage,
  },
  { ...fromAgent, description: 'Sends a message to a subagent, or to the agent above.' },
);
const SubagentMessageResp = object(
  { ...answer, type: Literal('SUBAGENT_MESSAGE_RESP'), delivered: flag('False: it has ended.') },
  { ...fromHost, description: 'Whether it has the message.' },
);
const SubagentListReq = object(
  { ...bare, type: Literal('SUBAGENT_LIST_REQ') },
  { ...fromAgent, description: 'As multi_agent/list.' },
);
const SubagentInfo = shape('A subagent.', {
  subagent_id: id,
  name: text('For people.'),
  status: subagentStatus,
  parent_agent_id: may(orNull(text('The agent that made it.'))),
  root_agent_id: may(orNull(text('The agent at the top.'))),
  depth: may(count('1 below an agent.')),
  config: SubagentConfig,
});
const SubagentListResp = object(
  {
    ...answer,
    type: Literal('SUBAGENT_LIST_RESP'),
    subagents: Type.Array(SubagentInfo, { description: 'Oldest first.' }),
  },
  { ...fromHost, description: 'The subagents.' },
);
const SubagentCancelReq = object(
  { ...bare, type: Literal('SUBAGENT_CANCEL_REQ'), subagent_id: id },
  { ...fromAgent, description: 'Ends the task of a subagent, which then takes another. Answered by SUBAGENT_EVENT.' },
);
const SubagentTerminateReq = object(
  { ...bare, type: Literal('SUBAGENT_TERMINATE_REQ'), subagent_id: id },
  { ...fromAgent, description: 'As multi_agent/terminate. Answered by SUBAGENT_EVENT.' },
);
const SubagentMergeReq = object(
  {
    ...bare,
    type: Literal('SUBAGENT_MERGE_REQ'),
    subagent_ids: texts('Whose last results.'),
    strategy: may(
      text(
        'hierarchical_summary, voting, custom, concat, vote, first_success or best_by_score. Default hierarchical_summary.',
      ),
    ),
    tool: mayText('With custom: the tool that merges.'),
  },
  { ...fromAgent, description: 'As multi_agent/merge/req.' },
);
const SubagentMergeResp = object(
  { ...answer, type: Literal('SUBAGENT_MERGE_RESP'), merged_result: anyObject('What came of it.') },
  { ...fromHost, description: 'The results as one.' },
);
const SubagentEvent = object(
  {
    ...answer,
    type: Literal('SUBAGENT_EVENT'),
    subagent_id: id,
    event: text('started, progress, message, completed, failed, cancelled or terminated.'),
    content: may(anyObject('What happened.')),
  },
  {
    ...fromHost,
    description:
      'Something happened to a subagent of this agent, or to one below it. Of no request, but for the answer to SUBAGENT_CANCEL_REQ and SUBAGENT_TERMINATE_REQ.',
  },
);

// What A2E 1.0 does not have.

const SubagentKind = shape('A kind of subagent.', {
  kind: text('Its name.'),
  about: text('What it is for.'),
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
  instruction: text('What to do.'),
  success_criteria: texts('When it is done.'),
  metadata: anyObject('Free facts.'),
  role: text('What the subagent is for.'),
  model: text('The model that was asked for.'),
  system_prompt: text('Instructions for all its tasks.'),
  max_steps: Type.Integer({ description: 'Steps after which it ends.' }),
  seconds_left: orNull(number('Time until it ends; null: none.')),
  tokens_left: orNull(number('What it may spend; null: no limit.')),
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
  { ...fromAgent, description: 'Of a subagent: how its task goes, and what it has spent.' },
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
    subagent_ids: texts('Whose last results, in this order.'),
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
    limit: may(count('At most so many. Default 100.')),
  },
  { ...fromAgent, description: 'Reads what was said in a channel, also before one was a member.' },
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
  SubagentSpawnReq,
  SubagentSpawnResp,
  SubagentDelegateReq,
  SubagentDelegateResp,
  SubagentAwaitReq,
  SubagentAwaitResp,
  SubagentMessageReq,
  SubagentMessageResp,
  SubagentListReq,
  SubagentListResp,
  SubagentCancelReq,
  SubagentTerminateReq,
  SubagentMergeReq,
  SubagentMergeResp,
  SubagentEvent,
  SubagentConfig,
  SubagentTask,
  SubagentInfo,
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
export type SubagentAwaitReq = Static<typeof SubagentAwaitReq>;
export type SubagentAwaitResp = Static<typeof SubagentAwaitResp>;
export type SubagentBudget = Static<typeof SubagentBudget>;
export type SubagentCancelReq = Static<typeof SubagentCancelReq>;
export type SubagentConfig = Static<typeof SubagentConfig>;
export type SubagentDelegateReq = Static<typeof SubagentDelegateReq>;
export type SubagentDelegateResp = Static<typeof SubagentDelegateResp>;
export type SubagentEvent = Static<typeof SubagentEvent>;
export type SubagentInfo = Static<typeof SubagentInfo>;
export type SubagentKind = Static<typeof SubagentKind>;
export type SubagentListReq = Static<typeof SubagentListReq>;
export type SubagentListResp = Static<typeof SubagentListResp>;
export type SubagentMergeReq = Static<typeof SubagentMergeReq>;
export type SubagentMergeResp = Static<typeof SubagentMergeResp>;
export type SubagentMessage = Static<typeof SubagentMessage>;
export type SubagentMessageReq = Static<typeof SubagentMessageReq>;
export type SubagentMessageResp = Static<typeof SubagentMessageResp>;
export type SubagentSpawnReq = Static<typeof SubagentSpawnReq>;
export type SubagentSpawnResp = Static<typeof SubagentSpawnResp>;
export type SubagentSummary = Static<typeof SubagentSummary>;
export type SubagentTask = Static<typeof SubagentTask>;
export type SubagentTerminateReq = Static<typeof SubagentTerminateReq>;
export type SubagentUsage = Static<typeof SubagentUsage>;
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

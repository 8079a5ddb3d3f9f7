/**
 * The messages of the chains capability as schemas.
 *
 * The pair of A2E 1.0 and its event come first. Fields that A2E 1.0 does not have are optional, and so are the further
 * messages.
 * @see docs/chains.md
 */
import { answer, base, eventFields, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, orNull, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';
import {
  Budget,
  ChainApproval,
  ChainEntry,
  ChainError,
  ChainFailure,
  ChainNode,
  ChainProblem,
  ChainRef,
  ChainRun,
  ChainUsage,
  FailedItem,
  integer,
  Jmespath,
  mayFlag,
  mayInteger,
  mayText,
  NodeState,
  nodes,
  RetryPolicy,
  runMembers,
  Sample,
  StoredChain,
  WaitFor,
} from './records.schema.ts';

const { Array: list, Literal, Object: object, Unknown: unknown } = Type;
const chainId = text('The run.');

/** Members that select a chain: its nodes, or a stored one. */
const whichChain = {
  nodes: may(nodes('ChainNode objects.')),
  chain: may(ChainRef),
  ...runMembers,
};

const ChainReq = object(
  {
    ...base,
    type: Literal('chain/req'),
    session_id: mayText('Of A2E 1.0; the session is that of the link.'),
    chain_id: mayText('The id of the run. Default: generated.'),
    ...whichChain,
    initial_input: may(anyObject('The fields that expressions see, `$.name` or `$.input.name`.')),
    correlation_id: mayText('Free text of the caller; journaled with the request.'),
    streaming: may(flag('Ask for chain/event messages. Default true.')),
    durable: mayFlag(
      'Journal the run, so that it continues after the host was killed. Default: as the host is configured.',
    ),
  },
  { ...fromAgent, description: 'Runs a chain: its nodes, or a stored one.' },
);

const ChainEvent = object(
  {
    ...eventFields,
    type: Literal('chain/event'),
    node_id: mayText('The node; empty: the run itself.'),
    phase: mayText('start, done, skip, error; with additions progress, retry, wait, pause, resume, compensate.'),
    output: may(unknown({ description: 'With done: the output of the node.' })),
    error: mayText('With error and retry: what failed.'),
  },
  {
    ...fromHost,
    description:
      'Something that happened to a node. data has what the phase needs: attempt, index (item of a map), delay_ms, code, waits_for; of progress message, pct, tokens, usd. left_out: output is null because no message may hold it.',
  },
);

const ChainResp = object(
  {
    ...answer,
    type: Literal('chain/resp'),
    chain_id: may(text('The run.')),
    success: may(flag('No node failed, and the chain is valid.')),
    outputs: may(anyObject('Outputs by node; null for a node that failed.')),
    final_output: may(
      unknown({
        description: 'The output of the last node; of a graph with several last nodes, their outputs by node.',
      }),
    ),
    duration_ms: may(integer('Whole milliseconds.')),
    nodes_run: may(integer('How many outputs there are.')),
    error: may(orNull(ChainError)),
    state: mayText('The state of the run: done, failed, cancelled, paused.'),
    usage: may(ChainUsage),
    failures: may(
      list(ChainFailure, {
        description:
          'Nodes that failed, and maps with items that failed, the first 20. Absent: no node and no item failed.',
      }),
    ),
    left_out: may(
      list(Type.String(), {
        description:
          'outputs, and final_output, where no message of this session may hold them: they are empty. chain/status has outputs in pages.',
      }),
    ),
  },
  { ...fromHost, description: 'The result of a run. A run that failed has success false and an error.' },
);

// Messages that A2E 1.0 does not have.

const ChainCheckReq = object(
  {
    ...base,
    type: Literal('chain/check/req'),
    ...whichChain,
    initial_input: may(anyObject('With samples: the input of the dry run.')),
    samples: may(anyObject('Outputs by node: a dry run evaluates every expression with them, and no node runs.')),
  },
  { ...fromAgent, description: 'Checks a chain against the tools of this session and, with samples, dry-runs it.' },
);
const ChainCheckResp = object(
  {
    ...answer,
    type: Literal('chain/check/resp'),
    ok: flag('There are no problems.'),
    problems: list(ChainProblem, { description: 'All problems that were found, at most 100.' }),
    mode: text('walk: along next_node. graph: by after.'),
    nodes_total: integer('Nodes of the chain.'),
    depth: integer('Nodes on the longest path.'),
    samples: may(list(Sample, { description: 'The dry run, in the order of the nodes.' })),
  },
  { ...fromHost, description: 'The problems that were found.' },
);

const ChainPutReq = object(
  {
    ...base,
    type: Literal('chain/put/req'),
    name: text('Letters, digits, _, . and -, 128 at most.'),
    description: mayText('For people and models.'),
    nodes: nodes('ChainNode objects.'),
    ...runMembers,
    if_version: mayInteger('Fails with chains.conflict unless this is the newest version; 0: there is none.'),
  },
  {
    ...fromAgent,
    description: 'Stores a chain as the next version of its name. The same definition as the newest makes no new one.',
  },
);
const storedReply = (type: string, description: string) =>
  object({ ...answer, type: Literal(type), chain: StoredChain }, { ...fromHost, description });
const ChainPutResp = object(
  {
    ...answer,
    type: Literal('chain/put/resp'),
    chain: StoredChain,
    created: flag('False: the newest version was the same already.'),
  },
  { ...fromHost, description: 'The stored chain.' },
);

const ChainGetReq = object(
  {
    ...base,
    type: Literal('chain/get/req'),
    name: text('The chain.'),
    chain_version: mayInteger('Default: the newest.', 1),
  },
  { ...fromAgent, description: 'Reads a stored chain.' },
);
const ChainGetResp = storedReply('chain/get/resp', 'The chain.');

const paging = {
  after: mayText('Only what is behind this one: next of the page before.'),
  limit: mayInteger('Entries at most, default 100; 1,000 at most.', 1),
};
const next = mayText('Where the next page starts; absent: there is none.');

const ChainListReq = object(
  {
    ...base,
    type: Literal('chain/list/req'),
    name: mayText('All versions of this chain, the newest first. Empty: the newest version of each chain, by name.'),
    ...paging,
  },
  { ...fromAgent, description: 'Lists stored chains.' },
);
const ChainListResp = object(
  { ...answer, type: Literal('chain/list/resp'), chains: list(StoredChain, { description: 'Without nodes.' }), next },
  { ...fromHost, description: 'The chains.' },
);

const ChainRemoveReq = object(
  {
    ...base,
    type: Literal('chain/remove/req'),
    name: text('The chain.'),
    chain_version: mayInteger('Default: all versions.', 1),
  },
  { ...fromAgent, description: 'Removes a stored chain or one version of it. Runs of it keep their own.' },
);
const ChainRemoveResp = object(
  { ...answer, type: Literal('chain/remove/resp'), versions: integer('How many versions were removed.') },
  { ...fromHost, description: 'The removal of the versions.' },
);

const ChainRunsReq = object(
  {
    ...base,
    type: Literal('chain/runs/req'),
    state: mayText('Only runs in this state.'),
    name: mayText('Only runs of this stored chain.'),
    ...paging,
  },
  { ...fromAgent, description: 'Lists the runs of this principal, the newest first.' },
);
const ChainRunsResp = object(
  { ...answer, type: Literal('chain/runs/resp'), runs: list(ChainRun, { description: 'The runs.' }), next },
  { ...fromHost, description: 'The runs.' },
);

const ChainStatusReq = object(
  {
    ...base,
    type: Literal('chain/status/req'),
    chain_id: chainId,
    definition: mayFlag('Also the nodes of the chain, e.g. to draw it.'),
    outputs: mayFlag('Also the outputs so far.'),
    from: mayInteger('The first node, by its place in the definition from 0: next of the page before. Default 0.'),
  },
  { ...fromAgent, description: 'Reads the state of a run and of its nodes, as many as a message may hold.' },
);
const ChainStatusResp = object(
  {
    ...answer,
    type: Literal('chain/status/resp'),
    run: ChainRun,
    nodes: list(NodeState, { description: 'Its nodes, in the order of the definition.' }),
    definition: may(nodes('ChainNode objects of the same nodes.')),
    entry_node: mayText('Of the definition.'),
    outputs: may(anyObject('Outputs of the same nodes.')),
    left_out: may(list(Type.String(), { description: 'Nodes whose output no message may hold.' })),
    next: mayInteger('The from of the next page; absent: there is none.'),
  },
  { ...fromHost, description: 'The run.' },
);

const ChainHistoryReq = object(
  {
    ...base,
    type: Literal('chain/history/req'),
    chain_id: chainId,
    after: mayInteger('Only entries with a higher seq. Default 0.'),
    node_id: mayText('Only of this node.'),
    limit: mayInteger('Entries at most, default 100; 1,000 at most.', 1),
  },
  { ...fromAgent, description: 'Reads the history of a durable run, oldest first.' },
);
const ChainHistoryResp = object(
  {
    ...answer,
    type: Literal('chain/history/resp'),
    entries: list(ChainEntry, { description: 'The entries.' }),
    next: integer('The after of the next page; 0: there is none.'),
  },
  { ...fromHost, description: 'The entries.' },
);

const ChainWatchReq = object(
  { ...base, type: Literal('chain/watch/req'), chain_id: chainId },
  {
    ...fromAgent,
    description: 'Sends chain/event messages of a run from now on until it stops; the reply is its result.',
  },
);
const resultReply = (type: string, description: string) =>
  object({ ...ChainResp.properties, type: Literal(type) }, { ...fromHost, description });
const ChainWatchResp = resultReply('chain/watch/resp', 'The result of the run, as in chain/resp.');

const runReply = (type: string, description: string) =>
  object({ ...answer, type: Literal(type), run: ChainRun }, { ...fromHost, description });

const ChainPauseReq = object(
  { ...base, type: Literal('chain/pause/req'), chain_id: chainId },
  { ...fromAgent, description: 'Pauses a run: running nodes end, no further one starts.' },
);
const ChainPauseResp = runReply('chain/pause/resp', 'The run as it is now.');

const decisions = {
  rerun: may(list(Type.String(), { description: 'Nodes that may have run and are not idempotent: run these again.' })),
  skip: may(
    list(Type.String(), {
      description:
        'Nodes that may have run and are not idempotent: do not run these again. Their output is null; they are undone as nodes that ran.',
    }),
  ),
  done: may(
    anyObject(
      'Nodes that may have run and did: their outputs by node; of a map an object with the outputs of its items that may have run, by their places from 0.',
    ),
  ),
  timeout: may(
    Type.Number({ minimum: 0, description: 'Longest run from now on, in seconds. Default: that of the chain.' }),
  ),
  budget: may(Budget),
};
const ChainResumeReq = object(
  { ...base, type: Literal('chain/resume/req'), chain_id: chainId, ...decisions },
  {
    ...fromAgent,
    description:
      'Continues a run that was interrupted, paused or cancelled, or ran out of time or budget, as this request: with the rights of its session. Nodes that ended do not run again. Fails with chains.uncertain for nodes that may have run and are not idempotent, unless rerun, skip or done has them.',
  },
);
const ChainResumeResp = resultReply('chain/resume/resp', 'The result, as in chain/resp, once the run stops.');

const ChainRetryReq = object(
  {
    ...base,
    type: Literal('chain/retry/req'),
    chain_id: chainId,
    node_id: text('The node to start from; it and all behind it run again. Outputs of other nodes stay.'),
    ...decisions,
  },
  { ...fromAgent, description: 'Runs a chain that has stopped again from a node on, as chain/resume/req does.' },
);
const ChainRetryResp = resultReply('chain/retry/resp', 'The result, as in chain/resp, once the run stops.');

const ChainCancelReq = object(
  { ...base, type: Literal('chain/cancel/req'), chain_id: chainId, reason: mayText('Why, for people.') },
  {
    ...fromAgent,
    description:
      'Ends a run: running nodes are cancelled. Where one of them says on_error compensate, the run undoes its finished nodes before the reply.',
  },
);
const ChainCancelResp = runReply('chain/cancel/resp', 'The run as it is now.');

const ChainApproveReq = object(
  {
    ...base,
    type: Literal('chain/approve/req'),
    chain_id: chainId,
    node_id: text('The wait node that asks.'),
    approved: flag('False: the node fails with denied.'),
    note: mayText('Becomes part of the output of the node.'),
    owner: mayText('The principal that runs it, where that is another one and by of the node names yours.'),
  },
  { ...fromAgent, description: 'Answers the question of a wait node.' },
);
const ChainApproveResp = runReply('chain/approve/resp', 'The run as it is now.');

const ChainApprovalsReq = object(
  { ...base, type: Literal('chain/approvals/req'), limit: mayInteger('At most; 1,000 are the most. Default 100.', 1) },
  { ...fromAgent, description: 'Lists the questions of runs of other principals that wait for an answer of this one.' },
);
const ChainApprovalsResp = object(
  {
    ...answer,
    type: Literal('chain/approvals/resp'),
    approvals: list(ChainApproval),
    more: flag('There are others.'),
  },
  { ...fromHost, description: 'The questions.' },
);

const ChainDeliverReq = object(
  {
    ...base,
    type: Literal('chain/deliver/req'),
    chain_id: chainId,
    event: text('Its name.'),
    data: may(unknown({ description: 'The output of the wait nodes that wait for it.' })),
  },
  {
    ...fromAgent,
    description: 'Delivers an event to a run: every wait node that waits for it ends. Stored for one that will wait.',
  },
);
const ChainDeliverResp = object(
  { ...answer, type: Literal('chain/deliver/resp'), run: ChainRun, nodes: integer('How many nodes waited for it.') },
  { ...fromHost, description: 'The run as it is now.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const chainsSchemas = {
  ChainReq,
  ChainEvent,
  ChainResp,
  ChainCheckReq,
  ChainCheckResp,
  ChainPutReq,
  ChainPutResp,
  ChainGetReq,
  ChainGetResp,
  ChainListReq,
  ChainListResp,
  ChainRemoveReq,
  ChainRemoveResp,
  ChainRunsReq,
  ChainRunsResp,
  ChainStatusReq,
  ChainStatusResp,
  ChainHistoryReq,
  ChainHistoryResp,
  ChainWatchReq,
  ChainWatchResp,
  ChainPauseReq,
  ChainPauseResp,
  ChainResumeReq,
  ChainResumeResp,
  ChainRetryReq,
  ChainRetryResp,
  ChainCancelReq,
  ChainCancelResp,
  ChainApproveReq,
  ChainApproveResp,
  ChainApprovalsReq,
  ChainApprovalsResp,
  ChainDeliverReq,
  ChainDeliverResp,
  ChainNode,
  RetryPolicy,
  WaitFor,
  ChainApproval,
  Jmespath,
  Budget,
  ChainRef,
  ChainProblem,
  ChainError,
  StoredChain,
  ChainRun,
  ChainUsage,
  NodeState,
  FailedItem,
  ChainFailure,
  ChainEntry,
  Sample,
};

export type {
  Budget,
  ChainApproval,
  ChainEntry,
  ChainError,
  ChainFailure,
  ChainNode,
  ChainProblem,
  ChainRef,
  ChainRun,
  ChainUsage,
  Jmespath,
  NodeState,
  RetryPolicy,
  Sample,
  StoredChain,
  WaitFor,
} from './records.schema.ts';
export type ChainReq = Static<typeof ChainReq>;
export type ChainEvent = Static<typeof ChainEvent>;
export type ChainResp = Static<typeof ChainResp>;
export type ChainCheckReq = Static<typeof ChainCheckReq>;
export type ChainCheckResp = Static<typeof ChainCheckResp>;
export type ChainPutReq = Static<typeof ChainPutReq>;
export type ChainPutResp = Static<typeof ChainPutResp>;
export type ChainGetReq = Static<typeof ChainGetReq>;
export type ChainGetResp = Static<typeof ChainGetResp>;
export type ChainListReq = Static<typeof ChainListReq>;
export type ChainListResp = Static<typeof ChainListResp>;
export type ChainRemoveReq = Static<typeof ChainRemoveReq>;
export type ChainRemoveResp = Static<typeof ChainRemoveResp>;
export type ChainRunsReq = Static<typeof ChainRunsReq>;
export type ChainRunsResp = Static<typeof ChainRunsResp>;
export type ChainStatusReq = Static<typeof ChainStatusReq>;
export type ChainStatusResp = Static<typeof ChainStatusResp>;
export type ChainHistoryReq = Static<typeof ChainHistoryReq>;
export type ChainHistoryResp = Static<typeof ChainHistoryResp>;
export type ChainWatchReq = Static<typeof ChainWatchReq>;
export type ChainWatchResp = Static<typeof ChainWatchResp>;
export type ChainPauseReq = Static<typeof ChainPauseReq>;
export type ChainPauseResp = Static<typeof ChainPauseResp>;
export type ChainResumeReq = Static<typeof ChainResumeReq>;
export type ChainResumeResp = Static<typeof ChainResumeResp>;
export type ChainRetryReq = Static<typeof ChainRetryReq>;
export type ChainRetryResp = Static<typeof ChainRetryResp>;
export type ChainCancelReq = Static<typeof ChainCancelReq>;
export type ChainCancelResp = Static<typeof ChainCancelResp>;
export type ChainApproveReq = Static<typeof ChainApproveReq>;
export type ChainApproveResp = Static<typeof ChainApproveResp>;
export type ChainApprovalsReq = Static<typeof ChainApprovalsReq>;
export type ChainApprovalsResp = Static<typeof ChainApprovalsResp>;
export type ChainDeliverReq = Static<typeof ChainDeliverReq>;
export type ChainDeliverResp = Static<typeof ChainDeliverResp>;

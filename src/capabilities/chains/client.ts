/**
 * The chains capability of an agent: `agent.chains`. Present only when the agent asked for `chains`.
 *
 * Hosts of plain A2E 1.0 serve `run` with nodes, and send fewer members.
 * @see docs/chains.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import * as replies from './chains.replies.generated.ts';
import type * as schema from './chains.schema.ts';
import * as messages from './messages.ts';

/** Runs of one request; a host gives no more. */
const MAX_PAGE = 1_000;

const calls = {
  run: answered(messages.chainRun, replies.ChainResp),
  check: answered(messages.chainCheck, replies.ChainCheckResp),
  put: answered(messages.chainPut, replies.ChainPutResp),
  get: answered(messages.chainGet, replies.ChainGetResp),
  list: answered(messages.chainList, replies.ChainListResp),
  remove: answered(messages.chainRemove, replies.ChainRemoveResp),
  runs: answered(messages.chainRuns, replies.ChainRunsResp),
  status: answered(messages.chainStatus, replies.ChainStatusResp),
  history: answered(messages.chainHistory, replies.ChainHistoryResp),
  watch: answered(messages.chainWatch, replies.ChainWatchResp),
  pause: answered(messages.chainPause, replies.ChainPauseResp),
  resume: answered(messages.chainResume, replies.ChainResumeResp),
  retry: answered(messages.chainRetry, replies.ChainRetryResp),
  cancel: answered(messages.chainCancel, replies.ChainCancelResp),
  approve: answered(messages.chainApprove, replies.ChainApproveResp),
  approvals: answered(messages.chainApprovals, replies.ChainApprovalsResp),
  deliver: answered(messages.chainDeliver, replies.ChainDeliverResp),
};

type Fields<T> = Omit<T, 'type' | 'id' | 'req_id' | 'a2e' | 'version' | 'ts' | 'cursor'>;

/** The result of a chain that ended. */
export interface ChainResult {
  /** The id of the run. */
  readonly chain_id: string;
  /** True when no node failed and the chain is valid. */
  readonly success: boolean;
  /** Outputs by node; null for a node that failed. */
  readonly outputs: Readonly<Record<string, unknown>>;
  /** The output of the last node; of a graph with several last nodes, their outputs by node. */
  readonly final_output: unknown;
  readonly duration_ms: number;
  /** The number of outputs. */
  readonly nodes_run: number;
  /** The error of a failed chain; null: it did not fail. */
  readonly error: schema.ChainError | null;
  /** `done`, `failed`, `cancelled` or `paused`; absent where the host does not report it. */
  readonly state?: string;
  readonly usage?: schema.ChainUsage;
  /** Nodes that failed, and maps with items that failed, the first 20; absent: none failed, or the host does not report them. */
  readonly failures?: readonly schema.ChainFailure[];
  /**
   * Names of members that are empty because no message may hold them: `outputs`, `final_output`. {@link ChainsClient.status}
   * has outputs.
   */
  readonly left_out?: readonly string[];
}

/** A chain: its nodes and how they run, or the name of a stored one. */
export type ChainSpec = Pick<
  schema.ChainReq,
  'nodes' | 'chain' | 'entry_node' | 'timeout' | 'max_parallel' | 'deadline' | 'budget'
>;

export interface ChainRunOptions extends CallOptions {
  /** The id of the run. Default: one that the host makes. */
  readonly chainId?: string;
  /** False: the run is not journaled, and ends with its host. Default: the configuration of the host, usually true. */
  readonly durable?: boolean;
  /** Free text stored with the run. */
  readonly correlationId?: string;
}

/** Decisions on nodes that may have run and are not idempotent. */
export interface ChainResumeOptions extends CallOptions {
  /** Nodes that are run again. */
  readonly rerun?: readonly string[];
  /** Nodes that are not run again; undoing treats them as nodes that ran. */
  readonly skip?: readonly string[];
  /** Nodes that did run: their outputs; of a map an object with the outputs of its items that may have run, by their places. */
  readonly done?: Readonly<Record<string, unknown>>;
  /** Longest run from now on, seconds. Default: that of the chain. */
  readonly seconds?: number;
  /** The total that the run may use, including the amount it has used. Default: that of the chain. */
  readonly budget?: schema.ChainReq['budget'];
}

/** A run with its nodes. */
export type ChainStatus = Fields<schema.ChainStatusResp>;

export class ChainsClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  get #calls(): AgentSession['calls'] {
    this.#agent.require('chains');
    return this.#agent.calls;
  }

  /**
   * Runs a chain: await it for the result, iterate it for the events of its nodes (`event.fields`: `node_id`, `phase`,
   * `output`, `error`). A failed chain is a result with `success` false.
   *
   * Rejects with `chains.exists`, `chains.full`, `chains.unknown_chain`, `chains.invalid`, `cancelled`, `interrupted`.
   * @param input values that expressions see as `$.name`
   * @example
   * const { final_output } = await agent.chains.run(
   *   { nodes: [{ node_id: 'read', kind: 'tool', name: 'read_file', input_map: { path: '$.path' } }] },
   *   { path: 'README.md' },
   * );
   */
  run(
    chain: ChainSpec,
    input: Readonly<Record<string, unknown>> = {},
    { chainId, durable, correlationId, ...options }: ChainRunOptions = {},
  ): Call<ChainResult> {
    const body = {
      ...chain,
      initial_input: { ...input },
      streaming: false,
      ...(chainId !== undefined && { chain_id: chainId }),
      ...(durable !== undefined && { durable }),
      ...(correlationId !== undefined && { correlation_id: correlationId }),
    };
    return this.#calls.call(calls.run, body, patient(options), resultOf);
  }

  /** Returns every problem of a chain, also with the tools that this agent may call. */
  check(chain: ChainSpec, options: CallOptions = {}): Call<Fields<schema.ChainCheckResp>> {
    return this.#calls.call(calls.check, { ...chain }, options);
  }

  /**
   * Stores a chain as the next version of its name; `created` is false where the newest version was equal already. Rejects with
   * `chains.invalid`, `chains.conflict`, `chains.full`.
   */
  put(
    name: string,
    chain: ChainSpec & { readonly description?: string; readonly ifVersion?: number },
    options: CallOptions = {},
  ): Call<schema.StoredChain & { readonly created: boolean }> {
    const { ifVersion, nodes = [], chain: _, ...more } = chain;
    const body = { ...more, name, nodes, ...(ifVersion !== undefined && { if_version: ifVersion }) };
    return this.#calls.call(calls.put, body, options, ({ chain, created }) => ({ ...chain, created }));
  }

  /** Returns a stored chain. Rejects with `chains.unknown_chain`. */
  get(
    name: string,
    { version, ...options }: CallOptions & { readonly version?: number } = {},
  ): Call<schema.StoredChain> {
    const body = { name, ...(version !== undefined && { chain_version: version }) };
    return this.#calls.call(calls.get, body, options, ({ chain }) => chain);
  }

  /** Returns the newest version of each stored chain, by name; with a name all its versions, the newest first. */
  list(
    { name = '', after = '', limit }: { readonly name?: string; readonly after?: string; readonly limit?: number } = {},
    options: CallOptions = {},
  ): Call<readonly schema.StoredChain[]> {
    const body = { name, after, ...(limit !== undefined && { limit }) };
    return this.#calls.call(calls.list, body, options, ({ chains }) => chains);
  }

  /** Removes a stored chain, or one version of it; resolves with the number of removed versions. */
  remove(name: string, { version, ...options }: CallOptions & { readonly version?: number } = {}): Call<number> {
    const body = { name, ...(version !== undefined && { chain_version: version }) };
    return this.#calls.call(calls.remove, body, options, ({ versions }) => versions);
  }

  /** Returns the runs of the principal, the newest first, at most `limit`. Default 100. */
  async runs(
    { limit = 100, ...filter }: { readonly state?: string; readonly name?: string; readonly limit?: number } = {},
    options: CallOptions = {},
  ): Promise<readonly schema.ChainRun[]> {
    const found: schema.ChainRun[] = [];
    // One reply has only as many runs as a message may hold.
    for (let after: string | undefined = ''; after !== undefined && found.length < limit; ) {
      const body = { ...filter, after, limit: Math.min(limit - found.length, MAX_PAGE) };
      const page: Fields<schema.ChainRunsResp> = await this.#calls.call(calls.runs, body, options);
      found.push(...page.runs);
      after = page.next;
    }
    return found;
  }

  /**
   * Returns a run and all its nodes; `left_out` names nodes whose output no message may hold. Rejects with
   * `chains.unknown_run`.
   */
  async status(
    chainId: string,
    {
      definition,
      outputs,
      ...options
    }: CallOptions & { readonly definition?: boolean; readonly outputs?: boolean } = {},
  ): Promise<ChainStatus> {
    const body = { chain_id: chainId, ...(definition && { definition }), ...(outputs && { outputs }) };
    const pages = [await this.#calls.call(calls.status, body, options)];
    for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next) {
      pages.push(await this.#calls.call(calls.status, { ...body, from: next }, options));
    }
    const { next: _, ...last } = pages.at(-1) as (typeof pages)[number];
    const leftOut = pages.flatMap(({ left_out = [] }) => left_out);
    return {
      ...last,
      nodes: pages.flatMap(({ nodes }) => nodes),
      ...(definition && { definition: pages.flatMap((page) => page.definition ?? []) }),
      ...(outputs && { outputs: Object.assign({}, ...pages.map((page) => page.outputs)) }),
      ...(leftOut.length > 0 && { left_out: leftOut }),
    };
  }

  /** Returns the history of a durable run, oldest first. Rejects with `chains.unknown_run`. */
  history(
    chainId: string,
    page: { readonly after?: number; readonly nodeId?: string; readonly limit?: number } = {},
    options: CallOptions = {},
  ): Call<Fields<schema.ChainHistoryResp>> {
    const { after = 0, nodeId = '', limit } = page;
    const body = { chain_id: chainId, after, node_id: nodeId, ...(limit !== undefined && { limit }) };
    return this.#calls.call(calls.history, body, options);
  }

  /** Follows a run until it stops: the events from now on, and its result. Rejects with `chains.unknown_run`. */
  watch(chainId: string, options: CallOptions = {}): Call<ChainResult> {
    return this.#calls.call(calls.watch, { chain_id: chainId }, patient(options), resultOf);
  }

  /** Pauses a run; resolves when its running nodes have ended. Rejects with `chains.state`. */
  pause(chainId: string, options: CallOptions = {}): Call<schema.ChainRun> {
    return this.#calls.call(calls.pause, { chain_id: chainId }, patient(options), runOf);
  }

  /**
   * Continues a run that was interrupted, paused or cancelled, or ran out of time or budget, with the rights of this agent. Nodes
   * that ended do not run again.
   *
   * Rejects with `chains.uncertain` (`detail.nodes`) for nodes that may have run, `chains.state`, `chains.unknown_run`.
   */
  resume(chainId: string, options: ChainResumeOptions = {}): Call<ChainResult> {
    const [decisions, rest] = decisionsOf(options);
    return this.#calls.call(calls.resume, { chain_id: chainId, ...decisions }, patient(rest), resultOf);
  }

  /** Runs a stopped chain again from a node on. Rejects as {@link resume} does, and with `chains.unknown_node`. */
  retry(chainId: string, nodeId: string, options: ChainResumeOptions = {}): Call<ChainResult> {
    const [decisions, rest] = decisionsOf(options);
    const body = { chain_id: chainId, node_id: nodeId, ...decisions };
    return this.#calls.call(calls.retry, body, patient(rest), resultOf);
  }

  /**
   * Ends a run; resolves once its nodes are undone, where its chain requires that. Rejects with `chains.unknown_run`,
   * `chains.state`.
   */
  cancel(
    chainId: string,
    { reason = '', ...options }: CallOptions & { readonly reason?: string } = {},
  ): Call<schema.ChainRun> {
    return this.#calls.call(calls.cancel, { chain_id: chainId, reason }, patient(options), runOf);
  }

  /**
   * Answers the question of a wait node. Rejects with `chains.unknown_node`, `chains.state`, and with `unauthorized` where another
   * principal than the one that runs the chain must answer.
   * @param options.owner the principal that runs it, where that is another one
   */
  approve(
    chainId: string,
    nodeId: string,
    approved: boolean,
    { note = '', owner = '', ...options }: CallOptions & { readonly note?: string; readonly owner?: string } = {},
  ): Call<schema.ChainRun> {
    const body = { chain_id: chainId, node_id: nodeId, approved, note, ...(owner !== '' && { owner }) };
    return this.#calls.call(calls.approve, body, options, runOf);
  }

  /** Returns the questions of runs of other principals that this principal may answer, at most 1,000. */
  approvals(options: CallOptions = {}): Call<readonly schema.ChainApproval[]> {
    return this.#calls.call(calls.approvals, { limit: MAX_PAGE }, options, ({ approvals }) => approvals);
  }

  /** Delivers an event to a run; resolves with the number of nodes that waited for it. Rejects with `chains.state`. */
  deliver(chainId: string, event: string, data: unknown = null, options: CallOptions = {}): Call<number> {
    return this.#calls.call(calls.deliver, { chain_id: chainId, event, data }, options, ({ nodes }) => nodes);
  }
}

/** Returns the options without the client's timeout: the chain limits the time of its runs. */
const patient = (options: CallOptions): CallOptions => ({ timeoutMs: 0, ...options });

/** Splits the options into the decisions as members of a request, and the options of the call. */
function decisionsOf({ rerun, skip, done, seconds, budget, ...options }: ChainResumeOptions) {
  const decisions = {
    ...(rerun !== undefined && { rerun: [...rerun] }),
    ...(skip !== undefined && { skip: [...skip] }),
    ...(done !== undefined && { done: { ...done } }),
    ...(seconds !== undefined && { timeout: seconds }),
    ...(budget !== undefined && { budget }),
  };
  return [decisions, options] as const;
}

const runOf = ({ run }: { readonly run: schema.ChainRun }): schema.ChainRun => run;

function resultOf(reply: Partial<Fields<schema.ChainResp>>): ChainResult {
  const { chain_id = '', success = false, outputs = {}, final_output = null, duration_ms = 0, error = null } = reply;
  const { nodes_run = Object.keys(outputs).length, state, usage, failures, left_out } = reply;
  return {
    chain_id,
    success,
    outputs,
    final_output,
    duration_ms,
    nodes_run,
    error,
    ...(state !== undefined && { state }),
    ...(usage !== undefined && { usage }),
    ...(failures !== undefined && { failures }),
    ...(left_out !== undefined && { left_out }),
  };
}

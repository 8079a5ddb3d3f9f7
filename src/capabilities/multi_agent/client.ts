/**
 * The multi_agent capability of an agent: `agent.multi_agent`. Present only when the agent asked for `multi_agent`.
 *
 * @see docs/multi-agent.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import * as messages from './messages.ts';
import * as replies from './multi_agent.replies.generated.ts';
import type {
  ChannelMessage,
  MultiAgentAwaitResp,
  SubagentBudget,
  SubagentKind,
  SubagentMessage,
  SubagentSummary,
  SubagentUsage,
  SubagentWork,
} from './multi_agent.schema.ts';

const calls = {
  spawn: answered(messages.spawn, replies.MultiAgentSpawnResp),
  delegate: answered(messages.delegate, replies.MultiAgentDelegateResp),
  await: answered(messages.awaitTask, replies.MultiAgentAwaitResp),
  list: answered(messages.list, replies.MultiAgentListResp),
  terminate: answered(messages.terminate, replies.MultiAgentTerminateResp),
  kinds: answered(messages.kinds, replies.MultiAgentKindsResp),
  merge: answered(messages.merge, replies.MultiAgentMergeResp),
  message: answered(messages.message, replies.MultiAgentMessageResp),
  channel: answered(messages.channel, replies.MultiAgentChannelResp),
  say: answered(messages.say, replies.MultiAgentSayResp),
  history: answered(messages.history, replies.MultiAgentHistoryResp),
  cancel: answered(messages.cancel, replies.MultiAgentCancelResp),
  task: answered(messages.task, replies.MultiAgentTaskResp),
  progress: answered(messages.progress, replies.MultiAgentProgressResp),
  finish: answered(messages.finish, replies.MultiAgentFinishResp),
};

/** Settings of a new subagent. */
export interface SubagentOptions {
  /** One of `kinds()`. Default: the model if it names one, else the first. */
  readonly kind?: string;
  /** Its purpose. */
  readonly role?: string;
  readonly model?: string;
  /** Instructions for all its tasks. */
  readonly systemPrompt?: string;
  /** Steps of one task. Default 20. */
  readonly maxSteps?: number;
  /** Longest task. */
  readonly timeoutSeconds?: number;
  /** Capabilities that it may use, of those that this agent may delegate. Default: all of them. */
  readonly capabilities?: readonly string[];
  /** `isolated`: no tools. `restricted`: none with a guarded risk. Default `shared`. */
  readonly toolScope?: 'shared' | 'restricted' | 'isolated';
  /** `isolated`: without memory, learning and planning. Default `shared`. */
  readonly memoryScope?: 'shared' | 'isolated';
  readonly budget?: SubagentBudget;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
}

export interface SubagentTaskOptions {
  /** A short name. Default: the beginning of the instruction. */
  readonly name?: string;
  readonly criteria?: readonly string[];
  /** JSON Schema that the result must fit. */
  readonly resultSchema?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Longest time. */
  readonly timeoutSeconds?: number;
  readonly signal?: AbortSignal;
}

/** The end of a task. */
export interface SubagentOutcome {
  readonly taskId: string;
  /** `COMPLETED`, `FAILED` or `TERMINATED`. */
  readonly status: string;
  readonly result: Readonly<Record<string, unknown>> | null;
  /** The error message of a failed task. */
  readonly error: string | null;
  /** The code of the error; '' without one. */
  readonly code: string;
  readonly score: number | undefined;
  readonly usage: SubagentUsage | undefined;
  readonly verified: 'yes' | 'no' | 'not_checked' | undefined;
}

/** An event of a subagent, or of one below it. */
export interface SubagentNotice {
  readonly subagentId: string;
  /** `started`, `progress`, `message`, `completed`, `failed`, `cancelled` or `terminated`. */
  readonly event: string;
  readonly content: Readonly<Record<string, unknown>>;
}

export interface MergeOptions {
  /**
   * `concat`: all, in order. `vote`: the commonest. `first_success`: the first that completed. `best_by_score`: that with the
   * highest score. `tool`: the result that a tool makes of them. Default `concat`.
   */
  readonly strategy?: 'concat' | 'vote' | 'first_success' | 'best_by_score' | 'tool';
  /** The member of the results that votes compare. Default: the whole result. */
  readonly field?: string;
  /** With `tool`: its name; called with the rights of this agent and the argument `results`. */
  readonly tool?: string;
  /** False: running tasks are left out. Default true. */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

export interface MergedResults {
  /** The merged result; null: none of them completed. */
  readonly result: Readonly<Record<string, unknown>> | null;
  /** Ids of the subagents whose results are in it. */
  readonly from: readonly string[];
  /** Ids of the subagents without a result. */
  readonly failed: readonly string[];
}

export interface SubagentChannel {
  readonly name: string;
  /** Ids of its members. */
  readonly members: readonly string[];
  /** Number of the last message; 0: none. */
  readonly lastSeq: number;
}

/** Waiting for a task has no timeout unless the caller gives one. */
const UNLIMITED = { timeoutMs: 0 } as const;
const signalOf = ({ signal }: { readonly signal?: AbortSignal | undefined }) =>
  signal === undefined ? {} : { signal };

export class MultiAgentClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /**
   * Makes a subagent, which waits for tasks. Rejects with `multi_agent.not_configured`, `multi_agent.unknown_kind`,
   * `multi_agent.denied`, `multi_agent.limit`, `multi_agent.budget_spent`, `multi_agent.not_started`, `multi_agent.interrupted`.
   */
  async spawn(name: string, options: SubagentOptions = {}): Promise<RemoteSubagent> {
    const { role, model, metadata, kind, systemPrompt, maxSteps, timeoutSeconds } = options;
    const { capabilities, toolScope, memoryScope, budget } = options;
    const { subagent_id } = await this.#agent.calls.call(
      calls.spawn,
      {
        name,
        ...(role !== undefined && { role }),
        ...(model !== undefined && { model }),
        ...(metadata !== undefined && { metadata }),
        ...(kind !== undefined && { kind }),
        ...(systemPrompt !== undefined && { system_prompt: systemPrompt }),
        ...(maxSteps !== undefined && { max_steps: maxSteps }),
        ...(timeoutSeconds !== undefined && { timeout_seconds: timeoutSeconds }),
        ...(capabilities !== undefined && { capabilities: [...capabilities] }),
        ...(toolScope !== undefined && { tool_scope: toolScope }),
        ...(memoryScope !== undefined && { memory_scope: memoryScope }),
        ...(budget !== undefined && { budget }),
      },
      signalOf(options),
    );
    return new RemoteSubagent(this.#agent, subagent_id);
  }

  /** Returns a subagent of this agent by its id, even one of an earlier session. Sends nothing to the host. */
  subagent(id: string): RemoteSubagent {
    return new RemoteSubagent(this.#agent, id);
  }

  /** Returns the subagents of this agent, oldest first, with ended ones. */
  async list(
    options: { readonly all?: boolean } & Pick<CallOptions, 'signal'> = {},
  ): Promise<readonly SubagentSummary[]> {
    const { subagents } = await this.#agent.calls.call(calls.list, { all: options.all ?? false }, signalOf(options));
    return subagents;
  }

  /** Returns the available kinds of subagents. */
  async kinds(options: Pick<CallOptions, 'signal'> = {}): Promise<readonly SubagentKind[]> {
    return (await this.#agent.calls.call(calls.kinds, {}, signalOf(options))).kinds;
  }

  /**
   * Calls `listener` for events of the subagents of this agent and those below. Returns the function that removes the listener.
   */
  onEvent(listener: (notice: SubagentNotice) => unknown): () => void {
    return this.#agent.on(messages.subagentEvent, ({ subagent_id, event, content = {} }) =>
      listener({ subagentId: subagent_id, event, content }),
    );
  }

  /**
   * Makes one result of the last results of several subagents, when each has ended. Rejects with `unknown_subagent`,
   * `multi_agent.invalid`, and with the errors of a tool.
   */
  async merge(subagents: readonly (RemoteSubagent | string)[], options: MergeOptions = {}): Promise<MergedResults> {
    const { strategy, field, tool, wait } = options;
    const reply = await this.#agent.calls.call(
      calls.merge,
      {
        subagent_ids: subagents.map((one) => (typeof one === 'string' ? one : one.id)),
        ...(strategy !== undefined && { strategy }),
        ...(field !== undefined && { field }),
        ...(tool !== undefined && { tool }),
        ...(wait !== undefined && { wait }),
      },
      { ...UNLIMITED, ...signalOf(options) },
    );
    return { result: reply.result, from: reply.from, failed: reply.failed };
  }

  /**
   * Sends a message to a subagent of this agent or of its parent; with `to` '' to the agent above. Resolves with false if the
   * receiver has ended. Rejects with `unknown_subagent`.
   */
  async send(to: RemoteSubagent | string, message: SubagentMessage, options: Pick<CallOptions, 'signal'> = {}) {
    const id = typeof to === 'string' ? to : to.id;
    return (await this.#agent.calls.call(calls.message, { to: id, message }, signalOf(options))).delivered;
  }

  /** Calls `listener` for each message that another agent sends to this one. Returns the function that removes the listener. */
  onMessage(listener: (from: string, message: SubagentMessage) => unknown): () => void {
    return this.#agent.on(messages.messagePush, ({ from, message }) => listener(from, message));
  }

  /**
   * Makes a channel of this agent with some of its subagents, or changes its members. Without `members`, returns the existing
   * channel. Rejects with `unknown_subagent`.
   */
  async channel(
    name: string,
    members?: readonly (RemoteSubagent | string)[],
    options: Pick<CallOptions, 'signal'> = {},
  ): Promise<SubagentChannel> {
    const ids = members?.map((one) => (typeof one === 'string' ? one : one.id));
    const body = { channel: name, ...(ids && { members: ids }) };
    const reply = await this.#agent.calls.call(calls.channel, body, signalOf(options));
    return { name, members: reply.members, lastSeq: reply.last_seq };
  }

  /** Ends a channel of this agent. */
  async closeChannel(name: string, options: Pick<CallOptions, 'signal'> = {}): Promise<void> {
    await this.#agent.calls.call(calls.channel, { channel: name, close: true }, signalOf(options));
  }

  /** Sends a message to a channel; resolves with the number of the message there. */
  async say(channel: string, message: SubagentMessage, options: Pick<CallOptions, 'signal'> = {}): Promise<number> {
    return (await this.#agent.calls.call(calls.say, { channel, message }, signalOf(options))).seq;
  }

  /** Returns the messages of a channel, oldest first. */
  async history(
    channel: string,
    options: { readonly after?: number; readonly limit?: number } & Pick<CallOptions, 'signal'> = {},
  ): Promise<readonly ChannelMessage[]> {
    const { after = 0, limit = 100 } = options;
    const said: ChannelMessage[] = [];
    // One reply has only as many messages as fit.
    for (;;) {
      const page = { channel, after: said.at(-1)?.seq ?? after, limit: limit - said.length };
      const { messages, last_seq } = await this.#agent.calls.call(calls.history, page, signalOf(options));
      said.push(...messages);
      if (messages.length === 0 || said.length >= limit || said.at(-1)?.seq === last_seq) return said;
    }
  }

  /**
   * Calls `listener` for messages in channels of this agent, in their order. Returns the function that removes the listener.
   */
  onSaid(listener: (channel: string, said: ChannelMessage) => unknown): () => void {
    return this.#agent.on(messages.saidPush, ({ channel, said }) => listener(channel, said));
  }

  /**
   * Does the tasks of a subagent that runs outside of its host, one after another, until the session ends or `signal` aborts.
   * The return value of `work` is the result; its exception is the failure.
   */
  async serveTasks(
    work: (task: SubagentWork, context: RemoteTask) => unknown,
    options: Pick<CallOptions, 'signal'> = {},
  ) {
    const { calls: caller } = this.#agent;
    while (options.signal?.aborted !== true) {
      const { task } = await caller.call(calls.task, {}, { ...UNLIMITED, ...signalOf(options) });
      if (task === null) continue;
      await this.#serve(task, work);
    }
  }

  async #serve(task: SubagentWork, work: (task: SubagentWork, context: RemoteTask) => unknown): Promise<void> {
    const { calls: caller } = this.#agent;
    const { task_id } = task;
    const stopped = new AbortController();
    const stop = (reason: string) => stopped.abort(failure('cancelled', reason));
    const off = this.onEvent(({ event, content }) => {
      if (content.task_id === task_id && (event === 'cancelled' || event === 'failed')) stop(`the task was ${event}`);
    });
    let score: number | undefined;
    try {
      const result = await work(task, {
        signal: stopped.signal,
        score: (value) => {
          score = value;
        },
        async progress({ message, percent, tokens, costUsd, steps }) {
          const { ended } = await caller.call(calls.progress, {
            task_id,
            ...(message !== undefined && { message }),
            ...(percent !== undefined && { percent }),
            ...(tokens !== undefined && { tokens }),
            ...(costUsd !== undefined && { cost_usd: costUsd }),
            ...(steps !== undefined && { steps }),
          });
          if (ended) stop('the task has ended');
        },
      });
      await caller.call(calls.finish, { task_id, result: result ?? null, ...(score !== undefined && { score }) });
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown.message : String(thrown);
      await caller.call(calls.finish, { task_id, error: error === '' ? 'failed' : error });
    } finally {
      off();
    }
  }
}

/** A task, as the subagent that does it sees it. */
export interface RemoteTask {
  /** Aborts when the task has ended otherwise. */
  readonly signal: AbortSignal;
  /** Reports progress and the amounts spent so far, as totals. */
  progress(report: {
    readonly message?: string;
    readonly percent?: number;
    readonly tokens?: number;
    readonly costUsd?: number;
    readonly steps?: number;
  }): Promise<void>;
  /** Sets the rating of the result. */
  score(value: number): void;
}

/** A subagent of this agent. */
export class RemoteSubagent {
  readonly #agent: AgentSession;
  readonly id: string;

  constructor(agent: AgentSession, id: string) {
    this.#agent = agent;
    this.id = id;
  }

  /**
   * Gives the subagent a task and returns the id of the task. Rejects with `unknown_subagent`, `multi_agent.busy`,
   * `multi_agent.ended`.
   */
  async delegate(instruction: string, options: SubagentTaskOptions = {}): Promise<string> {
    const { name = instruction.slice(0, 60), criteria, resultSchema, metadata, timeoutSeconds } = options;
    const {
      accepted,
      task_id = '',
      refusal,
      status,
    } = await this.#agent.calls.call(
      calls.delegate,
      {
        subagent_id: this.id,
        task_name: name,
        instruction,
        ...(criteria !== undefined && { success_criteria: [...criteria] }),
        ...(resultSchema !== undefined && { result_schema: resultSchema }),
        ...(metadata !== undefined && { metadata }),
        ...(timeoutSeconds !== undefined && { timeout_seconds: timeoutSeconds }),
      },
      signalOf(options),
    );
    if (accepted) return task_id;
    if (refusal === undefined) throw failure('busy', `the subagent did not take the task: it is ${status}`);
    const { code, message, detail } = refusal;
    throw new HandfastError(code, message, { detail: { ...detail }, capability: 'multi_agent' });
  }

  /**
   * Waits until a task has ended, by default the last. A failed task is an outcome. Rejects with `unknown_subagent`,
   * `multi_agent.no_task`, `timeout` if the caller sets one.
   */
  async result(options: { readonly taskId?: string } & CallOptions = {}): Promise<SubagentOutcome> {
    const { taskId, ...rest } = options;
    const body = { subagent_id: this.id, ...(taskId !== undefined && { task_id: taskId }) };
    return outcomeOf(await this.#agent.calls.call(calls.await, body, { ...UNLIMITED, ...rest }));
  }

  /** Gives the subagent a task and waits for its end. Aborting the wait cancels the task. */
  async run(instruction: string, options: SubagentTaskOptions = {}): Promise<SubagentOutcome> {
    const taskId = await this.delegate(instruction, options);
    try {
      return await this.result({ taskId, ...signalOf(options) });
    } catch (error) {
      if (options.signal?.aborted === true) await this.cancel().catch(() => {});
      throw error;
    }
  }

  /** Cancels its task; the subagent then accepts another. Resolves with false if it had none. */
  async cancel(options: Pick<CallOptions, 'signal'> = {}): Promise<boolean> {
    return (await this.#agent.calls.call(calls.cancel, { subagent_id: this.id }, signalOf(options))).success;
  }

  /** Ends the subagent and all below it. Its results stay. Resolves with false if it had ended already. */
  async terminate(options: Pick<CallOptions, 'signal'> = {}): Promise<boolean> {
    return (await this.#agent.calls.call(calls.terminate, { subagent_id: this.id }, signalOf(options))).success;
  }
}

function outcomeOf(reply: Omit<MultiAgentAwaitResp, 'type' | 'id'>): SubagentOutcome {
  const { task_id = '', status, result = null, error = null, code = '', score, usage, verified } = reply;
  return { taskId: task_id, status, result, error, code, score, usage, verified };
}

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

/** How a subagent is to be. */
export interface SubagentOptions {
  /** One of `kinds()`. Default: the model where it names one, else the first. */
  readonly kind?: string;
  /** What it is for. */
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

/** How a task ended. */
export interface SubagentOutcome {
  readonly taskId: string;
  /** `COMPLETED`, `FAILED` or `TERMINATED`. */
  readonly status: string;
  readonly result: Readonly<Record<string, unknown>> | null;
  /** Why it failed. */
  readonly error: string | null;
  /** The code of the error; '' without one. */
  readonly code: string;
  readonly score: number | undefined;
  readonly usage: SubagentUsage | undefined;
  readonly verified: 'yes' | 'no' | 'not_checked' | undefined;
}

/** Something that happened to a subagent, or to one below it. */
export interface SubagentNotice {
  readonly subagentId: string;
  /** `started`, `progress`, `message`, `completed`, `failed`, `cancelled` or `terminated`. */
  readonly event: string;
  readonly content: Readonly<Record<string, unknown>>;
}

export interface MergeOptions {
  /**
   * `concat`: all, in order. `vote`: the commonest. `first_success`: the first that completed. `best_by_score`: that with the
   * highest score. `tool`: what a tool makes of them. Default `concat`.
   */
  readonly strategy?: 'concat' | 'vote' | 'first_success' | 'best_by_score' | 'tool';
  /** The member of the results that votes compare. Default: the whole result. */
  readonly field?: string;
  /** With `tool`: its name; called with the rights of this agent and the argument `results`. */
  readonly tool?: string;
  /** False: tasks that run are left out. Default true. */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

export interface MergedResults {
  /** Null: none of them completed. */
  readonly result: Readonly<Record<string, unknown>> | null;
  /** Ids of the subagents whose results are in it. */
  readonly from: readonly string[];
  /** Ids of those without a result. */
  readonly failed: readonly string[];
}

export interface SubagentChannel {
  readonly name: string;
  /** Ids of its members. */
  readonly members: readonly string[];
  /** The last message; 0: none. */
  readonly lastSeq: number;
}

/** Waiting for a task has no limit unless the caller gives one. */
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
   * `multi_agent.denied`, `multi_agent.limit`, `multi_agent.budget_spent`, `multi_agent.not_started`.
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

  /** A subagent of this agent by its id, also of an earlier session. Nothing is asked of the host. */
  subagent(id: string): RemoteSubagent {
    return new RemoteSubagent(this.#agent, id);
  }

  /** The subagents of this agent, oldest first, ended ones too. */
  async list(
    options: { readonly all?: boolean } & Pick<CallOptions, 'signal'> = {},
  ): Promise<readonly SubagentSummary[]> {
    const { subagents } = await this.#agent.calls.call(calls.list, { all: options.all ?? false }, signalOf(options));
    return subagents;
  }

  /** The kinds of subagents that there are. */
  async kinds(options: Pick<CallOptions, 'signal'> = {}): Promise<readonly SubagentKind[]> {
    return (await this.#agent.calls.call(calls.kinds, {}, signalOf(options))).kinds;
  }

  /** Calls `listener` for what happens to the subagents of this agent and those below. Returns the function that ends it. */
  onEvent(listener: (notice: SubagentNotice) => unknown): () => void {
    return this.#agent.on(messages.subagentEvent, ({ subagent_id, event, content = {} }) =>
      listener({ subagentId: subagent_id, event, content }),
    );
  }

  /**
   * Makes one result of the last results of several subagents, when each has ended. Rejects with `unknown_subagent`,
   * `multi_agent.invalid`, and what a tool rejects with.
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
   * Sends a message to a subagent of this agent or of the same parent; with `to` '' to the agent above. False: it has ended.
   * Rejects with `unknown_subagent`.
   */
  async send(to: RemoteSubagent | string, message: SubagentMessage, options: Pick<CallOptions, 'signal'> = {}) {
    const id = typeof to === 'string' ? to : to.id;
    return (await this.#agent.calls.call(calls.message, { to: id, message }, signalOf(options))).delivered;
  }

  /** Calls `listener` for each message that another agent sends to this one. Returns the function that ends it. */
  onMessage(listener: (from: string, message: SubagentMessage) => unknown): () => void {
    return this.#agent.on(messages.messagePush, ({ from, message }) => listener(from, message));
  }

  /**
   * Makes a channel of this agent with some of its subagents, or changes who is in it. Without `members`, what is known of one.
   * Rejects with `unknown_subagent`.
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

  /** Says something in a channel; its place there. */
  async say(channel: string, message: SubagentMessage, options: Pick<CallOptions, 'signal'> = {}): Promise<number> {
    return (await this.#agent.calls.call(calls.say, { channel, message }, signalOf(options))).seq;
  }

  /** What was said in a channel, oldest first. */
  async history(
    channel: string,
    options: { readonly after?: number; readonly limit?: number } & Pick<CallOptions, 'signal'> = {},
  ): Promise<readonly ChannelMessage[]> {
    const { after = 0, limit = 100 } = options;
    const said: ChannelMessage[] = [];
    // A reply has as many as a message may hold.
    for (;;) {
      const page = { channel, after: said.at(-1)?.seq ?? after, limit: limit - said.length };
      const { messages, last_seq } = await this.#agent.calls.call(calls.history, page, signalOf(options));
      said.push(...messages);
      if (messages.length === 0 || said.length >= limit || said.at(-1)?.seq === last_seq) return said;
    }
  }

  /** Calls `listener` for what is said in channels of this agent, in their order. Returns the function that ends it. */
  onSaid(listener: (channel: string, said: ChannelMessage) => unknown): () => void {
    return this.#agent.on(messages.saidPush, ({ channel, said }) => listener(channel, said));
  }

  /**
   * Of a subagent that runs outside of its host: does its tasks, one after another, until the session ends or `signal` aborts.
   * What `work` returns is the result; what it throws is the failure.
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

/** A task as the one who does it has it. */
export interface RemoteTask {
  /** Aborts when the task has ended otherwise. */
  readonly signal: AbortSignal;
  /** Reports how it goes and what was spent so far, as totals. */
  progress(report: {
    readonly message?: string;
    readonly percent?: number;
    readonly tokens?: number;
    readonly costUsd?: number;
    readonly steps?: number;
  }): Promise<void>;
  /** How good the result is. */
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

  /** Gives it a task and returns its id. Rejects with `unknown_subagent`, `multi_agent.busy`, `multi_agent.ended`. */
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
   * Waits until a task has ended, by default its last. A task that failed is an outcome. Rejects with `unknown_subagent`,
   * `multi_agent.no_task`, `timeout` where the caller gives a limit.
   */
  async result(options: { readonly taskId?: string } & CallOptions = {}): Promise<SubagentOutcome> {
    const { taskId, ...rest } = options;
    const body = { subagent_id: this.id, ...(taskId !== undefined && { task_id: taskId }) };
    return outcomeOf(await this.#agent.calls.call(calls.await, body, { ...UNLIMITED, ...rest }));
  }

  /** Gives it a task and waits for its end. A wait that is given up cancels the task. */
  async run(instruction: string, options: SubagentTaskOptions = {}): Promise<SubagentOutcome> {
    const taskId = await this.delegate(instruction, options);
    try {
      return await this.result({ taskId, ...signalOf(options) });
    } catch (error) {
      if (options.signal?.aborted === true) await this.cancel().catch(() => {});
      throw error;
    }
  }

  /** Ends its task; it then takes another. False: it had none. */
  async cancel(options: Pick<CallOptions, 'signal'> = {}): Promise<boolean> {
    return (await this.#agent.calls.call(calls.cancel, { subagent_id: this.id }, signalOf(options))).success;
  }

  /** Ends it and all below it. Its results stay. False: it had ended already. */
  async terminate(options: Pick<CallOptions, 'signal'> = {}): Promise<boolean> {
    return (await this.#agent.calls.call(calls.terminate, { subagent_id: this.id }, signalOf(options))).success;
  }
}

function outcomeOf(reply: Omit<MultiAgentAwaitResp, 'type' | 'id'>): SubagentOutcome {
  const { task_id = '', status, result = null, error = null, code = '', score, usage, verified } = reply;
  return { taskId: task_id, status, result, error, code, score, usage, verified };
}

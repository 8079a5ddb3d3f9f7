/**
 * The `a2a` executor: a remote A2A 1.0 agent does the work. It receives the prompt as text, and its reply is read as that of
 * any other executor; a Handfast worker at the other end also reports its usage.
 *
 * @see docs/a2a.md#executor
 */
import type { Log } from '../../base/log.ts';
import type { TaskResult, Usage } from '../../protocol/fleet.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { A2aConnection, callFailure, type Reached } from '../bus/a2a/connection.ts';
import { follow } from '../bus/a2a/follow.ts';
import {
  artifactsText,
  fleetDataOf,
  isSettled,
  messageOf,
  RESULT_ARTIFACT,
  RETURN_AT_ONCE,
  ROLE,
  STATE,
  TEXT_ANSWER,
  textAnswer,
  textOf,
} from '../bus/a2a/messages.ts';
import type { Message, SendMessageRequest, Task } from '../bus/a2a/sdk.ts';
import { resultOfTask, textOfTask } from '../bus/a2a/states.ts';
import { HttpClient } from '../bus/plain/http-client.ts';
import { decodeValue } from '../messages/decode.ts';
import type { Reported } from '../messages/decoded.ts';
import { resultFrom, resultMessage } from '../messages/encode.ts';
import { askWhileRunning } from './ask.ts';
import type { A2aConfig } from './config.ts';
import { ContextMap } from './context-map.ts';
import type { Execution, Executor, ExecutorContext, ExecutorOutcome, ExecutorTask, Readiness } from './executor.ts';
import { RunningTurns } from './running-turns.ts';
import { UNKNOWN_USAGE } from './usage.ts';

export interface A2aExecutorDeps {
  readonly config: A2aConfig;
  /** File that stores the agent's ids of the contexts; undefined: in memory. */
  readonly contextFile: string | undefined;
  readonly log: Log;
  readonly newId?: () => string;
}

/** Timeout for an agent that accepted a task and does not respond, milliseconds. */
const PATIENCE_MS = 120_000;
/** Timeout of a cancel, milliseconds. */
const CANCEL_MS = 5_000;
/** Timeout of each call of a probe, milliseconds; both calls together stay below the 3 s of a probe. */
const PROBE_MS = 1_400;
/** Questions of an agent in one turn. */
const MAX_QUESTIONS = 20;

/** Makes the executor. Starts nothing. Fails with `config_invalid` for an invalid address. */
export function a2aExecutor(parts: A2aExecutorDeps): Executor {
  return new A2aExecutor(parts);
}

class A2aExecutor implements Executor {
  readonly kind = 'a2a';
  readonly canSteer = false;
  readonly canAsk = true;
  readonly #client = new HttpClient();
  readonly #connection: A2aConnection;
  readonly #contexts: ContextMap<{ readonly context: string }>;
  readonly #newId: () => string;
  readonly #turns = new RunningTurns();

  constructor({ config, contextFile: file, log, newId = () => crypto.randomUUID() }: A2aExecutorDeps) {
    const { url, token } = config;
    const name = `the agent at ${new URL(url).host}`;
    this.#connection = new A2aConnection({ url, token, name, client: this.#client, log });
    this.#newId = newId;
    this.#contexts = new ContextMap({
      file,
      read: ({ context }) => (typeof context === 'string' && context !== '' ? { context } : undefined),
      damaged: (movedTo) => log.warn('quarantined the damaged conversations of an agent', { movedTo }),
    });
  }

  async probe(signal: AbortSignal): Promise<Readiness> {
    const { address } = this.#connection;
    try {
      await this.#connection.discover(AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]));
    } catch (thrown) {
      return { present: false, detail: asError(thrown).message };
    }
    const { client } = this.#connection.reached as Reached;
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    try {
      // A task that does not exist starts nothing, and a caller without rights is refused.
      await client.getTask({ tenant: '', id: this.#newId() }, this.#connection.call(false, bounded));
    } catch (thrown) {
      const { code, message } = callFailure(thrown, this.#connection.name);
      if (code === 'unauthorized') return { present: true, authenticated: false, detail: message };
      if (code === 'not_found') return { present: true, authenticated: true, detail: address };
    }
    return { present: true, detail: address };
  }

  hasConversation(contextId: string): boolean {
    return this.#contexts.has(contextId);
  }

  start(task: ExecutorTask, context: ExecutorContext): Execution {
    return { outcome: this.#turns.add(this.#turn(task, this.#turns.inside(context))) };
  }

  async stop(): Promise<void> {
    await this.#turns.stop();
    this.#client.close();
  }

  async #turn(task: ExecutorTask, context: ExecutorContext): Promise<ExecutorOutcome> {
    const { signal } = context;
    if (signal.aborted) return stopped(signal, '');
    const reached = await this.#reach(signal);
    let latest: Task | undefined;
    try {
      let response = await this.#send(reached, this.#prompt(task), signal);
      for (let asked = 0; ; asked += 1) {
        if (!('status' in response)) return this.#replied(response);
        latest = response;
        if (response.contextId !== '') await this.#contexts.set(task.contextId, { context: response.contextId });
        latest = await this.#settled(response, reached, context);
        if (latest.status?.state !== STATE.inputRequired || asked >= MAX_QUESTIONS)
          return outcomeOf(latest, task.taskId);
        if (resultIn(latest) !== undefined) return outcomeOf(latest, task.taskId);
        const answer = await this.#answer(latest, context);
        if (answer === undefined) return outcomeOf(latest, task.taskId);
        response = await this.#send(reached, this.#request(answer, latest.contextId, latest.id), signal);
      }
    } catch (thrown) {
      const error = callFailure(thrown, this.#connection.name, { newTask: latest === undefined });
      if (signal.aborted) {
        const left = latest === undefined ? undefined : await this.#cancel(reached, latest);
        return stopped(signal, left === undefined ? '' : textOfTask(left));
      }
      if (error.code === 'over_capacity') return replied(busyBlock(task.taskId, error));
      if (latest === undefined) throw error;
      return { ...replied(textOfTask(latest)), failure: error.message };
    }
  }

  async #reach(signal: AbortSignal): Promise<Reached> {
    try {
      if (this.#connection.reached === undefined) await this.#connection.discover(signal);
    } catch (thrown) {
      throw callFailure(thrown, this.#connection.name);
    }
    return this.#connection.reached as Reached;
  }

  /** Sends a message, bounded by the turn: an agent may respond only when it is done. */
  #send({ client, fleet }: Reached, request: SendMessageRequest, signal: AbortSignal): Promise<Message | Task> {
    return client.sendMessage(request, this.#connection.stream(fleet, signal));
  }

  #prompt({ prompt, contextId }: ExecutorTask): SendMessageRequest {
    return this.#request(prompt, this.#contexts.get(contextId)?.context ?? contextId);
  }

  #request(text: string, contextId: string, taskId = ''): SendMessageRequest {
    return {
      tenant: '',
      message: messageOf(ROLE.user, { messageId: this.#newId(), contextId, taskId, text }),
      configuration: RETURN_AT_ONCE,
      metadata: undefined,
    };
  }

  async #settled(task: Task, { fleet }: Reached, { events, signal }: ExecutorContext): Promise<Task> {
    if (isSettled(task.status?.state)) return task;
    const received = new Set<string>();
    return follow({
      connection: this.#connection,
      fleet,
      id: task.id,
      signal,
      patienceMs: PATIENCE_MS,
      onEvent(event) {
        if (event.$case !== 'statusUpdate' && event.$case !== 'task') return;
        const { status } = event.value;
        const message = status?.message;
        if (isSettled(status?.state) || (message !== undefined && received.has(message.messageId))) return;
        if (message !== undefined) received.add(message.messageId);
        const note = textOf(message?.parts).slice(0, 500);
        events.progress('working', ...(note === '' ? [] : [note]));
      },
    });
  }

  /** Returns the user's answer to a question of the agent; undefined: none. */
  async #answer({ status }: Task, context: ExecutorContext): Promise<string | undefined> {
    const title = textOf(status?.message?.parts) || 'The agent asks for more input.';
    const { allowed, content } = await askWhileRunning(context, { kind: 'question', title, schema: TEXT_ANSWER });
    return textAnswer(allowed, content);
  }

  /** Cancels the task at the agent; resolves with its new state, or with the last known one if the cancel failed. */
  async #cancel({ client, fleet }: Reached, task: Task): Promise<Task> {
    try {
      const options = this.#connection.call(fleet, AbortSignal.timeout(CANCEL_MS));
      return await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }, options);
    } catch {
      // It may have ended by itself, or the agent may be unreachable.
      return task;
    }
  }

  #replied({ parts }: Message): ExecutorOutcome {
    return replied(textOf(parts));
  }
}

const replied = (text: string): ExecutorOutcome => ({
  text,
  ending: 'completed',
  exitCode: null,
  usage: UNKNOWN_USAGE,
});

const stopped = (signal: AbortSignal, text: string): ExecutorOutcome => ({
  text,
  ending: 'stopped',
  exitCode: null,
  usage: UNKNOWN_USAGE,
  failure: `stopped: ${asError(signal.reason).message}`,
});

/** Returns the result that a Handfast worker sends beside its text. */
function resultIn({ artifacts }: Task): Reported | undefined {
  const artifact = artifacts.find(({ artifactId }) => artifactId === RESULT_ARTIFACT);
  for (const data of fleetDataOf(artifact?.parts)) {
    const decoded = decodeValue(data);
    if (decoded.valid && decoded.message.type === 'TASK_RESULT') return decoded.message;
  }
  return undefined;
}

function outcomeOf(task: Task, taskId: string): ExecutorOutcome {
  const own = resultIn(task);
  if (own !== undefined) {
    const { tokens_spent: _, usage, envelope: _envelope, prose: _prose, ...result } = resultFrom(own);
    const text = withBlock(artifactsText(task.artifacts), { ...result, task_id: taskId });
    return { ...replied(text), usage: usageFrom(usage) };
  }
  if (task.status?.state === STATE.completed) return replied(textOfTask(task));
  const read = resultOfTask(task, { taskId, attempt: 1, replySchema: 'prose' });
  if (read?.result.status === 'blocked') {
    const { envelope: _, prose: _prose, usage: _usage, ...result } = resultFrom(read.result);
    return replied(withBlock(textOfTask(task), result));
  }
  return { ...replied(textOfTask(task)), failure: read?.result.error_summary ?? 'the agent did not end its task' };
}

/** Returns the usage: one that another worker measured counts as a provider's. */
function usageFrom(usage: Usage | null | undefined): Usage {
  if (usage == null || usage.source === 'unknown' || usage.source === 'claimed') return UNKNOWN_USAGE;
  const { claimed: _, ...spent } = usage;
  return { ...spent, source: 'provider' };
}

const withBlock = (text: string, result: Omit<TaskResult, 'envelope'>): string =>
  [text, `\`\`\`json\n${JSON.stringify(result, undefined, 2)}\n\`\`\``].filter(Boolean).join('\n\n');

/** Returns the block of a busy agent, which has started nothing: a refusal, not a failure. */
function busyBlock(task_id: string, { message, detail }: HandfastError): string {
  const { retry_after_ms: ms } = detail;
  const blocked = {
    code: 'busy',
    retryable: true,
    ...(typeof ms === 'number' && { retry_after_s: Math.ceil(ms / 1000) }),
  };
  return withBlock('', resultMessage({ task_id, status: 'blocked', blocked_reason: `busy: ${message}`, blocked }));
}

/**
 * The agent behind one session of ours: its process, its own session, and the turns it is given. Made by `acp.ts`, which
 * decides how long it is kept.
 *
 * What the agent knows of the conversation lives in its own session, whose id is a setting of ours, so that it is found
 * again after a restart. Where it cannot be found again the conversation is told to the agent as text.
 */

import { type AgentClient, AgentProcess, type AgentProcessOptions } from '../../../acp/agent-process.ts';
import { AgentSettings, type Change } from '../../../acp/agent-settings.ts';
import { mcpServersOf } from '../../../acp/mcp-servers.ts';
import type { LoadSessionResponse, NewSessionResponse, PromptResponse } from '../../../acp/sdk.ts';
import { inputOf } from '../../../acp/tool-facts.ts';
import type { Approval, Usage } from '../../../protocol/session-types.ts';
import { NO_USAGE } from '../../../protocol/session-types.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ApprovalRequest } from '../../approvals/approval.ts';
import type { HistoryItem } from '../../session-log.ts';
import type { Turn, TurnOutcome } from '../backend.ts';
import { permissionAnswer, permissionRequest, questionAnswer, questionOf } from './permission.ts';
import { promptBlocks } from './prompt-blocks.ts';
import { TurnUpdates } from './updates.ts';

/** Files of a session's directory, for agents that ask their client for them. Both refuse what is outside `cwd`. */
export interface SessionFiles {
  readText(cwd: string, path: string, part: { line?: number; limit?: number }, signal: AbortSignal): Promise<string>;
  writeText(cwd: string, path: string, content: string, signal: AbortSignal): Promise<void>;
}

export interface AgentSessionOptions extends Omit<AgentProcessOptions, 'client'> {
  readonly files?: SessionFiles;
  /** Time for an agent to end a cancelled turn before it is killed, in milliseconds. */
  readonly cancelTimeoutMs: number;
}

/** The turn that runs. */
interface Running {
  readonly turn: Turn;
  readonly updates: TurnUpdates;
  /** Permission requests by call: an agent may ask about one call several times. */
  readonly asked: Map<string, number>;
  /** Files whose change was permitted with a call of this turn. */
  readonly permitted: Set<string>;
}

const STOP_REASONS: Readonly<Record<string, TurnOutcome['stopReason']>> = {
  end_turn: 'end_turn',
  max_tokens: 'max_tokens',
  max_turn_requests: 'max_rounds',
  refusal: 'refusal',
  cancelled: 'interrupted',
};

export class AgentSession {
  readonly #options: AgentSessionOptions;
  #process: AgentProcess | undefined;
  /** The agent's own session in `#process`. */
  #agentId: string | undefined;
  readonly #settings = new AgentSettings();
  /** What the agent's session has cost; undefined = not known yet, because it is older than the process. */
  #costUsd: number | undefined;
  #running: Running | undefined;
  #closed = false;

  constructor(options: AgentSessionOptions) {
    this.#options = options;
  }

  /** True while a turn runs. */
  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** True while the agent's process lives. */
  get alive(): boolean {
    return this.#process?.alive === true;
  }

  /** Runs a turn; see `Backend.run`. Resolves with `interrupted` soon after the turn's signal aborted. */
  async run(turn: Turn): Promise<TurnOutcome> {
    const running = { turn, updates: this.#updatesFor(turn), asked: new Map(), permitted: new Set<string>() };
    this.#running = running;
    let why = 'the turn ended before the agent finished this call';
    try {
      const process = await this.#started(turn);
      const earlier = await this.#joined(process, turn);
      await this.#configured(process, turn);
      const { stopReason } = await this.#prompted(process, turn, earlier);
      if (turn.signal.aborted) return { stopReason: 'interrupted' };
      return { stopReason: STOP_REASONS[stopReason] ?? 'end_turn' };
    } catch (error) {
      if (turn.signal.aborted) return { stopReason: 'interrupted' };
      why = asError(error).message;
      throw asError(error, 'provider_error');
    } finally {
      running.updates.finish(turn.signal.aborted ? 'the turn was interrupted' : why);
      this.#running = undefined;
    }
  }

  /** Ends the process. Bounded, never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const process = this.#process;
    this.#process = undefined;
    this.#agentId = undefined;
    await process?.close();
  }

  /** The process, started if need be. */
  async #started(turn: Turn): Promise<AgentProcess> {
    if (this.#process?.alive) return this.#process;
    const { name, cwd = turn.cwd } = this.#options;
    turn.status(`starting ${name}...`);
    this.#agentId = undefined;
    const process = await AgentProcess.start({ ...this.#options, cwd, client: this.#client() }, turn.signal);
    this.#process = process;
    // Whoever closed meanwhile has waited for nothing.
    if (this.#closed) {
      await this.close();
      throw fail('session_closed', 'the session was closed while its agent started');
    }
    return process;
  }

  /** The agent's session: the one it has, one it finds again, or a new one. Returns what has to be told to a new one. */
  async #joined(process: AgentProcess, turn: Turn): Promise<readonly HistoryItem[]> {
    const { name, startTimeoutMs } = this.#options;
    const { capabilities } = process;
    // An empty history is a conversation that begins, or that was cleared: nothing before it may be known.
    const stored = turn.history.length === 0 ? undefined : storedId(turn, name);
    if (this.#agentId !== undefined && this.#agentId === stored) return [];
    const place = { cwd: turn.cwd, mcpServers: mcpServersOf(turn.settings.mcpServers, capabilities) };
    const { resume, close } = capabilities.sessionCapabilities ?? {};
    if (stored !== undefined && (resume || capabilities.loadSession)) {
      const params = { ...place, sessionId: stored };
      try {
        const again = await process.call<LoadSessionResponse>(
          (agent) => (resume ? agent.request('session/resume', params) : agent.request('session/load', params)),
          turn.signal,
          startTimeoutMs,
        );
        this.#join(stored, again, undefined);
        return [];
      } catch (error) {
        turn.signal.throwIfAborted();
        if (!process.alive) throw error;
        turn.debug('acp.resume_failed', { message: asError(error).message });
      }
    }
    const old = this.#agentId;
    const created = await process.call<NewSessionResponse>(
      (agent) => agent.request('session/new', place),
      turn.signal,
      startTimeoutMs,
    );
    if (old !== undefined && close) {
      process.notify(async (agent) => void (await agent.request('session/close', { sessionId: old })));
    }
    this.#join(created.sessionId, created, 0);
    const { record } = turn.log;
    const agentSession = { backend: name, id: created.sessionId, session: record.id };
    turn.log.emit('session.configured', { settings: { ...record.settings, agentSession } }, turn.id);
    return turn.history;
  }

  #join(id: string, settings: Parameters<AgentSettings['take']>[0], costUsd: number | undefined): void {
    this.#agentId = id;
    this.#settings.take(settings ?? {});
    this.#costUsd = costUsd;
  }

  async #configured(process: AgentProcess, { settings: { mode, model }, signal }: Turn): Promise<void> {
    if (mode !== undefined) {
      await this.#change(process, this.#settings.toMode(mode, this.#options.name), signal);
      this.#settings.modeChanged(mode);
    }
    if (model !== undefined) await this.#change(process, this.#settings.toModel(model), signal);
  }

  async #change(process: AgentProcess, change: Change | undefined, signal: AbortSignal): Promise<void> {
    const sessionId = this.#agentId;
    if (change === undefined || sessionId === undefined) return;
    const { startTimeoutMs } = this.#options;
    if (change.kind === 'mode') {
      const { modeId } = change;
      await process.call((agent) => agent.request('session/set_mode', { sessionId, modeId }), signal, startTimeoutMs);
      return;
    }
    const { configId, value } = change;
    const answer = await process.call(
      (agent) => agent.request('session/set_config_option', { sessionId, configId, value }),
      signal,
      startTimeoutMs,
    );
    this.#settings.options(answer?.configOptions);
  }

  /** Sends the prompt and waits for its end; a cancelled one is waited for too, but not for ever. */
  async #prompted(process: AgentProcess, turn: Turn, earlier: readonly HistoryItem[]): Promise<PromptResponse> {
    const { signal } = turn;
    const { name, cancelTimeoutMs } = this.#options;
    const sessionId = this.#agentId as string;
    const takesImages = process.capabilities.promptCapabilities?.image === true;
    const prompt = promptBlocks(turn.prompt, { agent: name, takesImages, earlier });
    signal.throwIfAborted();
    turn.status('thinking...');
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      process.notify((agent) => agent.notify('session/cancel', { sessionId }));
      timer = setTimeout(() => process.kill(), cancelTimeoutMs);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const response = await process.call((agent) => agent.request('session/prompt', { sessionId, prompt }), undefined);
      const used = usageOf(response);
      if (used !== undefined) turn.usage(used);
      return response;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    }
  }

  #updatesFor(turn: Turn): TurnUpdates {
    return new TurnUpdates(turn, {
      mode: (id) => {
        this.#settings.modeChanged(id);
        this.#keepMode(turn);
      },
      options: (options) => {
        this.#settings.options(options);
        this.#keepMode(turn);
      },
      cost: (totalUsd) => {
        const added = this.#costUsd === undefined ? 0 : totalUsd - this.#costUsd;
        this.#costUsd = totalUsd;
        return added;
      },
    });
  }

  /** An agent that leaves its mode (a plan was accepted) has left it for the next turn too. */
  #keepMode({ log, id }: Turn): void {
    const { mode } = this.#settings;
    if (mode === undefined || mode === log.record.settings.mode) return;
    log.emit('session.configured', { settings: { ...log.record.settings, mode } }, id);
  }

  #client(): AgentClient {
    const { files } = this.#options;
    return {
      update: (sessionId, update) => {
        const running = this.#running;
        if (running === undefined || sessionId !== this.#agentId) return;
        try {
          running.updates.take(update);
        } catch (error) {
          running.turn.debug('acp.update_failed', { message: asError(error).message });
        }
      },
      permission: async ({ sessionId, toolCall, options }) => {
        const running = this.#running;
        if (running === undefined || sessionId !== this.#agentId) return { outcome: { outcome: 'cancelled' } };
        const { callId, fields } = running.updates.asked(toolCall);
        const count = (running.asked.get(callId) ?? 0) + 1;
        running.asked.set(callId, count);
        // A second request about a call is another question, not the first one repeated.
        const approval = await ask(running, permissionRequest(fields, count === 1 ? callId : `${callId}#${count}`));
        if (approval === undefined) return { outcome: { outcome: 'cancelled' } };
        if (approval.state === 'allowed') {
          for (const { path } of fields.locations ?? []) running.permitted.add(path);
          const { path } = inputOf(fields);
          if (typeof path === 'string') running.permitted.add(path);
        }
        return permissionAnswer(approval, options);
      },
      elicit: async (request) => {
        const question = questionOf(request);
        if (question === undefined || this.#running === undefined) return { action: 'cancel' };
        const approval = await ask(this.#running, question);
        return approval === undefined ? { action: 'cancel' } : questionAnswer(approval);
      },
      files: files && {
        read: async ({ sessionId, path, line, limit }, signal) => {
          const { turn } = await this.#allowed(sessionId, 'read_text_file', path, ['reads']);
          return files.readText(turn.cwd, path, { line: line ?? undefined, limit: limit ?? undefined }, signal);
        },
        write: async ({ sessionId, path, content }, signal) => {
          const { turn } = await this.#allowed(sessionId, 'write_text_file', path, ['writes']);
          await files.writeText(turn.cwd, path, content, signal);
        },
      },
    };
  }

  /** A file the agent wants of us is a tool call like any other, unless it was permitted with the call it belongs to. */
  async #allowed(sessionId: string, name: string, path: string, risks: readonly string[]): Promise<Running> {
    const running = this.#running;
    if (running === undefined || sessionId !== this.#agentId) throw fail('denied', 'no turn is running');
    if (running.permitted.has(path)) return running;
    const count = (running.asked.get(name) ?? 0) + 1;
    running.asked.set(name, count);
    const tool = { name, input: { path }, call_id: `${name}#${count}` };
    const approval = await ask(running, { kind: 'tool', title: `${name} ${path}`, tool, toolKind: 'file', risks });
    if (approval?.state !== 'allowed')
      throw fail('denied', `${name} was not allowed: ${approval?.reason ?? 'interrupted'}`);
    return running;
  }
}

/** Asks; undefined when the turn ended meanwhile. */
async function ask({ turn }: Running, request: ApprovalRequest): Promise<Approval | undefined> {
  try {
    return await turn.ask(request);
  } catch {
    return undefined;
  }
}

/** The agent's session this one had, unless it was another session's or another agent's. */
function storedId({ log: { record } }: Turn, backend: string): string | undefined {
  const { agentSession } = record.settings;
  return agentSession?.backend === backend && agentSession.session === record.id ? agentSession.id : undefined;
}

/** Token counts of a prompt, which agents add to its answer ahead of the protocol. */
function usageOf(response: PromptResponse): Usage | undefined {
  const { usage } = response as { usage?: Readonly<Record<string, unknown>> | null };
  if (typeof usage !== 'object' || usage === null) return undefined;
  const count = (name: string): number => (typeof usage[name] === 'number' ? (usage[name] as number) : 0);
  const input = count('inputTokens');
  const output = count('outputTokens');
  return {
    ...NO_USAGE,
    input_tokens: input,
    output_tokens: output,
    reasoning_tokens: count('thoughtTokens'),
    cached_input_tokens: count('cachedReadTokens'),
    total_tokens: count('totalTokens') || input + output,
  };
}

/**
 * A conversation with an agent of the Agent Client Protocol: its process, the agent's own session, its turns. Made by
 * `acp.ts`, which decides how long the process is kept.
 */
import { AgentProcess } from '../../acp/agent-process.ts';
import { AgentSettings, type Change } from '../../acp/agent-settings.ts';
import { mcpServersOf } from '../../acp/mcp-servers.ts';
import type { LoadSessionResponse, NewSessionResponse, PromptResponse, StopReason } from '../../acp/sdk.ts';
import type { StartProgram } from '../../acp/start-program.ts';
import { asError } from '../../wire/errors.ts';
import { programEnvironment } from '../program.ts';
import type { AcpTurn } from './acp-turn.ts';
import type { AcpConfig } from './config.ts';
import type { ExecutorContext, ExecutorOutcome, ExecutorTask } from './executor.ts';
import { objectOf } from './usage.ts';

/** The configuration with its defaults. */
export type AcpSettings = AcpConfig &
  Required<
    Pick<AcpConfig, 'name' | 'permissions' | 'startTimeoutMs' | 'cancelTimeoutMs' | 'idleTimeoutMs' | 'maxMessageBytes'>
  >;

export interface AcpConversationParts {
  readonly settings: AcpSettings;
  readonly start: StartProgram;
  readonly version: string;
  /** Told of each line of the agent's stderr. */
  readonly log: (line: string) => void;
}

/** Where the agent's session is kept between turns. */
export interface KeptSession {
  readonly session: string | undefined;
  /** Resolves when it is on disk. */
  keep(session: string): Promise<void>;
}

const ENDINGS: Readonly<Partial<Record<StopReason, ExecutorOutcome['ending']>>> = {
  max_tokens: 'limit',
  max_turn_requests: 'limit',
  refusal: 'refused',
  cancelled: 'stopped',
};

/** The agent of a conversation, in one directory at a time. */
export class AcpConversation {
  readonly #parts: AcpConversationParts;
  readonly #settings = new AgentSettings();
  #process: AgentProcess | undefined;
  #cwd = '';
  /** The agent's session in `#process`. */
  #session: string | undefined;
  /** What that session has cost; undefined: it is older than the process, and nothing was told yet. */
  #costUsd: number | undefined;
  #turn: AcpTurn | undefined;

  constructor(parts: AcpConversationParts) {
    this.#parts = parts;
  }

  get busy(): boolean {
    return this.#turn !== undefined;
  }

  get alive(): boolean {
    return this.#process?.alive === true;
  }

  /**
   * Runs a turn. Rejects with what kept the agent from being started or from opening its session; what happens after the
   * prompt was sent is the outcome.
   */
  async run(task: ExecutorTask, context: ExecutorContext, kept: KeptSession, turn: AcpTurn): Promise<ExecutorOutcome> {
    const { signal } = context;
    const warnings: string[] = [];
    this.#turn = turn;
    const end = (ending: ExecutorOutcome['ending'], failure?: string): ExecutorOutcome => ({
      text: turn.text,
      ending,
      exitCode: null,
      usage: turn.usage,
      ...(failure !== undefined && { failure }),
      ...(warnings.length > 0 && { warnings }),
    });
    try {
      const process = await this.#started(context);
      warnings.push(...(await this.#joined(process, context, kept)));
      await this.#configured(process, signal);
      try {
        const reason = await this.#prompted(process, task.prompt, turn, signal);
        return end(signal.aborted ? 'stopped' : (ENDINGS[reason] ?? 'completed'));
      } catch (error) {
        return signal.aborted ? end('stopped') : end('completed', asError(error).message);
      }
    } catch (error) {
      if (signal.aborted) return end('stopped');
      throw asError(error, 'provider_error');
    } finally {
      turn.end();
      this.#turn = undefined;
    }
  }

  /** Ends the process. Bounded, never rejects. */
  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    this.#session = undefined;
    await process?.close();
  }

  /** The process, started if need be, and anew for another directory. */
  async #started({ cwd, signal, events }: ExecutorContext): Promise<AgentProcess> {
    if (this.#process?.alive === true && this.#cwd === cwd) return this.#process;
    await this.close();
    signal.throwIfAborted();
    const { settings, start, version, log } = this.#parts;
    const { name, command, args, startTimeoutMs, maxMessageBytes } = settings;
    events.progress('starting', name);
    // Some programs believe PWD before the system.
    const env = { ...programEnvironment(settings.env), PWD: cwd };
    const client = {
      update: (session: string, update: unknown): void => this.#update(session, update),
      permission: async (request: Parameters<AcpTurn['permission']>[0]) =>
        this.#turn === undefined || request.sessionId !== this.#session
          ? { outcome: { outcome: 'cancelled' as const } }
          : this.#turn.permission(request),
      elicit: async (request: Parameters<AcpTurn['elicit']>[0]) =>
        this.#turn === undefined ? { action: 'cancel' as const } : this.#turn.elicit(request),
    };
    const options = { name, command, args, env, cwd, version, start, client, maxMessageBytes, startTimeoutMs, log };
    this.#process = await AgentProcess.start(options, signal);
    this.#cwd = cwd;
    return this.#process;
  }

  /** Opens the agent's session: the one it has, one it finds again, or a new one. Returns what there is to say of it. */
  async #joined(process: AgentProcess, { cwd, signal }: ExecutorContext, kept: KeptSession): Promise<string[]> {
    const { session: stored } = kept;
    if (this.#session !== undefined && this.#session === stored) return [];
    const { startTimeoutMs, mcpServers } = this.#parts.settings;
    const { capabilities } = process;
    const place = { cwd, mcpServers: mcpServersOf(mcpServers, capabilities) };
    const { resume } = capabilities.sessionCapabilities ?? {};
    if (stored !== undefined && (resume || capabilities.loadSession)) {
      const params = { ...place, sessionId: stored };
      try {
        const again = await process.call<LoadSessionResponse>(
          (agent) => (resume ? agent.request('session/resume', params) : agent.request('session/load', params)),
          signal,
          startTimeoutMs,
        );
        this.#join(stored, again, undefined);
        return [];
      } catch (error) {
        signal.throwIfAborted();
        if (!process.alive) throw error;
      }
    }
    const created = await process.call<NewSessionResponse>(
      (agent) => agent.request('session/new', place),
      signal,
      startTimeoutMs,
    );
    this.#join(created.sessionId, created, 0);
    const warnings = stored === undefined ? [] : ['the earlier conversation was not found; a new one was begun'];
    try {
      await kept.keep(created.sessionId);
    } catch (error) {
      warnings.push(`the conversation could not be kept: ${asError(error).message}`);
    }
    return warnings;
  }

  #join(session: string, settings: Parameters<AgentSettings['take']>[0], costUsd: number | undefined): void {
    this.#session = session;
    this.#settings.take(settings ?? {});
    this.#costUsd = costUsd;
  }

  async #configured(process: AgentProcess, signal: AbortSignal): Promise<void> {
    const { mode, model, name } = this.#parts.settings;
    if (mode !== undefined) {
      await this.#change(process, this.#settings.toMode(mode, name), signal);
      this.#settings.modeChanged(mode);
    }
    if (model !== undefined) await this.#change(process, this.#settings.toModel(model), signal);
  }

  async #change(process: AgentProcess, change: Change | undefined, signal: AbortSignal): Promise<void> {
    const sessionId = this.#session;
    if (change === undefined || sessionId === undefined) return;
    const { startTimeoutMs } = this.#parts.settings;
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

  /** Sends the prompt, and what is said meanwhile behind it, until nothing is left to be said. */
  async #prompted(process: AgentProcess, prompt: string, turn: AcpTurn, signal: AbortSignal): Promise<StopReason> {
    const sessionId = this.#session as string;
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      process.notify((agent) => agent.notify('session/cancel', { sessionId }));
      // One that does not end its turn is ended.
      timer = setTimeout(() => process.kill(), this.#parts.settings.cancelTimeoutMs);
    };
    signal.throwIfAborted();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      for (let text: string | undefined = prompt; ; ) {
        const blocks = [{ type: 'text' as const, text }];
        const response = await process.call<PromptResponse>(
          (agent) => agent.request('session/prompt', { sessionId, prompt: blocks }),
          undefined,
        );
        turn.prompted(response);
        if (response.stopReason !== 'end_turn' || signal.aborted) return response.stopReason;
        text = turn.next();
        if (text === undefined) return response.stopReason;
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    }
  }

  #update(session: string, value: unknown): void {
    // What is replayed while a session is loaded belongs to earlier turns.
    if (this.#turn === undefined || session !== this.#session) return;
    const update = objectOf(value);
    if (update?.sessionUpdate === 'usage_update') {
      const cost = objectOf(update.cost);
      if (typeof cost?.amount === 'number' && cost.currency === 'USD') {
        const added = this.#costUsd === undefined ? 0 : cost.amount - this.#costUsd;
        this.#costUsd = cost.amount;
        if (added > 0) this.#turn.cost(added);
      }
    }
    this.#turn.update(value);
  }
}

/**
 * A conversation with an agent: its process, the agent's session, and one prompt after the other. The owner decides
 * when it is closed, where the id of its session is stored, and how updates and requests of the agent are handled.
 */
import { asError, fail, type HandfastError } from '../wire/errors.ts';
import { AgentProcess, type AgentProcessOptions } from './agent-process.ts';
import { AgentSettings, type Change } from './agent-settings.ts';
import type { AgentLoan } from './loan.ts';
import { mcpServersOf } from './mcp-servers.ts';
import type {
  AgentCapabilities,
  ClientContext,
  ContentBlock,
  LoadSessionResponse,
  NewSessionResponse,
  PromptResponse,
} from './sdk.ts';

export interface AgentConversationOptions extends Omit<AgentProcessOptions, 'cwd' | 'loan'> {
  /** Time for an agent to end a cancelled prompt before it is killed, in milliseconds. */
  readonly cancelTimeoutMs: number;
}

/** Options with which an agent's session is opened. */
export interface SessionPlace {
  /** Absolute. */
  readonly cwd: string;
  readonly mcpServers: readonly Readonly<Record<string, unknown>>[] | undefined;
  /** Id of the session to continue. */
  readonly stored: string | undefined;
}

/** An opened session. */
export interface OpenedSession {
  readonly id: string;
  /** The agent knows nothing of the conversation. */
  readonly isNew: boolean;
  /** Reason why the agent refused to continue the stored session. */
  readonly refused?: HandfastError;
}

export class AgentConversation {
  /** The agent's modes and options. */
  readonly settings = new AgentSettings();
  readonly #options: AgentConversationOptions;
  #process: AgentProcess | undefined;
  #cwd = '';
  /** The agent's session in `#process`. */
  #session: string | undefined;
  /** The cost of that session; undefined: it is older than the process, and no cost was reported yet. */
  #costUsd: number | undefined;
  #closed = false;

  constructor(options: AgentConversationOptions) {
    this.#options = options;
  }

  /** True while the agent's process lives. */
  get alive(): boolean {
    return this.#process?.alive === true;
  }

  /** The agent's capabilities. */
  get capabilities(): AgentCapabilities {
    return this.#process?.capabilities ?? {};
  }

  /**
   * Returns true for the session that is open. Updates that are replayed while it loads, and late ones of another
   * session, do not concern it.
   */
  isOpen(session: string): boolean {
    return session === this.#session;
  }

  /** Returns true when the agent needs no start to work in a directory. */
  runsIn(cwd: string): boolean {
    return this.alive && this.#cwd === cwd;
  }

  /**
   * Starts the agent in a directory, unless it runs there; one that runs elsewhere is ended. Fails as `AgentProcess.start`,
   * and with `session_closed` once it was closed.
   *
   * @param loan the files and terminals it may use as long as it runs
   */
  async start(cwd: string, signal: AbortSignal, loan?: AgentLoan): Promise<void> {
    if (this.runsIn(cwd)) return;
    await this.end();
    signal.throwIfAborted();
    this.#process = await AgentProcess.start({ ...this.#options, cwd, loan }, signal);
    this.#cwd = cwd;
    // A caller of `close` meanwhile had no process to wait for.
    if (this.#closed) {
      await this.end();
      throw fail('session_closed', 'the session was closed while its agent started');
    }
  }

  /** Opens the agent's session: the one it has, one it finds again, or a new one. Fails as `AgentProcess.call`. */
  async open({ cwd, mcpServers, stored }: SessionPlace, signal: AbortSignal): Promise<OpenedSession> {
    if (stored !== undefined && stored === this.#session) return { id: stored, isNew: false };
    const { resume, close } = this.capabilities.sessionCapabilities ?? {};
    const place = { cwd, mcpServers: mcpServersOf(mcpServers, this.capabilities) };
    let refused: HandfastError | undefined;
    if (stored !== undefined && (resume || this.capabilities.loadSession)) {
      const params = { ...place, sessionId: stored };
      try {
        const found = await this.#ask<LoadSessionResponse>(
          (agent) => (resume ? agent.request('session/resume', params) : agent.request('session/load', params)),
          signal,
        );
        this.#join(stored, found, undefined);
        return { id: stored, isNew: false };
      } catch (error) {
        signal.throwIfAborted();
        if (!this.alive) throw error;
        refused = asError(error);
      }
    }
    const old = this.#session;
    const created = await this.#ask<NewSessionResponse>((agent) => agent.request('session/new', place), signal);
    if (old !== undefined && close) {
      this.#agent().notify(async (agent) => void (await agent.request('session/close', { sessionId: old })));
    }
    const id = created.sessionId;
    this.#join(id, created, 0);
    return { id, isNew: true, ...(refused !== undefined && { refused }) };
  }

  /** Puts the open session into a mode and chooses its model. @throws not_configured for a mode the agent does not have */
  async configure({ mode, model }: { mode?: string; model?: string }, signal: AbortSignal): Promise<void> {
    if (mode !== undefined) {
      await this.#change(this.settings.toMode(mode, this.#options.name), signal);
      this.settings.modeChanged(mode);
    }
    if (model !== undefined) await this.#change(this.settings.toModel(model), signal);
  }

  /**
   * Sends a prompt to the open session and waits for its end. When `signal` aborts the agent gets a cancel; its end is waited for
   * then too, but not for ever. Fails as `AgentProcess.call`.
   */
  async prompt(prompt: ContentBlock[], signal: AbortSignal): Promise<PromptResponse> {
    const process = this.#agent();
    const sessionId = this.#session as string;
    signal.throwIfAborted();
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      process.notify((agent) => agent.notify('session/cancel', { sessionId }));
      timer = setTimeout(() => process.kill(), this.#options.cancelTimeoutMs);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return await process.call<PromptResponse>(
        (agent) => agent.request('session/prompt', { sessionId, prompt }),
        undefined,
      );
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    }
  }

  /** Records the total cost of the open session; returns the increase, 0 where that is unknown. */
  costAdded(totalUsd: number): number {
    const added = this.#costUsd === undefined ? 0 : totalUsd - this.#costUsd;
    this.#costUsd = totalUsd;
    return added;
  }

  /** Ends the process, for good. Bounded, never rejects. */
  close(): Promise<void> {
    this.#closed = true;
    return this.end();
  }

  /** Ends the process; the next `start` starts another. Bounded, never rejects. */
  async end(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    this.#session = undefined;
    await process?.close();
  }

  #agent(): AgentProcess {
    if (this.#process === undefined) throw fail('session_closed', 'the session was closed');
    return this.#process;
  }

  #ask<Result>(send: (agent: ClientContext) => Promise<Result>, signal: AbortSignal): Promise<Result> {
    return this.#agent().call(send, signal, this.#options.startTimeoutMs);
  }

  #join(id: string, settings: Parameters<AgentSettings['take']>[0], costUsd: number | undefined): void {
    this.#session = id;
    this.settings.take(settings ?? {});
    this.#costUsd = costUsd;
  }

  async #change(change: Change | undefined, signal: AbortSignal): Promise<void> {
    const sessionId = this.#session;
    if (change === undefined || sessionId === undefined) return;
    if (change.kind === 'mode') {
      const { modeId } = change;
      await this.#ask((agent) => agent.request('session/set_mode', { sessionId, modeId }), signal);
      return;
    }
    const { configId, value } = change;
    const answer = await this.#ask(
      (agent) => agent.request('session/set_config_option', { sessionId, configId, value }),
      signal,
    );
    this.settings.options(answer?.configOptions);
  }
}

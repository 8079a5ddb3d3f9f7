/**
 * The agent process of a conversation, with its turns one after the other. `acp.ts` decides how long the idle process lives and
 * where its session is stored.
 */
import { AgentConversation } from '../../../acp/agent-conversation.ts';
import { CANCELLED } from '../../../acp/answers.ts';
import { refusedMcpServers } from '../../../acp/mcp-servers.ts';
import type { StopReason } from '../../../acp/sdk.ts';
import type { StartProgram } from '../../../acp/start-program.ts';
import { programEnvironment } from '../../../base/program.ts';
import { mcpRefusal } from '../../../protocol/session-words.ts';
import { asError } from '../../../wire/errors.ts';
import { canonicalName } from '../../messages/names.ts';
import type { AcpConfig } from '../config.ts';
import type { ExecutorContext, ExecutorOutcome, ExecutorTask } from '../executor.ts';
import { objectOf } from '../programs/frame.ts';
import type { AcpTurn } from './acp-turn.ts';
import { environmentServer } from './environment-server.ts';

/** The configuration with its defaults. */
export type AcpSettings = AcpConfig &
  Required<Pick<AcpConfig, 'name' | 'permissions' | 'startTimeoutMs' | 'cancelTimeoutMs'>>;

export interface AcpConversationDeps {
  readonly settings: AcpSettings;
  readonly start: StartProgram;
  readonly version: string;
  /** Called with each line of the agent's stderr. */
  readonly log: (line: string) => void;
}

/** Access to the stored session id of the agent. */
export interface StoredSession {
  /** The session of the previous turns; undefined: none. */
  readonly session: string | undefined;
  /** Stores a new session id; resolves when it is on disk. */
  store(session: string): Promise<void>;
}

/** Maximum size of one message, bytes: diffs carry whole files. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

const ENDINGS: Readonly<Partial<Record<StopReason, ExecutorOutcome['ending']>>> = {
  max_tokens: 'limit',
  max_turn_requests: 'limit',
  refusal: 'refused',
  cancelled: 'stopped',
};

export class AcpConversation {
  readonly #settings: AcpSettings;
  readonly #agent: AgentConversation;
  #turn: AcpTurn | undefined;
  /** The token of the environment that the agent's session was opened with. */
  #token: string | undefined;

  constructor({ settings, start, version, log }: AcpConversationDeps) {
    const { name, command, args, startTimeoutMs, cancelTimeoutMs } = settings;
    this.#settings = settings;
    this.#agent = new AgentConversation({
      ...{ name, command, args, env: programEnvironment(settings.env), start, version, log },
      ...{ startTimeoutMs, cancelTimeoutMs, maxMessageBytes: MAX_MESSAGE_BYTES },
      client: {
        update: (session, update) => this.#update(session, update),
        permission: async (request) => this.#turnOf(request.sessionId)?.permission(request) ?? CANCELLED,
        elicit: async (request) => this.#turn?.elicit(request) ?? { action: 'cancel' },
      },
    });
  }

  get busy(): boolean {
    return this.#turn !== undefined;
  }

  get alive(): boolean {
    return this.#agent.alive;
  }

  /**
   * Runs a turn. Rejects when the agent could not start or open its session; a failure after the prompt was sent is part of
   * the outcome.
   */
  async run(
    task: ExecutorTask,
    context: ExecutorContext,
    stored: StoredSession,
    turn: AcpTurn,
  ): Promise<ExecutorOutcome> {
    const { signal } = context;
    const warnings: string[] = [];
    this.#turn = turn;
    const end = (ending: ExecutorOutcome['ending'], failure?: string): ExecutorOutcome => {
      const { text, cut } = turn.reply;
      if (cut) warnings.push('its reply exceeds the stored limit; its start is left out');
      return {
        text,
        ending,
        exitCode: null,
        usage: turn.usage,
        ...(failure !== undefined && { failure }),
        ...(warnings.length > 0 && { warnings }),
      };
    };
    try {
      warnings.push(...(await this.#open(context, stored)));
      try {
        const reason = await this.#prompt(task.prompt, turn, signal);
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
  close(): Promise<void> {
    return this.#agent.close();
  }

  /** Starts the agent, if need be, and opens its session. Returns warnings about that. */
  async #open({ cwd, signal, events, environment }: ExecutorContext, sessionStore: StoredSession): Promise<string[]> {
    const { name } = this.#settings;
    const { session: stored } = sessionStore;
    // Agents learn of servers when they open a session, and the one of an earlier task is gone.
    if (environment?.token !== this.#token) await this.#agent.end();
    this.#token = environment?.token;
    if (!this.#agent.runsIn(cwd)) events.progress('starting', name);
    await this.#agent.start(cwd, signal);
    const mcpServers = [
      ...(this.#settings.mcpServers ?? []),
      ...(environment === undefined ? [] : [environmentServer(environment, this.#agent.capabilities)]),
    ];
    const { id, isNew } = await this.#agent.open({ cwd, mcpServers, stored }, signal);
    const warnings = this.#reportRefused(events);
    signal.throwIfAborted();
    if (isNew) {
      if (stored !== undefined) warnings.push('the earlier conversation was not found; a new one was started');
      await sessionStore.store(id).catch((error: unknown) => {
        warnings.push(`the conversation could not be stored: ${asError(error).message}`);
      });
    }
    await this.#agent.configure(this.#settings, signal);
    return warnings;
  }

  /** Reports the MCP servers of the configuration that this agent cannot use. Ends the turn where its task requires one. */
  #reportRefused(events: ExecutorContext['events']): string[] {
    const { name: agent, mcpServers } = this.#settings;
    const refused = refusedMcpServers(mcpServers, this.#agent.capabilities);
    const lines = refused.map(({ name, reason }) => mcpRefusal(name, `${reason} (agent ${agent})`));
    for (const line of lines) events.progress('starting', line);
    if (refused.length > 0) {
      events.mcpHealth(new Map(refused.map(({ name }) => [canonicalName(name), 'error'])), false);
    }
    return lines;
  }

  /** Sends the prompt, then the input that arrived meanwhile, until none is left. */
  async #prompt(prompt: string, turn: AcpTurn, signal: AbortSignal): Promise<StopReason> {
    for (let text: string | undefined = prompt; ; ) {
      const response = await this.#agent.prompt([{ type: 'text', text }], signal);
      turn.prompted(response);
      if (response.stopReason !== 'end_turn' || signal.aborted) return response.stopReason;
      text = turn.next();
      if (text === undefined) return response.stopReason;
    }
  }

  /** Returns the running turn, if the agent's session is the open one. */
  #turnOf(session: string): AcpTurn | undefined {
    return this.#agent.isOpen(session) ? this.#turn : undefined;
  }

  #update(session: string, value: unknown): void {
    const turn = this.#turnOf(session);
    if (turn === undefined) return;
    const update = objectOf(value);
    if (update?.sessionUpdate === 'usage_update') {
      const cost = objectOf(update.cost);
      if (typeof cost?.amount === 'number' && cost.currency === 'USD') {
        const added = this.#agent.costAdded(cost.amount);
        if (added > 0) turn.cost(added);
      }
    }
    turn.update(value);
  }
}

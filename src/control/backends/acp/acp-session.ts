/**
 * The agent behind one session: its process, its own session, and the turns it gets. `acp.ts` decides when it is closed.
 *
 * The agent's knowledge of the conversation lives in its own session, whose id is a setting of the session here, so that it is
 * found again after a restart. Where the agent's session cannot be found again, the conversation is sent to the agent as text.
 */
import { AgentConversation, type AgentConversationOptions } from '../../../acp/agent-conversation.ts';
import type { AgentClient } from '../../../acp/agent-process.ts';
import { CANCELLED, promptTokens } from '../../../acp/answers.ts';
import type { AgentLoan } from '../../../acp/loan.ts';
import { refusedMcpServers } from '../../../acp/mcp-servers.ts';
import type { PromptResponse } from '../../../acp/sdk.ts';
import { shownDiffs } from '../../../acp/tool-facts.ts';
import { orAborted } from '../../../base/race.ts';
import type { Approval, Usage } from '../../../protocol/session-types.ts';
import { NO_USAGE } from '../../../protocol/session-types.ts';
import { mcpRefusal } from '../../../protocol/session-words.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ApprovalRequest } from '../../contract/approver.ts';
import type { Turn, TurnOutcome } from '../../contract/backend.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import type { Toolbox } from '../../rounds/toolbox.ts';
import { permissionAnswer, permissionRequest, questionAnswer, questionOf, withinRights } from './permission.ts';
import { promptBlocks } from './prompt-blocks.ts';
import { loanOffer, TurnTools } from './turn-tools.ts';
import { TurnUpdates } from './updates.ts';

export interface AgentSessionOptions extends Omit<AgentConversationOptions, 'client' | 'acquire'> {
  /** Waits until `count` processes may be started; the function it resolves with is called once they have ended. */
  readonly acquire: (count: number, signal: AbortSignal) => Promise<() => void>;
  /** Folder in which the process is started; default: the session's directory. */
  readonly cwd?: string;
  /** The tools that serve the agent's requests for files and terminals. Default: it gets neither. */
  readonly toolboxOf?: ((turn: Turn) => Toolbox) | undefined;
}

/** Longest title of an agent, in characters. */
const MAX_TITLE_CHARACTERS = 120;

const oneLine = (text: string): string => text.trim().replace(/\s+/g, ' ');

/** The turn that runs. */
interface Running {
  readonly turn: Turn;
  readonly updates: TurnUpdates;
  /** Undefined where the agent gets no files and terminals. */
  readonly tools: TurnTools | undefined;
  /** Permission requests by call: an agent may ask about one call several times. */
  readonly asked: Map<string, number>;
}

const STOP_REASONS: Readonly<Record<string, TurnOutcome['stopReason']>> = {
  end_turn: 'end_turn',
  max_tokens: 'max_tokens',
  max_turn_requests: 'max_rounds',
  refusal: 'refusal',
  cancelled: 'interrupted',
};

export class AcpSession {
  readonly #options: AgentSessionOptions;
  readonly #conversation: AgentConversation;
  #running: Running | undefined;
  /** The title the agent gave the session. */
  #title: string | undefined;

  constructor(options: AgentSessionOptions) {
    this.#options = options;
    this.#conversation = new AgentConversation({
      ...options,
      client: this.#client(),
      acquire: (signal) => options.acquire(1 + programsIn(this.#running?.turn.settings.mcpServers), signal),
    });
  }

  /** True while a turn runs. */
  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** True while the agent's process lives. */
  get alive(): boolean {
    return this.#conversation.alive;
  }

  /** Runs a turn; see `Backend.run`. Resolves with `interrupted` soon after the turn's signal aborted. */
  async run(turn: Turn): Promise<TurnOutcome> {
    const { signal, settings } = turn;
    const updates = this.#updatesFor(turn);
    const toolbox = this.#options.toolboxOf?.(turn);
    const printed = (terminalId: string, text: string): void => updates.printed(terminalId, text);
    const tools = toolbox && new TurnTools(turn, toolbox, printed);
    const running = { turn, updates, tools, asked: new Map() };
    this.#running = running;
    let why = 'the turn ended before the agent finished this call';
    try {
      await this.#started(turn, toolbox);
      const earlier = await this.#joined(turn);
      await this.#conversation.configure(settings, signal);
      const { stopReason } = await this.#prompted(turn, earlier);
      if (signal.aborted) return { stopReason: 'interrupted' };
      return { stopReason: STOP_REASONS[stopReason] ?? 'end_turn' };
    } catch (error) {
      if (signal.aborted) return { stopReason: 'interrupted' };
      why = asError(error).message;
      throw asError(error, 'provider_error');
    } finally {
      tools?.end();
      running.updates.finish(signal.aborted ? 'the turn was interrupted' : why);
      this.#running = undefined;
    }
  }

  /** Ends the process. Bounded, never rejects. */
  close(): Promise<void> {
    return this.#conversation.close();
  }

  async #started(turn: Turn, toolbox: Toolbox | undefined): Promise<void> {
    const { name, cwd = turn.cwd } = this.#options;
    if (this.#conversation.runsIn(cwd)) return;
    turn.status(`starting ${name}...`);
    const loan = toolbox && (await this.#loan(turn, toolbox));
    await this.#conversation.start(cwd, turn.signal, loan);
  }

  /**
   * Returns the tools lent to the agent as long as its process runs; undefined where the tools of the session cannot be
   * reached.
   */
  async #loan(turn: Turn, toolbox: Toolbox): Promise<AgentLoan | undefined> {
    try {
      const offer = await orAborted(loanOffer(toolbox), turn.signal);
      return {
        offer,
        request: async (method, params) => {
          const tools = this.#turnOf(params.sessionId)?.tools;
          if (tools !== undefined) return tools.request(method, params);
          throw fail('session_closed', 'no prompt runs in this session', { session_id: params.sessionId });
        },
      };
    } catch (error) {
      turn.signal.throwIfAborted();
      turn.debug('acp.no_tools', { message: asError(error).message });
      return undefined;
    }
  }

  /** Opens the agent's session. Returns the conversation that a new one must be sent. */
  async #joined(turn: Turn): Promise<readonly HistoryItem[]> {
    const { cwd, history, id: turnId, log, settings, signal } = turn;
    const { name } = this.#options;
    // An empty history is a new conversation, or a cleared one: the agent must not know an earlier one.
    const stored = history.length === 0 ? undefined : storedId(turn, name);
    const opened = await this.#conversation.open({ cwd, mcpServers: settings.mcpServers, stored }, signal);
    if (opened.refused !== undefined) turn.debug('acp.resume_failed', { message: opened.refused.message });
    if (!opened.isNew) return [];
    for (const server of refusedMcpServers(settings.mcpServers, this.#conversation.capabilities)) {
      log.appendMessage('system', mcpRefusal(server.name, `${server.reason} (agent ${name})`), turnId);
    }
    const { record } = log;
    const agentSession = { backend: name, id: opened.id, session: record.id };
    log.emit('session.configured', { settings: { ...record.settings, agentSession } }, turnId);
    return history;
  }

  async #prompted(turn: Turn, earlier: readonly HistoryItem[]): Promise<PromptResponse> {
    const takes = this.#conversation.capabilities.promptCapabilities;
    const prompt = promptBlocks(turn.prompt, { agent: this.#options.name, takes, earlier });
    turn.signal.throwIfAborted();
    turn.status('thinking...');
    const response = await this.#conversation.prompt(prompt, turn.signal);
    const used = usageOf(response);
    if (used !== undefined) turn.usage(used);
    return response;
  }

  #updatesFor(turn: Turn): TurnUpdates {
    return new TurnUpdates(turn, {
      mode: (id) => {
        this.#conversation.settings.modeChanged(id);
        this.#keepMode(turn);
      },
      options: (options) => {
        this.#conversation.settings.options(options);
        this.#keepMode(turn);
      },
      title: (title) => this.#name(turn, title),
      cost: (totalUsd) => this.#conversation.costAdded(totalUsd),
    });
  }

  /** Gives the session the agent's title, unless a user named it: until then it has the beginning of its first prompt. */
  #name({ log, prompt, id }: Turn, given: string): void {
    const title = [...oneLine(given)].slice(0, MAX_TITLE_CHARACTERS).join('');
    const { title: now, history } = log.record;
    const first = history.find((item) => item.role === 'user')?.text ?? prompt.text;
    const isOurs = now === this.#title || oneLine(first).startsWith(now);
    if (title === '' || title === now || !isOurs) return;
    this.#title = title;
    log.emit('session.renamed', { title }, id);
  }

  /** Stores the mode: an agent that leaves its mode (a plan was accepted) has left it for the next turn too. */
  #keepMode({ log, id }: Turn): void {
    const { mode } = this.#conversation.settings;
    if (mode === undefined || mode === log.record.settings.mode) return;
    log.emit('session.configured', { settings: { ...log.record.settings, mode } }, id);
  }

  #client(): AgentClient {
    return {
      update: (session, update) => {
        const running = this.#turnOf(session);
        try {
          running?.updates.take(update);
        } catch (error) {
          running?.turn.debug('acp.update_failed', { message: asError(error).message });
        }
      },
      permission: async ({ sessionId, toolCall, options }) => {
        const running = this.#turnOf(sessionId);
        if (running === undefined) return CANCELLED;
        const { callId, fields } = running.updates.asked(toolCall);
        const count = (running.asked.get(callId) ?? 0) + 1;
        running.asked.set(callId, count);
        // A second request about a call is another question, not the first one repeated.
        const request = permissionRequest(fields, count === 1 ? callId : `${callId}#${count}`);
        const approval = await ask(running, withinRights(request, running.turn.principal));
        if (approval === undefined) return CANCELLED;
        // The user, who saw it, allowed it; not a rule.
        if (approval.state === 'allowed' && approval.answer !== undefined)
          running.tools?.allowed(shownDiffs(fields).whole);
        return permissionAnswer(approval, options);
      },
      elicit: async (request) => {
        const question = questionOf(request);
        if (question === undefined || this.#running === undefined) return { action: 'cancel' };
        const approval = await ask(this.#running, question);
        return approval === undefined ? { action: 'cancel' } : questionAnswer(approval);
      },
    };
  }

  /** Returns the running turn that a message of an agent's session is about. */
  #turnOf(session: string): Running | undefined {
    return this.#conversation.isOpen(session) ? this.#running : undefined;
  }
}

/** Counts the MCP servers of a session that the agent starts as programs. */
function programsIn(servers: readonly Readonly<Record<string, unknown>>[] = []): number {
  return servers.filter(({ command }) => typeof command === 'string').length;
}

/** Asks; undefined when the turn ended meanwhile. */
async function ask({ turn }: Running, request: ApprovalRequest): Promise<Approval | undefined> {
  try {
    return await turn.ask(request);
  } catch {
    return undefined;
  }
}

/** Returns the agent's session that this one had, unless it was another session's or another agent's. */
function storedId({ log: { record } }: Turn, backend: string): string | undefined {
  const { agentSession } = record.settings;
  return agentSession?.backend === backend && agentSession.session === record.id ? agentSession.id : undefined;
}

function usageOf(response: PromptResponse): Usage | undefined {
  const tokens = promptTokens(response);
  return (
    tokens && {
      ...NO_USAGE,
      input_tokens: tokens.input,
      output_tokens: tokens.output,
      reasoning_tokens: tokens.thought,
      cached_input_tokens: tokens.cachedRead,
      total_tokens: tokens.total,
    }
  );
}

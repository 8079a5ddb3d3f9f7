/**
 * Questions that MCP servers ask while a call of a session runs (elicitation): put to the user of the session like those of a
 * model. The server gets the answer, or learns that the user gave none. The servers are those of a session, and those of its
 * host ({@link HostQuestions}); tools of the host may ask, too.
 *
 * A server can ask for a form, or that the user opens an address. It cannot ask without end: past a number of questions in a
 * turn the rest are declined.
 */
import type { McpAnswerer, McpAsk } from '../../mcp/asks.ts';
import type { Approval } from '../../protocol/session-types.ts';
import { mcpDone } from '../../protocol/session-words.ts';
import { fail } from '../../wire/errors.ts';
import type { ApprovalRequest } from '../contract/approver.ts';
import type { Turn } from '../contract/backend.ts';

/** Questions of one server in a turn. */
const MAX_QUESTIONS = 16;
/** Time for an answer in milliseconds; less than the call that asks has. */
const ANSWER_MS = 10 * 60_000;
const MAX_MESSAGE_CHARACTERS = 2000;

type Fields = Readonly<Record<string, unknown>>;

/**
 * Puts the questions of a server to the user of the turn. Rejects with `tool_denied` for a request that is no question to a
 * user.
 */
export function questionsTo(turn: Pick<Turn, 'id' | 'ask' | 'log'>, server: string): McpAnswerer {
  let asked = 0;
  /** The addresses that the user was asked to open. */
  const opened = new Map<unknown, string>();
  const answer = async ({ method, params, signal }: McpAsk): Promise<Fields> => {
    if (method !== 'elicitation/create') throw fail('tool_denied', `${method} is not answered here`);
    const request = questionOf(server, params);
    asked += 1;
    if (request === undefined || asked > MAX_QUESTIONS) return { action: 'decline' };
    if (params.mode === 'url') opened.set(params.elicitationId, new URL(String(params.url)).href);
    return answerOf(await turn.ask(request, signal));
  };
  return Object.assign(answer, {
    completed(id: string) {
      const href = opened.get(id);
      if (href !== undefined && opened.delete(id)) turn.log.appendMessage('system', mcpDone(server, href), turn.id);
    },
  });
}

/** Returns the question; undefined for one that cannot be shown. */
function questionOf(server: string, { mode = 'form', message = '', requestedSchema, url }: Fields) {
  const text = String(message).slice(0, MAX_MESSAGE_CHARACTERS);
  const question = (title: string, schema: Fields): ApprovalRequest => {
    return { kind: 'question', title: `MCP server "${server}" ${title}`, risks: [], schema, timeoutMs: ANSWER_MS };
  };
  if (mode === 'form' && typeof requestedSchema === 'object' && requestedSchema !== null) {
    return question(`asks: ${text}`, { type: 'object', ...requestedSchema });
  }
  if (mode !== 'url' || typeof url !== 'string' || !URL.canParse(url)) return undefined;
  // Normalised: it cannot look like another one.
  const { protocol, href } = new URL(url);
  if (!['https:', 'http:'].includes(protocol) || href.length > MAX_MESSAGE_CHARACTERS) return undefined;
  return question(`asks you to open ${href} : ${text}`, { type: 'object', properties: {} });
}

function answerOf({ state, answer }: Approval): Fields {
  if (state === 'allowed') return { action: 'accept', content: answer?.content ?? {} };
  return { action: state === 'denied' ? 'decline' : 'cancel' };
}

/** Questions of the host of a session to its user: put in the running turn; cancelled when no turn runs. */
export class HostQuestions {
  readonly #answerers = new Map<string, McpAnswerer>();
  #turn: (Pick<Turn, 'id' | 'ask' | 'log'> & { readonly signal: AbortSignal }) | undefined;

  /** Notes that a turn has begun. */
  during(turn: Pick<Turn, 'id' | 'ask' | 'log' | 'signal'>): void {
    if (this.#turn?.id !== turn.id) this.#answerers.clear();
    this.#turn = turn;
  }

  /**
   * Asks the user; rejects as {@link questionsTo}.
   * @param server its name at the host; '' for a tool of the host itself
   */
  async answer(server: string, ask: McpAsk): Promise<Fields> {
    const turn = this.#turn;
    if (turn === undefined || turn.signal.aborted) return { action: 'cancel' };
    let answerer = this.#answerers.get(server);
    if (answerer === undefined) {
      answerer = questionsTo(turn, server === '' ? 'host' : server);
      this.#answerers.set(server, answerer);
    }
    return answerer(ask);
  }

  /** Notes that a server reports that the user has completed the step at an address. */
  completed(server: string, id: string): void {
    this.#answerers.get(server)?.completed?.(id);
  }
}

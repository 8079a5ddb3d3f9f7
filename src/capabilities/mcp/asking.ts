/**
 * Questions of MCP servers to agents: passed on to the session whose call runs, within the limits of the server's
 * configuration, a budget for each session and a deadline. The agent must have a handler.
 *
 * A part of `plugin.ts`. @see docs/mcp.md#questions-of-servers
 */
import { counted } from '../../base/counted.ts';
import type { SessionView } from '../../host/context.ts';
import { ELICITATION_COMPLETE, type McpAnswerer, type McpAsk } from '../../mcp/asks.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import type { ElicitResp, SampleReq, SampleResp } from './mcp.schema.ts';
import * as messages from './messages.ts';

export interface AskingLimits {
  /** Maximum number of questions to one session. */
  readonly maxAsks: number;
  /** Maximum tokens that servers request of one session, all samplings together. */
  readonly maxAskTokens: number;
  /** Longest wait for an answer. */
  readonly askTimeoutMs: number;
}

export class Asking {
  readonly #limits: AskingLimits;
  readonly #spent = new WeakMap<SessionView, { asks: number; tokens: number }>();
  readonly #answerers = new WeakMap<SessionView, Map<string, McpAnswerer>>();

  constructor(limits: AskingLimits) {
    this.#limits = limits;
  }

  /** Returns the answerer for calls of a session at a server, which is one object for all of them. */
  answererOf(session: SessionView, server: string): McpAnswerer {
    const own = this.#answerers.get(session) ?? new Map<string, McpAnswerer>();
    this.#answerers.set(session, own);
    let answerer = own.get(server);
    if (answerer === undefined) {
      answerer = Object.assign((ask: McpAsk) => this.#answer(session, server, ask), {
        completed(id: string) {
          const content = { server_id: server, method: ELICITATION_COMPLETE, params: { elicitationId: id } };
          session.push(messages.serverPush, content);
        },
      });
      own.set(server, answerer);
    }
    return answerer;
  }

  async #answer(session: SessionView, server: string, ask: McpAsk): Promise<Readonly<Record<string, unknown>>> {
    const isSampling = ask.method === 'sampling/createMessage';
    this.#spend(session, isSampling ? Math.max(0, Math.ceil(Number(ask.params.maxTokens) || 0)) : 0);
    const options = { signal: ask.signal, timeoutMs: this.#limits.askTimeoutMs };
    try {
      if (!isSampling) return elicited(await session.ask(messages.elicit, elicitOf(server, ask), options));
      return sampled(await session.ask(messages.sample, sampleOf(server, ask), options));
    } catch (thrown) {
      throw refusalOf(asError(thrown), ask);
    }
  }

  /** Counts a question. Fails with `mcp_sampling_refused` if the budget of the session does not cover it. */
  #spend(session: SessionView, tokens: number): void {
    const { maxAsks, maxAskTokens } = this.#limits;
    const spent = this.#spent.get(session) ?? { asks: 0, tokens: 0 };
    if (spent.asks >= maxAsks) throw failure('refused', `servers may ask this session ${counted(maxAsks, 'time')}`);
    if (spent.tokens + tokens > maxAskTokens) {
      const left = maxAskTokens - spent.tokens;
      throw failure('refused', `servers may sample ${maxAskTokens} tokens of this session; ${left} are left`);
    }
    this.#spent.set(session, { asks: spent.asks + 1, tokens: spent.tokens + tokens });
  }
}

type Unstamped<Message> = Omit<Message, 'type' | 'id' | 'version' | 'ts' | 'req_id'>;

function sampleOf(server: string, { id, params }: McpAsk): Unstamped<SampleReq> {
  const { messages: given = [], modelPreferences, systemPrompt, includeContext, temperature } = params;
  const { maxTokens, stopSequences, metadata } = params;
  const fields = {
    server_id: server,
    mcp_request_id: id,
    messages: given,
    model_preferences: modelPreferences,
    system_prompt: systemPrompt,
    include_context: includeContext,
    temperature,
    max_tokens: maxTokens,
    stop_sequences: stopSequences,
    metadata,
  };
  return without(fields) as Unstamped<SampleReq>;
}

function elicitOf(server: string, { id, params }: McpAsk) {
  const { mode = 'form', message = '', requestedSchema, url, elicitationId } = params;
  const fields = { mode, message, requested_schema: requestedSchema, url, elicitation_id: elicitationId };
  return without({ server_id: server, mcp_request_id: id, ...fields }) as never;
}

const without = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

function sampled({ role, content, model, stop_reason = '', error = '' }: Unstamped<SampleResp>) {
  if (error !== '') throw failure('refused', error);
  return {
    role: role ?? 'assistant',
    content,
    model: model ?? '',
    ...(stop_reason !== '' && { stopReason: stop_reason }),
  };
}

const elicited = ({ action, content }: Unstamped<ElicitResp>): Record<string, unknown> => ({
  action,
  ...(action === 'accept' && content !== undefined && { content }),
});

/** Returns the error for the server, without internals of the host. */
function refusalOf(error: HandfastError, { method }: McpAsk): HandfastError {
  const { code } = error;
  if (code === 'mcp_sampling_refused') return error;
  if (code === 'no_handler') return failure('refused', `the agent does not answer ${method}`);
  if (code === 'timeout') return failure('refused', 'the agent did not answer in time');
  if (code === 'cancelled') return failure('refused', 'the question was withdrawn');
  return failure('refused', `the agent failed: ${error.message}`);
}

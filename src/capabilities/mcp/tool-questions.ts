/**
 * Questions of tools of a host to the agent that calls them: a form for its person, an answer of its model, the folders it
 * works in. MCP clients of the host get them in the form of their protocol.
 *
 * For authors of tools, from `handfast/tools`. @see docs/mcp.md#questions-of-tools
 */
import type { CallContext } from '../../host/context.ts';
import type { Body, Method } from '../../protocol/method.ts';
import type { JsonSchema } from '../tools/tool.ts';
import type { ElicitationAnswer, McpRoot, SamplingAnswer } from './client.ts';
import { failure } from './errors.ts';
import * as messages from './messages.ts';

export interface QuestionOptions {
  /** Longest wait for the answer, milliseconds. Default 120,000; the deadline of the call holds as well. */
  readonly timeoutMs?: number;
  /** The name of the question within its call; clients that send answers with a repeated call name it. */
  readonly name?: string;
}

export interface PersonQuestion extends QuestionOptions {
  readonly message: string;
  /** The requested data: an object of plain values. Not with `url`. */
  readonly schema?: JsonSchema;
  /** An address for the person to open, in place of a form. */
  readonly url?: string;
}

export interface ModelQuestion extends QuestionOptions {
  /** `{role, content}`, as MCP has them; a text is one message of the user. */
  readonly messages: string | readonly Readonly<Record<string, unknown>>[];
  /** Maximum number of tokens of the answer. */
  readonly maxTokens: number;
  readonly systemPrompt?: string;
  readonly temperature?: number;
  readonly stopSequences?: readonly string[];
}

const DEFAULT_TIMEOUT_MS = 120_000;

/**
 * Asks the person at the agent whose call runs.
 *
 * Rejects with `no_handler` if the agent asks no person (an MCP client without elicitation), `timeout`, `cancelled`,
 * `over_capacity`.
 */
export async function askPerson(
  context: CallContext,
  { message, schema, url, name, ...options }: PersonQuestion,
): Promise<ElicitationAnswer> {
  const body = {
    server_id: '',
    mode: url === undefined ? 'form' : 'url',
    message,
    ...(schema !== undefined && { requested_schema: { ...schema } }),
    ...(url !== undefined && { url, elicitation_id: crypto.randomUUID() }),
    ...named(name),
  } as Body<object>;
  const { action, content } = await asked(messages.elicit, body, context, options);
  return { action, ...(action === 'accept' && content !== undefined && { content }) };
}

/**
 * Asks the model of the agent whose call runs. Rejects as {@link askPerson} does, and with `mcp_sampling_refused` for a refusal.
 */
export async function askModel(
  context: CallContext,
  { messages: given, maxTokens, systemPrompt, temperature, stopSequences, name, ...options }: ModelQuestion,
): Promise<Exclude<SamplingAnswer, { readonly error: string }>> {
  const lines = typeof given === 'string' ? [{ role: 'user', content: { type: 'text', text: given } }] : [...given];
  const body = {
    messages: lines,
    max_tokens: maxTokens,
    ...(systemPrompt !== undefined && { system_prompt: systemPrompt }),
    ...(temperature !== undefined && { temperature }),
    ...(stopSequences !== undefined && { stop_sequences: [...stopSequences] }),
    ...named(name),
  } as Body<object>;
  const { content = {}, model, stop_reason, error = '' } = await asked(messages.sample, body, context, options);
  if (error !== '') throw failure('refused', error);
  return { content, ...(model && { model }), ...(stop_reason && { stop_reason }) };
}

/** Asks for the folders in which the agent whose call runs works. Rejects as {@link askPerson} does. */
export async function askRoots(context: CallContext, { name, ...options }: QuestionOptions = {}): Promise<McpRoot[]> {
  const { roots } = await asked(messages.rootList, named(name) as Body<object>, context, options);
  return roots as unknown as McpRoot[];
}

const named = (name: string | undefined) => (name === undefined ? {} : { mcp_request_id: name });

/** Sends a question. The agent needs no capability to answer: a tool that it called asks. */
const asked = <Request extends object, Reply extends object>(
  question: Method<Request, Reply>,
  body: Body<object>,
  { session, signal }: CallContext,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: QuestionOptions,
): Promise<Body<Reply>> => session.ask({ ...question, capability: '' }, body as Body<Request>, { signal, timeoutMs });

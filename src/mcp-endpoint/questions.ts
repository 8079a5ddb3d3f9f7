/**
 * Questions to MCP clients: questions of servers behind the host and of tools of the host while they work for a client,
 * as requests of the protocol, and the checked answers.
 *
 * `session.ts` and `input-rounds.ts` send them to clients.
 * @see docs/mcp-server.md#questions
 */
import type { AgentSession } from '../agent/agent.ts';
import {
  type ElicitationAnswer,
  type ElicitationRequest,
  McpClient,
  type McpRoot,
  type SamplingAnswer,
  type SamplingRequest,
} from '../capabilities/mcp/client.ts';
import { fail } from '../wire/errors.ts';
import { isObject, membersOf, withoutNulls } from '../wire/json.ts';
import type { Params } from './protocol.ts';

/** A question as a request of the protocol. */
export interface Question {
  readonly method: 'sampling/createMessage' | 'elicitation/create' | 'roots/list';
  readonly params: Params;
  /** The asking server's or tool's name for the question. */
  readonly name: string | undefined;
}

/** Sends a question to a client. Rejects with an error that the asking side reads. */
export type Asker = (question: Question, signal: AbortSignal) => Promise<unknown>;

/** Forwards the questions of a session, and checks the answers. */
export function serveQuestions(agent: AgentSession, ask: Asker): void {
  const mcp = new McpClient(agent);
  mcp.onSampling(async (request, { signal }) => {
    const { mcp_request_id: name } = request;
    return sampledOf(await ask({ method: 'sampling/createMessage', params: samplingOf(request), name }, signal));
  });
  mcp.onElicitation(async (request, { signal }) => {
    const { mcp_request_id: name } = request;
    return elicitedOf(await ask({ method: 'elicitation/create', params: elicitationOf(request), name }, signal));
  });
  mcp.onRoots(async ({ mcp_request_id: name }, { signal }) =>
    rootsOf(await ask({ method: 'roots/list', params: {}, name }, signal)),
  );
}

/** Returns the capabilities that a client needs for a question. */
export function neededFor({ method, params }: Question): Params {
  if (method === 'sampling/createMessage') return { sampling: {} };
  if (method === 'roots/list') return { roots: {} };
  return { elicitation: params.mode === 'url' ? { url: {} } : {} };
}

/** Throws the error that the asking side gets if the client declared no capability for the question. */
export function requireCapability(question: Question, { sampling, elicitation, roots }: Params): void {
  const { method, params } = question;
  if (method === 'sampling/createMessage' && isObject(sampling)) return;
  if (method === 'roots/list' && isObject(roots)) return;
  // A client that names no mode has forms.
  if (method === 'elicitation/create' && isObject(elicitation)) {
    const isForm = params.mode !== 'url';
    if (isForm ? elicitation.form !== undefined || elicitation.url === undefined : isObject(elicitation.url)) return;
  }
  throw cannotAnswer(question);
}

/** Returns `no_handler`, with the capabilities that the client lacks. */
export function cannotAnswer(question: Question): Error {
  const [needed = ''] = Object.keys(neededFor(question));
  const message = `the MCP client did not declare the capability ${needed}, and is not asked`;
  return fail('no_handler', message, { client_capabilities: neededFor(question) });
}

/** Returns the capabilities that the client of a failed call lacks; undefined if it failed for another reason. */
export const lackingIn = ({ code, detail }: { code: string; detail: Params }): Params | undefined =>
  code === 'no_handler' && isObject(detail.client_capabilities) ? detail.client_capabilities : undefined;

/** Returns true when the client can be asked any question. */
export const canBeAsked = ({ sampling, elicitation, roots }: Params): boolean =>
  isObject(sampling) || isObject(elicitation) || isObject(roots);

/** Throws for an answer that does not fit its question. */
export function checkAnswer({ method }: Question, answer: unknown): void {
  if (method === 'sampling/createMessage') sampledOf(answer);
  else if (method === 'roots/list') rootsOf(answer);
  else elicitedOf(answer);
}

function samplingOf(request: SamplingRequest): Params {
  return without({
    messages: request.messages ?? [],
    modelPreferences: request.model_preferences,
    systemPrompt: request.system_prompt,
    includeContext: request.include_context,
    temperature: request.temperature,
    maxTokens: request.max_tokens ?? DEFAULT_MAX_TOKENS,
    stopSequences: request.stop_sequences,
    metadata: request.metadata,
  });
}

/** Number of tokens for a question without one: the protocol needs a number. */
const DEFAULT_MAX_TOKENS = 1_000;

function elicitationOf({ mode, message, requested_schema, url, elicitation_id }: ElicitationRequest): Params {
  if (mode === 'url') return without({ mode, message, url, elicitationId: elicitation_id });
  // Revisions before modes know the form alone.
  return { message, requestedSchema: requested_schema ?? { type: 'object', properties: {} } };
}

function sampledOf(answer: unknown): SamplingAnswer {
  const { content, model, stopReason } = isObject(answer) ? answer : {};
  // Later revisions may send a list of blocks.
  const block = Array.isArray(content) && content.length === 1 ? content[0] : content;
  if (!isObject(block)) throw invalid('sampling: content must be one block');
  return {
    content: block,
    ...(typeof model === 'string' && { model }),
    ...(typeof stopReason === 'string' && { stop_reason: stopReason }),
  };
}

function elicitedOf(answer: unknown): ElicitationAnswer {
  const { action, content } = withoutNulls(membersOf(answer));
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel') {
    throw invalid('elicitation: action must be accept, decline or cancel');
  }
  if (action !== 'accept') return { action };
  if (content !== undefined && !isObject(content)) throw invalid('elicitation: content must be an object');
  return { action, ...(content !== undefined && { content }) };
}

function rootsOf(answer: unknown): readonly McpRoot[] {
  const { roots } = isObject(answer) ? answer : {};
  if (!Array.isArray(roots)) throw invalid('roots must be a list');
  return roots.slice(0, MAX_ROOTS).map((root) => {
    const { uri, name } = isObject(root) ? root : {};
    if (typeof uri !== 'string') throw invalid('roots: uri must be a text');
    return { uri, ...(typeof name === 'string' && { name }) };
  });
}

const MAX_ROOTS = 100;

const invalid = (message: string): Error => fail('schema_violation', `the answer of the MCP client: ${message}`);

const without = (fields: Params): Params =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

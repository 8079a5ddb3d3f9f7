/**
 * Resources and prompts: of MCP servers behind the host, its memory and its skills. It serves every method that is not
 * about tools or the connection.
 */
import type {
  CompletionRequest,
  McpClient,
  Prompt,
  Resource,
  ResourceContent,
  ResourceTemplate,
} from '../capabilities/mcp/client.ts';
import { asError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { type HostSession, type OpenHost, until } from './host-session.ts';
import { keyOfResource, MEMORY_TEMPLATE } from './memory-tools.ts';
import { pageOf } from './pages.ts';
import { INVALID_PARAMS, invalidParams, type Params, RESOURCE_NOT_FOUND, RpcError } from './protocol.ts';
import type { ServedRequest } from './served-request.ts';
import { messagesOfSkill, promptOfSkill, skillOfPrompt, skillsOf } from './skills.ts';

/** Members that the protocol requires of a result that clients may store. */
const NOT_CACHED = { ttlMs: 0, cacheScope: 'private' };

/**
 * Returns the result of a request about contents; undefined for any other method, and if the host has no contents of
 * that kind.
 */
export async function serveContents(session: HostSession, request: ServedRequest): Promise<object | undefined> {
  const host = await session.ready();
  const { method, params, terms, cancellation } = request;
  const { signal } = cancellation;
  const cache = terms.stateless ? NOT_CACHED : {};
  const { mcp, memory, skill } = host;
  switch (method) {
    case 'resources/list':
    case 'resources/templates/list':
    case 'resources/read':
      if (mcp === undefined && memory === undefined) return undefined;
      return { ...(await serveResources(host, request)), ...cache };
    case 'resources/subscribe':
    case 'resources/unsubscribe': {
      if (terms.stateless || (mcp ?? memory) === undefined) return undefined;
      const uri = uriIn(params);
      if (method === 'resources/unsubscribe') session.unsubscribe(session, uri);
      else {
        await session.subscribe(session, uri, signal).catch((thrown) => {
          throw notFound(thrown, uri, false);
        });
      }
      return {};
    }
    case 'prompts/list': {
      if (mcp === undefined && skill === undefined) return undefined;
      const own = (await skillsOf(skill, until(signal))).map(promptOfSkill);
      const behind = (await mcp?.prompts('', until(signal))) ?? [];
      return { ...pageOf('prompts', [...own, ...behind.map(promptOf)], params), ...cache };
    }
    case 'prompts/get':
      if (mcp === undefined && skill === undefined) return undefined;
      return { messages: await messagesOf(host, request) };
  }
  return mcp === undefined ? undefined : serveMore(mcp, request);
}

async function serveResources({ mcp, memory }: OpenHost, request: ServedRequest): Promise<object> {
  const { method, params, terms, cancellation } = request;
  const { signal } = cancellation;
  if (method === 'resources/list') {
    const own = (await memory?.resources(signal)) ?? [];
    const behind = (await mcp?.resources('', until(signal))) ?? [];
    return pageOf('resources', [...own, ...behind.map(resourceOf)], params);
  }
  if (method === 'resources/templates/list') {
    const own = memory === undefined ? [] : [{ uriTemplate: MEMORY_TEMPLATE, name: 'memory', description: MEMORY }];
    const behind = (await mcp?.templates('', until(signal))) ?? [];
    return pageOf('resourceTemplates', [...own, ...behind.map(templateOf)], params);
  }
  const uri = uriIn(params);
  const key = keyOfResource(uri);
  if (memory !== undefined && key !== undefined) {
    const content = await memory.read(key, uri, signal);
    if (content === undefined) throw unknownResource(`nothing is remembered under ${uri}`, uri, terms.stateless);
    return { contents: [content] };
  }
  if (mcp === undefined) throw unknownResource(`there is no resource ${uri}`, uri, terms.stateless);
  const contents = await Promise.resolve(mcp.read(uri, '', until(signal))).catch((thrown) => {
    throw notFound(thrown, uri, terms.stateless);
  });
  return { contents: contents.map((content) => contentOf(content, uri)) };
}

const MEMORY = 'The memory under a key.';

async function messagesOf(
  { mcp, skill }: OpenHost,
  { params, cancellation: { signal } }: ServedRequest,
): Promise<readonly object[]> {
  const { name, arguments: args = {} } = params;
  if (typeof name !== 'string') throw invalidParams('params.name must be a string');
  if (!isObject(args)) throw invalidParams('params.arguments must be an object');
  const ofSkill = skill === undefined ? undefined : skillOfPrompt(name);
  try {
    if (skill !== undefined && ofSkill !== undefined) return await messagesOfSkill(skill, ofSkill, args, until(signal));
    if (mcp === undefined) throw invalidParams(`there is no prompt ${name}`);
    const lines = await mcp.prompt(name, args as Record<string, string>, '', until(signal));
    return lines.map(({ role, content }) => ({ role, content }));
  } catch (thrown) {
    if (thrown instanceof RpcError) throw thrown;
    const { code, message } = asError(thrown);
    throw UNFIT_PROMPT.includes(code) ? invalidParams(message) : thrown;
  }
}

const UNFIT_PROMPT = ['mcp_prompt_not_found', 'unknown_skill', 'schema_violation'];

/** Serves the methods that only servers behind the host have. */
async function serveMore(
  mcp: McpClient,
  { method, params, cancellation: { signal } }: ServedRequest,
): Promise<object | undefined> {
  switch (method) {
    case 'completion/complete': {
      const asked = completionIn(params);
      const { values, total, has_more } = await Promise.resolve(mcp.complete(asked, until(signal))).catch((thrown) => {
        const { code, message } = asError(thrown);
        throw NOT_FOUND.includes(code) ? invalidParams(message) : thrown;
      });
      return {
        completion: {
          values,
          ...(total !== undefined && { total }),
          ...(has_more !== undefined && { hasMore: has_more }),
        },
      };
    }
    default:
      return undefined;
  }
}

const NOT_FOUND = ['mcp_prompt_not_found', 'mcp_resource_not_found'];

/** Parses a completion request. Throws `RpcError` for params without a subject or an argument. */
function completionIn({ ref, argument, context }: Params): CompletionRequest {
  const { type, name: prompt, uri } = isObject(ref) ? ref : {};
  const { name, value = '' } = isObject(argument) ? argument : {};
  const { arguments: others = {} } = isObject(context) ? context : {};
  if (typeof name !== 'string' || typeof value !== 'string') {
    throw invalidParams('params.argument must be an object with the texts name and value');
  }
  if (!isObject(others)) throw invalidParams('params.context.arguments must be an object');
  const rest = { argument: name, value, others: others as Record<string, string> };
  if (type === 'ref/prompt' && typeof prompt === 'string') return { of: { prompt }, ...rest };
  if (type === 'ref/resource' && typeof uri === 'string') return { of: { uriTemplate: uri }, ...rest };
  throw invalidParams('params.ref must name a prompt (ref/prompt) or a template (ref/resource)');
}

function uriIn({ uri }: Params): string {
  if (typeof uri === 'string' && uri !== '') return uri;
  throw invalidParams('params.uri must be a string that is not empty');
}

/** Returns the error for an unknown resource. Later revisions have no separate number for it. */
function notFound(thrown: unknown, uri: string, stateless: boolean): unknown {
  const { code, message } = asError(thrown);
  return code === 'mcp_resource_not_found' || code === 'not_found' ? unknownResource(message, uri, stateless) : thrown;
}

const unknownResource = (message: string, uri: string, stateless: boolean): RpcError =>
  new RpcError(stateless ? INVALID_PARAMS : RESOURCE_NOT_FOUND, message, { uri });

function resourceOf({ uri, name, mime_type, description }: Resource): object {
  return { uri, name: name || uri, ...(mime_type && { mimeType: mime_type }), ...(description && { description }) };
}

function templateOf({ uri_template, name, mime_type, description }: ResourceTemplate): object {
  return {
    uriTemplate: uri_template,
    name: name || uri_template,
    ...(mime_type && { mimeType: mime_type }),
    ...(description && { description }),
  };
}

function contentOf({ uri, mime_type, text, blob }: ResourceContent, asked: string): object {
  const body = blob ? { blob } : { text: text ?? '' };
  return { uri: uri || asked, ...(mime_type && { mimeType: mime_type }), ...body };
}

function promptOf({ name, description, arguments: args }: Prompt): object {
  return { name, ...(description && { description }), ...(args && { arguments: args }) };
}

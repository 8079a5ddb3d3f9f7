/**
 * Resources and prompts that the host has of MCP servers behind it. Called by `requests.ts` for every method that is not about
 * tools or the connection.
 */
import type {
  CompletionRequest,
  Prompt,
  Resource,
  ResourceContent,
  ResourceTemplate,
} from '../capabilities/mcp/client.ts';
import { asError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { type OpenHost, until } from './host-session.ts';
import { pageOf } from './pages.ts';
import { INVALID_PARAMS, invalidParams, type Params, RESOURCE_NOT_FOUND, RpcError } from './protocol.ts';
import type { ServedRequest } from './served-request.ts';

/** What the protocol asks of a result that clients may store. */
const NOT_CACHED = { ttlMs: 0, cacheScope: 'private' };

/** The result of a request about contents; undefined for any other method, and where the host has no such contents. */
export async function serveContents({ mcp }: OpenHost, request: ServedRequest): Promise<object | undefined> {
  if (mcp === undefined) return undefined;
  const { method, params, terms } = request;
  const { signal } = request.cancellation;
  const cache = terms.stateless ? NOT_CACHED : {};
  switch (method) {
    case 'resources/list':
      return { ...pageOf('resources', (await mcp.resources('', until(signal))).map(resourceOf), params), ...cache };
    case 'resources/templates/list':
      return {
        ...pageOf('resourceTemplates', (await mcp.templates('', until(signal))).map(templateOf), params),
        ...cache,
      };
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
    case 'resources/read': {
      const uri = uriIn(params);
      const contents = await Promise.resolve(mcp.read(uri, '', until(signal))).catch((thrown) => {
        throw notFound(thrown, uri, terms.stateless);
      });
      return { contents: contents.map((content) => contentOf(content, uri)), ...cache };
    }
    case 'resources/subscribe':
      if (terms.stateless) return undefined;
      await mcp.subscribe(uriIn(params), '', until(signal));
      return {};
    case 'resources/unsubscribe':
      if (terms.stateless) return undefined;
      await mcp.unsubscribe(uriIn(params), '', until(signal));
      return {};
    case 'prompts/list':
      return { ...pageOf('prompts', (await mcp.prompts('', until(signal))).map(promptOf), params), ...cache };
    case 'prompts/get': {
      const { name, arguments: args = {} } = params;
      if (typeof name !== 'string') throw invalidParams('params.name must be a string');
      if (!isObject(args)) throw invalidParams('params.arguments must be an object');
      const lines = await Promise.resolve(mcp.prompt(name, args as Record<string, string>, '', until(signal))).catch(
        (thrown) => {
          const { code, message } = asError(thrown);
          throw code === 'mcp_prompt_not_found' || code === 'schema_violation' ? invalidParams(message) : thrown;
        },
      );
      return { messages: lines.map(({ role, content }) => ({ role, content })) };
    }
    default:
      return undefined;
  }
}

const NOT_FOUND = ['mcp_prompt_not_found', 'mcp_resource_not_found'];

/** Throws `RpcError` for params that say neither of what nor which argument. */
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

/** Later revisions have no number of their own for it. */
function notFound(thrown: unknown, uri: string, stateless: boolean): unknown {
  const { code, message } = asError(thrown);
  if (code !== 'mcp_resource_not_found') return thrown;
  return new RpcError(stateless ? INVALID_PARAMS : RESOURCE_NOT_FOUND, message, { uri });
}

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

/**
 * The tools of an MCP server as tools of the host: their names, their effects, their calls and the form of their results.
 *
 * The server checks arguments, the client checks results. @see docs/mcp.md#tools
 */
import type { JsonSchema } from '../../base/json-schema.ts';
import type { CallContext } from '../../host/context.ts';
import { requiredAddresses } from '../../mcp/asks.ts';
import type { McpProgress, McpResult } from '../../mcp/definition.ts';
import type { PinnedTool } from '../../mcp/tool-pins.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { membersOf } from '../../wire/json.ts';
import { type AnyTool, type Risk, result } from '../tools/tool.ts';
import { failure } from './errors.ts';
import { MAX_TOOL_NAME, mcpToolName } from './tool-name.ts';

/** Calls a tool of the server. */
export type CallTool = (
  tool: string,
  args: Readonly<Record<string, unknown>>,
  context: CallContext,
  onProgress: (progress: McpProgress) => void,
) => Promise<McpResult>;

const MAX_SUMMARY = 200;
const MAX_ERROR = 2_000;

/** Arguments pass unchanged: the server is the authority on its own schema. */
const anything = {
  '~standard': { version: 1, vendor: 'mcp', validate: (value: unknown) => ({ value: value ?? {} }) },
} as const;

/** Returns the tools under their names at this host. Leaves out a tool whose name is too long. */
export function toolsOf(
  server: { readonly id: string; readonly name: string },
  tools: readonly PinnedTool[],
  call: CallTool,
): AnyTool[] {
  return tools.flatMap((tool) => {
    const name = mcpToolName({ server: server.id, tool: tool.name });
    return name.length > MAX_TOOL_NAME ? [] : [toolOf(name, server, tool, call)];
  });
}

function toolOf(
  name: string,
  server: { readonly id: string; readonly name: string },
  { name: own, title, description = title ?? own, inputSchema, outputSchema, annotations = {} }: PinnedTool,
  call: CallTool,
): AnyTool {
  return {
    name,
    description,
    input: anything,
    inputSchema: withoutId({ type: 'object', ...inputSchema }),
    ...(outputSchema && { output: anything, outputSchema: withoutId(outputSchema) }),
    idempotent: annotations.readOnlyHint === true || annotations.idempotentHint === true,
    tags: ['mcp', server.id, ...(server.name === '' || server.name === server.id ? [] : [server.name])],
    kind: 'mcp',
    risks: risksOf(annotations),
    async run(args: Readonly<Record<string, unknown>>, context: CallContext) {
      const onProgress = (progress: McpProgress): void => void context.emit('progress', progressOf(progress));
      const { content = [], structuredContent, isError } = await call(own, args, context, onProgress);
      const text = content.flatMap((part) => (part.type === 'text' ? [String(part.text)] : [])).join('\n');
      if (isError === true) throw fail('tool_error', text.slice(0, MAX_ERROR) || 'the tool failed', { tool: name });
      // A structured result replaces the blocks, and would lose images and audio.
      if (structuredContent !== undefined) await emitMedia(content, context);
      const data = structuredContent ?? { content };
      return result(data, { summary: (text.split('\n', 1)[0] as string).slice(0, MAX_SUMMARY) });
    },
  };
}

/** Emits images and audio as artifacts of the call. */
async function emitMedia(content: NonNullable<McpResult['content']>, context: CallContext): Promise<void> {
  for (const [at, { type, resource, ...block }] of content.entries()) {
    const { blob: data, mimeType } =
      type === 'resource' ? membersOf(resource) : { blob: block.data, mimeType: block.mimeType };
    if (typeof data !== 'string' || typeof mimeType !== 'string' || !/^(?:image|audio)\//.test(mimeType)) continue;
    await context.emit('artifact', { name: `${type} ${at + 1}`, mime: mimeType, chunk: data, final: true });
  }
}

/**
 * Removes the id of a schema, which is unique within one server: readers of all tools of a host would confuse the schemas of
 * two servers.
 */
function withoutId({ $id, ...schema }: JsonSchema): JsonSchema {
  const isReferredTo = $id !== undefined && /"\$ref":"(?!#)/.test(JSON.stringify(schema));
  return isReferredTo ? { ...schema, $id } : schema;
}

/**
 * Returns the effects of the tool as the server declares them; undeclared ones have the default of the protocol, which is the
 * worst.
 */
function risksOf({ readOnlyHint, destructiveHint, openWorldHint }: Readonly<Record<string, unknown>>): Risk[] {
  const risks: Risk[] = readOnlyHint === true ? ['reads'] : ['reads', 'writes'];
  if (readOnlyHint !== true && destructiveHint !== false) risks.push('destructive');
  if (openWorldHint !== false) risks.push('network');
  return risks;
}

const progressOf = ({ progress, total, message = '' }: McpProgress): Record<string, unknown> => ({
  pct: total === undefined || total <= 0 ? 0 : Math.max(0, Math.min(100, Math.round((100 * progress) / total))),
  message,
  progress,
  ...(total !== undefined && { total }),
});

/**
 * Converts an error of a call to the codes of this capability.
 * @param isIdempotent the call may be repeated even if it has run
 */
export function callError(thrown: unknown, server: string, isIdempotent: boolean): HandfastError {
  const { code, message, detail } = asError(thrown, 'tool_error');
  if (code === 'unknown_tool') return failure('tool_not_found', message, { server, ...detail }, thrown);
  if (code === 'connection_lost') {
    const lost = failure('transport_error', message, { server, ...detail }, thrown);
    return new HandfastError(lost.code, message, { ...lost, cause: thrown, retryable: isIdempotent });
  }
  if (detail.reason === 'tool_changed') {
    const advice = `handfast mcp accept ${server} accepts it`;
    return failure('tool_changed', `${message}; ${advice}`, { server, ...detail }, thrown);
  }
  if (code === 'tool_error' && thrown instanceof HandfastError) {
    return failure('protocol_error', message, { server, ...detail }, thrown);
  }
  if (thrown instanceof HandfastError) return thrown;
  // The code of the protocol for a resource that does not exist.
  if ((thrown as { code?: unknown }).code === -32_002)
    return failure('resource_not_found', message, { server }, thrown);
  // The code of the protocol for a refused question.
  if ((thrown as { code?: unknown }).code === -1) return failure('refused', message, { server }, thrown);
  // The code of JSON-RPC for arguments that do not fit.
  if ((thrown as { code?: unknown }).code === -32_602) return fail('schema_violation', message, { server }, thrown);
  const elicitations = requiredAddresses(thrown);
  return failure('protocol_error', message, { server, ...(elicitations.length > 0 && { elicitations }) }, thrown);
}

/**
 * Holds results of tools of MCP servers to the schemas that the servers give. The official client would compile and check a schema
 * in the thread of the host, and some schemas would block it without end.
 */
import { foreignSchemas } from '../base/foreign-schemas.ts';
import type { JsonSchema } from '../base/json-schema.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import type { McpResult } from './definition.ts';

/** Replaces the validator of the client, which then checks nothing. */
export const acceptsAll = { getValidator: () => undefined as never };

/** Longest text of a server in an error, in characters. */
const MAX_TEXT = 4_000;

/**
 * Returns the result of a call. Rejects with `schema_violation` and its text if it does not match its schema, and
 * before the call if its schema is broken.
 */
export async function checkedResult(
  tool: string,
  schema: JsonSchema | undefined,
  signal: AbortSignal,
  call: () => Promise<unknown>,
): Promise<McpResult> {
  if (schema === undefined) return (await call()) as McpResult;
  const check = { what: `result of ${tool}`, signal, fills: false };
  const problem = await foreignSchemas.problem(schema, check);
  if (problem !== null) throw fail('schema_violation', problem, { tool });
  const result = (await call()) as McpResult;
  const { structuredContent, isError } = result;
  if (isError === true) return result;
  try {
    if (structuredContent === undefined)
      throw fail('schema_violation', `${check.what}: it has no structured content`, { tool });
    await foreignSchemas.check(schema, structuredContent, check);
  } catch (error) {
    throw withText(asError(error), result);
  }
  return result;
}

/** Returns the error with the text of the result: often it has all the facts, and the call must not be made twice. */
function withText(
  { code, message, detail, retryable, cause }: HandfastError,
  { content = [] }: McpResult,
): HandfastError {
  const text = content.flatMap((part) => (part.type === 'text' ? [String(part.text)] : [])).join('\n');
  const said = text === '' ? '' : `; the tool has run, and says: ${text.slice(0, MAX_TEXT).toWellFormed()}`;
  return new HandfastError(code, `${message}${said}`, { detail, retryable, cause });
}

/**
 * Holds results of tools of MCP servers to the schemas that the servers give. The official client would compile and check a schema
 * in the thread of the host, and some schemas would block it without end.
 *
 * Used by `connection.ts`.
 */
import { foreignSchemas } from '../base/foreign-schemas.ts';
import type { JsonSchema } from '../base/json-schema.ts';
import { fail } from '../wire/errors.ts';
import type { McpResult } from './definition.ts';

/** The validator that the client gets: it compiles nothing, and accepts all. */
export const acceptsAll = {
  getValidator: (): ((value: unknown) => never) => (value) => ({ valid: true, data: value }) as never,
};

/** The result of a call. Rejects with `schema_violation` where it does not fit, and before the call where its schema is broken. */
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
  if (structuredContent !== undefined && isError !== true) await foreignSchemas.check(schema, structuredContent, check);
  return result;
}

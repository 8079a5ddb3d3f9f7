/**
 * Tools of a host in the form of MCP: definitions out of descriptions, annotations out of risks, results and errors as
 * content. Pure.
 */
import type { ToolDescription, ToolParameter, ToolResult } from '../capabilities/tools/messages.ts';
import type { HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** A tool as clients get it. */
export interface McpTool {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly outputSchema?: object;
  readonly annotations: object;
}

/** Returns true for a schema whose values are objects: the protocol has structured results for these alone. */
export const isObjectSchema = (schema: unknown): boolean => isObject(schema) && [schema.type].flat().includes('object');

export function toolOf(tool: ToolDescription): McpTool {
  const { name, description, input_schema, output_schema, risks, idempotent = false } = tool;
  return {
    name,
    description,
    inputSchema: { ...(input_schema ?? schemaOf(tool.input_parameters)), type: 'object' },
    ...(isObjectSchema(output_schema) && { outputSchema: output_schema as object }),
    annotations: annotationsOf(risks, idempotent),
  };
}

/**
 * Returns the annotations of a tool. An unknown property is left out: clients then assume the worst, as the protocol
 * demands.
 */
export function annotationsOf(risks: readonly string[] | undefined, idempotent: boolean): object {
  if (risks === undefined) return { idempotentHint: idempotent };
  const runs = risks.includes('exec');
  const readOnly = !runs && !risks.includes('writes') && !risks.includes('destructive');
  return {
    readOnlyHint: readOnly,
    ...(!readOnly && { destructiveHint: runs || risks.includes('destructive') }),
    idempotentHint: idempotent,
    openWorldHint: runs || risks.includes('network'),
  };
}

/** Returns the schema of a tool whose host sends only the flat form. */
function schemaOf(parameters: readonly ToolParameter[] = []): object {
  const properties = parameters.map((parameter) => {
    const { name, type, description, enum: values, properties: inner } = parameter;
    const below = isObject(inner) ? schemaOf(Object.values(inner) as ToolParameter[]) : {};
    return [name, { ...below, type, description, ...(values && { enum: values }) }];
  });
  const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name);
  return { type: 'object', properties: Object.fromEntries(properties), ...(required.length > 0 && { required }) };
}

/** Returns the members of a result, as JSON without braces. */
export function resultMembers({ data }: ToolResult, tool: ToolDescription | undefined): string {
  const structured = isObjectSchema(tool?.output_schema);
  const content = contentIn(data);
  if (tool?.kind === 'mcp' && !structured && content !== undefined) return `"content":${JSON.stringify(content)}`;
  return dataMembers(data, structured);
}

/** Returns the members of a result that is data. */
export function dataMembers(data: unknown, structured: boolean): string {
  const json = JSON.stringify(data ?? null);
  const members = textMembers(structured ? json : plainText(data, json));
  return structured ? `${members},"structuredContent":${json}` : members;
}

/** Returns the members of a result that is a text. */
export const textMembers = (text: string): string => `"content":[{"type":"text","text":${JSON.stringify(text)}}]`;

/** Returns the blocks of a server behind the host, which are passed on unchanged. */
const contentIn = (data: unknown): readonly unknown[] | undefined =>
  isObject(data) && Array.isArray(data.content) ? data.content : undefined;

/** Returns plain text: a tool that returned a text gives that text, not JSON of it. */
function plainText(data: unknown, json: string): string {
  if (!isObject(data) || !('value' in data) || Object.keys(data).length !== 1) return json;
  return typeof data.value === 'string' ? data.value : JSON.stringify(data.value);
}

/** Returns a failed call: its text for models, its code and whether a retry may succeed for programs. */
export function errorMembers({ code, message, retryable, detail }: HandfastError): { members: string; meta: string } {
  const content = [{ type: 'text', text: `${code}: ${message}` }];
  const { may_have_run } = detail;
  const error = { code, retryable, ...(may_have_run !== undefined && { may_have_run }) };
  return {
    members: `"content":${JSON.stringify(content)},"isError":true`,
    meta: `"handfast/error":${JSON.stringify(error)}`,
  };
}

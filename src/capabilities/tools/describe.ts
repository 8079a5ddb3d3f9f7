/**
 * Describes a tool for callers. Pure.
 *
 * @see docs/protocol/a2e.md#tools
 */
import { isObject } from '../../wire/json.ts';
import { published } from './arguments.ts';
import type { ToolDescription, ToolParameter } from './messages.ts';
import type { AnyTool, JsonSchema } from './tool.ts';

/** Returns the `ToolDefinition` of the wire for a tool. */
export function describe(tool: AnyTool): ToolDescription {
  const input = published(tool.input, tool.inputSchema);
  const output = published(tool.output, tool.outputSchema);
  return {
    name: tool.name,
    description: tool.description,
    input_parameters: parameters(input),
    output_parameters: parameters(output),
    streaming: tool.streaming ?? true,
    idempotent: tool.idempotent ?? false,
    tags: [...(tool.tags ?? [])],
    version: tool.version ?? '1.0.0',
    toolkit: tool.toolkit ?? null,
    defer_loading: tool.deferred ?? false,
    ...(input !== undefined && { input_schema: input }),
    ...(output !== undefined && { output_schema: output }),
    ...(tool.kind !== undefined && { kind: tool.kind }),
    ...(tool.risks !== undefined && { risks: [...tool.risks] }),
  };
}

const isSchema = (value: unknown): value is JsonSchema => isObject(value);

/** Returns the properties of an object schema in the flat form of the protocol. */
function parameters(schema: JsonSchema | undefined): ToolParameter[] {
  if (schema === undefined || !isSchema(schema.properties)) return [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(schema.properties).map(([name, property]) => {
    const rule = isSchema(property) ? property : {};
    const inner = parameters(rule);
    return {
      name,
      type: typeOf(rule),
      description: typeof rule.description === 'string' ? rule.description : '',
      required: required.includes(name),
      enum: Array.isArray(rule.enum) && rule.enum.every((value) => typeof value === 'string') ? rule.enum : null,
      properties: inner.length === 0 ? null : Object.fromEntries(inner.map((parameter) => [parameter.name, parameter])),
    };
  });
}

/** Returns one of the six type words; if a schema allows several, the first that is not null. */
function typeOf(schema: JsonSchema): string {
  const types = [schema.type].flat().filter((type): type is string => typeof type === 'string' && type !== 'null');
  if (types[0] !== undefined) return types[0];
  if (isSchema(schema.properties)) return 'object';
  if (schema.items !== undefined) return 'array';
  return Array.isArray(schema.enum) && typeof schema.enum[0] !== 'string' ? typeof schema.enum[0] : 'string';
}

/**
 * The description of a tool for callers, and the search for tools. Pure.
 *
 * @see docs/protocol/a2e.md#tools
 */
import { isObject } from '../../wire/json.ts';
import { published } from './arguments.ts';
import type { ToolDescription, ToolParameter } from './messages.ts';
import type { AnyTool, JsonSchema } from './tool.ts';

/** The `ToolDefinition` of the wire for a tool. */
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

/** The properties of an object schema in the flat form the protocol has for them. */
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

/** One of the six type words; where a schema allows several, the first that is not null. */
function typeOf(schema: JsonSchema): string {
  const types = [schema.type].flat().filter((type): type is string => typeof type === 'string' && type !== 'null');
  if (types[0] !== undefined) return types[0];
  if (isSchema(schema.properties)) return 'object';
  if (schema.items !== undefined) return 'array';
  return Array.isArray(schema.enum) && typeof schema.enum[0] !== 'string' ? typeof schema.enum[0] : 'string';
}

/** Words of a query that are looked at, and how much of it: a search costs each word for each tool. */
const MAX_WORDS = 32;
const MAX_QUERY = 1000;

/**
 * How well a tool fits a search; 0 = not at all. The whole query somewhere in name, description or a tag fits, and so do
 * its words when each is found somewhere; the name counts most.
 */
export function score(tool: ToolDescription, query: string): number {
  const wanted = query.slice(0, MAX_QUERY).toLowerCase().trim();
  const words = wordsOf(wanted).slice(0, MAX_WORDS);
  const name = tool.name.toLowerCase();
  const description = tool.description.toLowerCase();
  const tags = (tool.tags ?? []).map((tag) => tag.toLowerCase());
  const nameWords = wordsOf(name);
  const descriptionWords = wordsOf(description);
  let total = name === wanted ? 200 : name.startsWith(wanted) ? 80 : 0;
  let found = 0;
  for (const word of words) {
    const points =
      (nameWords.includes(word) ? 30 : name.includes(word) ? 15 : 0) +
      (tags.includes(word) ? 12 : tags.some((tag) => tag.includes(word)) ? 6 : 0) +
      (descriptionWords.includes(word) ? 5 : description.includes(word) ? 2 : 0);
    if (points > 0) found++;
    total += points;
  }
  const whole = name.includes(wanted) || description.includes(wanted) || tags.some((tag) => tag.includes(wanted));
  if (!whole && (words.length === 0 || found < words.length)) return 0;
  return total + (whole ? 10 : 0);
}

const wordsOf = (text: string): string[] => text.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');

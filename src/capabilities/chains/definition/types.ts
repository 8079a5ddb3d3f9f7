/**
 * Checks the types of a chain, where schemas are known: inputs of nodes against the schemas of the calls, and paths into
 * outputs against the schemas of these. Values that a schema leaves open are not checked, nor values that only a run can know.
 */
import { foreignSchemas } from '../../../base/foreign-schemas.ts';
import { type JsonSchema, lazyCheck } from '../../../base/json-schema.ts';
import { within } from '../../../base/race.ts';
import { suggest } from '../../../base/suggest.ts';
import { asError } from '../../../wire/errors.ts';
import { isObject, withoutNulls } from '../../../wire/json.ts';
import type { ChainNode } from '../chains.schema.ts';
import type { Expression } from './expressions.ts';
import type { ChainGraph, GraphNode } from './graph.ts';
import { type Ast, partsOf } from './jmespath.ts';
import { type Problems, quoted } from './problems.ts';
import { PROGRAM_INPUT } from './program-input.ts';
import { isSubagentNode, SUBAGENT_INPUTS } from './subagent-inputs.ts';

/** The known schemas of the calls of nodes. Undefined: unknown. */
export interface KnownSchemas {
  /** Returns the JSON Schema of the input of a node; null: no such tool, skill or MCP tool exists. */
  input(node: ChainNode): JsonSchema | null | undefined;
  /** Returns the JSON Schema of its output. The `output_schema` of the node comes first. */
  output?(node: ChainNode): JsonSchema | undefined;
}

/** Returns the input schema of a kind of node that each host knows. */
export const ownInput = (kind: string): JsonSchema | undefined =>
  isSubagentNode(kind) ? SUBAGENT_INPUTS[kind] : kind === 'proc' ? PROGRAM_INPUT : undefined;

/** A schema's statement about a place inside: another schema, nothing, or that the place does not exist. */
type Inside = { readonly schema: JsonSchema } | { readonly missing: string } | undefined;

/**
 * A value of a chain, and the schema of the tool it is for: a third party may have written the schema, so `checkLater` checks
 * the value.
 */
export interface LaterCheck {
  readonly schema: JsonSchema;
  readonly value: unknown;
  readonly wrong: (message: string, at: string) => void;
}

/** Milliseconds for all values of a chain. The tools check the remaining values when they are called. */
const MAX_LATER_MS = 5_000;

/** Runs the postponed checks, and reports the values that do not fit. */
export async function checkLater(checks: readonly LaterCheck[], signal: AbortSignal): Promise<void> {
  const until = performance.now() + MAX_LATER_MS;
  for (const { schema, value, wrong } of checks) {
    const leftMs = until - performance.now();
    if (leftMs <= 0) return;
    const checking = foreignSchemas.check(schema, value, { what: 'input', signal, fills: false }).then(
      () => [],
      (thrown: unknown) => {
        signal.throwIfAborted();
        return (asError(thrown).detail.errors ?? []) as { readonly path: string; readonly message: string }[];
      },
    );
    for (const { path, message } of (await within(checking, leftMs)) ?? []) wrong(message, path.replaceAll('/', '.'));
  }
}

/**
 * Reports values and references that do not fit.
 *
 * @param later gets the values of tools, whose schemas may be from third parties; without it they are checked at once
 */
export function* typeProblems(
  graph: ChainGraph,
  known: KnownSchemas,
  problems: Problems,
  later?: LaterCheck[],
): Generator<void, void> {
  const checks = new Map<JsonSchema, ReturnType<typeof lazyCheck>>();
  const checkOf = (schema: JsonSchema) => {
    const check = checks.get(schema) ?? lazyCheck(schema);
    checks.set(schema, check);
    return check;
  };
  const checkOrLeave = (node: ChainNode, schema: JsonSchema, value: unknown, wrong: LaterCheck['wrong']): void => {
    if (later === undefined || ownInput(node.kind) !== undefined) checkValue(value, checkOf(schema), wrong);
    else later.push({ schema, value, wrong });
  };
  const outputOf = (name: string): JsonSchema | undefined => {
    const index = graph.indexOf.get(name);
    return index === undefined ? undefined : outputSchema(graph, graph.nodes[index] as GraphNode, known);
  };
  for (const each of graph.nodes) {
    yield;
    const { node, input, index } = each;
    const wrong = (message: string, field: string): void => problems.addAt(index, node, 'bad_type', message, field);
    for (const [field, expression] of expressionsOf(each)) {
      const inside = insideOf(expression, outputOf);
      if (inside !== undefined && 'missing' in inside) wrong(inside.missing, field);
    }
    const schema = known.input(node);
    if (schema === null) {
      problems.addAt(index, node, 'bad_node', `there is no ${node.kind} ${quoted(node.name ?? '')}`, 'name');
    }
    if (!schema) continue;
    if (input.kind === 'input') {
      // An item of a map has its input from the map.
      if (!each.scheduled && Object.keys(input.input).length === 0) continue;
      checkOrLeave(node, schema, withoutNulls(input.input), (message, at) => wrong(message, `input${at}`));
      continue;
    }
    checkFields(schema, new Map(input.fields), wrong);
    for (const [field, expression] of input.fields) {
      const wanted = ownSchema(schema.properties, field);
      if (wanted === undefined) continue;
      const place = `input_map.${field}`;
      if (expression.kind === 'literal') {
        checkOrLeave(node, wanted, expression.value, (message, at) => wrong(message, `${place}${at}`));
        continue;
      }
      const inside = insideOf(expression, outputOf);
      const clash = inside !== undefined && 'schema' in inside ? typeClash(inside.schema, wanted) : undefined;
      if (clash !== undefined) wrong(clash, place);
    }
  }
}

/** Returns the schema of a node's output, as far as it is known. */
function outputSchema(graph: ChainGraph, { node, mapNode }: GraphNode, known: KnownSchemas): JsonSchema | undefined {
  if (node.output_schema !== undefined) return node.output_schema;
  if (node.kind === 'map' && mapNode !== undefined) {
    const items = outputSchema(graph, graph.nodes[mapNode] as GraphNode, known);
    return { type: 'array', ...(items && { items }) };
  }
  return known.output?.(node);
}

function* expressionsOf({
  input,
  items,
  reduce,
}: GraphNode): Generator<readonly [field: string, expression: Expression]> {
  if (input.kind === 'map') for (const [field, expression] of input.fields) yield [`input_map.${field}`, expression];
  if (items !== undefined) yield ['items_path', items];
  // `@` of a reduce is the gathered values, not the context.
  if (reduce !== undefined && reduce.kind !== 'jmespath') yield ['reduce', reduce];
}

function checkValue(
  value: unknown,
  check: ReturnType<typeof lazyCheck>,
  report: (message: string, at: string) => void,
): void {
  if (check(value)) return;
  for (const { instancePath, message = 'does not fit the schema', params } of check.errors ?? []) {
    const { additionalProperty: more, allowedValues: words } = params;
    const extra = typeof more === 'string' ? `: ${more}` : Array.isArray(words) ? `: ${words.join(', ')}` : '';
    report(`${message}${extra}`, instancePath.replaceAll('/', '.'));
  }
}

/** Reports fields that are missing, and fields that the schema does not have. */
function checkFields(
  schema: JsonSchema,
  fields: ReadonlyMap<string, unknown>,
  report: (message: string, field: string) => void,
): void {
  const properties = isObject(schema.properties) ? Object.keys(schema.properties) : [];
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (!fields.has(name)) report(`the field ${quoted(name)} is missing`, 'input_map');
  }
  if (schema.additionalProperties !== false || isObject(schema.patternProperties)) return;
  for (const name of fields.keys()) {
    if (properties.includes(name)) continue;
    const near = suggest(name, properties);
    report(`there is no such field${near === undefined ? '' : `; did you mean ${near}?`}`, `input_map.${name}`);
  }
}

/**
 * Returns the place that an expression addresses: the schema of the node it starts with, then the statement of that schema
 * about the rest.
 */
function insideOf(expression: Expression, outputOf: (name: string) => JsonSchema | undefined): Inside {
  if (expression.kind === 'literal') return undefined;
  if (expression.kind === 'path') {
    const [name, ...rest] = expression.path.names;
    const schema = name === undefined ? undefined : outputOf(name);
    return schema === undefined ? undefined : along(schema, rest, name as string);
  }
  const context: Place = {
    schema: undefined,
    shown: '',
    member: (name) => {
      const schema = outputOf(name);
      return schema && { schema };
    },
  };
  return firstMissing(expression.ast, context) ?? schemaAt(expression.ast, context);
}

/** Returns the first place in an expression that the schema of an output does not have. */
function firstMissing(ast: Ast, context: Place): Inside {
  const inside = schemaAt(ast, context);
  if (inside !== undefined) return 'missing' in inside ? inside : undefined;
  for (const part of sameContext(ast)) {
    const found = firstMissing(part, context);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the parts of an expression for which `@` is the context, too. */
function sameContext(ast: Ast): readonly Ast[] {
  switch (ast.type) {
    case 'ExpressionReference':
    case 'LetExpression':
      return [];
    case 'Pipe':
    case 'Projection':
    case 'ValueProjection':
    case 'FilterProjection':
    case 'Subexpression':
    case 'IndexExpression':
      return [ast.left];
    default:
      return partsOf(ast);
  }
}

/** The value that an expression reads: the context, or a value whose schema is known. */
interface Place {
  /** The schema of the value; undefined: it is the context. */
  readonly schema: JsonSchema | undefined;
  readonly member: (name: string) => Inside;
  /** The name in messages. */
  readonly shown: string;
}

const valuePlace = (schema: JsonSchema, shown: string): Place => ({
  schema,
  shown,
  member: (name) => along(schema, [name], shown),
});

/** Returns the statement of a schema about an expression of names, indexes and projections. */
function schemaAt(ast: Ast, place: Place): Inside {
  switch (ast.type) {
    case 'Field':
      return place.member(ast.name);
    case 'Identity':
    case 'Current':
      return place.schema && { schema: place.schema };
    case 'Index': {
      const items = place.schema && ownItems(place.schema);
      return items && { schema: items };
    }
    case 'Projection': {
      const base = schemaAt(ast.left, place);
      if (base === undefined || 'missing' in base) return base;
      const items = ownItems(base.schema);
      const each = items && schemaAt(ast.right, valuePlace(items, shownBehind(place, ast.left)));
      return each && 'schema' in each ? { schema: { type: 'array', items: each.schema } } : each;
    }
    case 'Subexpression':
    case 'IndexExpression': {
      const isContext = ast.left.type === 'Root' || ast.left.type === 'Current' || ast.left.type === 'Identity';
      if (isContext && place.schema === undefined) return schemaAt(ast.right, place);
      const base = schemaAt(ast.left, place);
      if (base === undefined || 'missing' in base) return base;
      return schemaAt(ast.right, valuePlace(base.schema, shownBehind(place, ast.left)));
    }
    default:
      return undefined;
  }
}

const shownBehind = ({ shown }: Place, ast: Ast): string => [shown, shownOf(ast)].filter(Boolean).join('.');

const shownOf = (ast: Ast): string =>
  ast.type === 'Field'
    ? ast.name
    : 'left' in ast
      ? [shownOf(ast.left), shownOf(ast.right)].filter(Boolean).join('.')
      : '';

/** Returns the schema at these member names, one inside the other. */
function along(start: JsonSchema, names: readonly string[], shown: string): Inside {
  let schema = start;
  let place = shown;
  for (const name of names) {
    if (isOpen(schema)) return undefined;
    const { properties } = schema;
    const next = ownSchema(properties, name);
    if (next === undefined) {
      if (isObject(properties) && Object.hasOwn(properties, name)) return undefined;
      if (!isObject(properties)) {
        return { missing: `${quoted(place)} is ${typesOf(schema)?.join(' or ')}, and has no member ${quoted(name)}` };
      }
      const near = suggest(name, Object.keys(properties));
      return {
        missing: `${quoted(place)} has no member ${quoted(name)}${near === undefined ? '' : `; did you mean ${quoted(near)}?`}`,
      };
    }
    schema = next;
    place += `.${name}`;
  }
  return { schema };
}

/** Keywords with which a schema says more than its `properties` do. */
const MORE = ['$ref', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'patternProperties', '$dynamicRef'];

/** Returns true when a value of the schema could have any member. */
function isOpen(schema: JsonSchema): boolean {
  if (MORE.some((keyword) => Object.hasOwn(schema, keyword))) return true;
  const types = typesOf(schema);
  if (types !== undefined && !types.includes('object')) return false;
  const { additionalProperties } = schema;
  return !isObject(schema.properties) || additionalProperties === true || isObject(additionalProperties);
}

const ownSchema = (properties: unknown, name: string): JsonSchema | undefined => {
  const found = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isObject(found) ? found : undefined;
};

const ownItems = ({ items }: JsonSchema): JsonSchema | undefined => (isObject(items) ? items : undefined);

function typesOf({ type }: JsonSchema): readonly string[] | undefined {
  if (typeof type === 'string') return [type];
  return Array.isArray(type) ? type : undefined;
}

/** Returns the reason why no value of one schema can be a value of the other; undefined: one can, or the types are unknown. */
function typeClash(given: JsonSchema, wanted: JsonSchema): string | undefined {
  const [has, needs] = [typesOf(given), typesOf(wanted)];
  if (has === undefined || needs === undefined) return undefined;
  const fits = (type: string) =>
    needs.includes(type) ||
    (type === 'integer' && needs.includes('number')) ||
    (type === 'number' && needs.includes('integer'));
  return has.some(fits) ? undefined : `expected ${needs.join(' or ')}, got ${has.join(' or ')}`;
}

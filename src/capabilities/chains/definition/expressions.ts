/**
 * The expressions of a chain: compiled once when it is read, evaluated for each node within bounds.
 *
 * Three forms: `$.path` of A2E 1.0 (a missing value is null), `{"jmespath": "…"}`, and for conditions CEL; a condition that
 * begins with `$` is one of A2E 1.0. Any other value of an input map is itself.
 */
import { type Condition as CelCondition, conditionCompiler } from '../../../base/expressions.ts';
import { type JsonBounds, jsonChars } from '../../../base/json-size.ts';
import { MAX_STEPS, type Steps } from '../../../base/steps.ts';
import { HandfastError } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import type { Context } from './context.ts';
import { type Ast, parseJmespath } from './jmespath.ts';
import { evaluateJmespath } from './jmespath-evaluate.ts';
import { holds, type Path, type PathCondition, parseCondition, parsePath, valueAt } from './paths.ts';
import { chainSteps, STEPS_PER_MEMBER } from './steps.ts';

/** A compiled expression. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: unknown }
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'jmespath'; readonly ast: Ast };

/** The source of a node's input: expressions by field, or the input as it is. */
export type InputMap =
  | { readonly kind: 'input'; readonly input: Readonly<Record<string, unknown>> }
  | { readonly kind: 'map'; readonly fields: readonly (readonly [field: string, expression: Expression])[] };

/** Returns true for a repeated node of a map without an input: its input is the item. */
export const isItem = (map: InputMap): boolean => map.kind === 'input' && Object.keys(map.input).length === 0;

/** A compiled condition. */
export type Condition =
  | { readonly kind: 'path'; readonly condition: PathCondition }
  | { readonly kind: 'cel'; readonly condition: CelCondition; readonly names: readonly string[] };

/** Variables of conditions beside the ids of nodes. */
export const CONDITION_NAMES = ['input', 'nodes', 'item', 'index'] as const;

/** Returns true for an object with the single member `jmespath`: a JMESPath expression. */
export const isJmespath = (value: unknown): value is { readonly jmespath: unknown } =>
  isObject(value) && Object.hasOwn(value, 'jmespath') && Object.keys(value).length === 1;

/** Compiles a value of an input map, or `items_path`. Returns a text that describes the problem of an invalid value. */
export function compileExpression(value: unknown): Expression | string {
  if (typeof value === 'string' && value.startsWith('$')) {
    const path = parsePath(value);
    return typeof path === 'string' ? path : { kind: 'path', path };
  }
  if (!isJmespath(value)) return { kind: 'literal', value };
  if (typeof value.jmespath !== 'string') return 'expected a text as jmespath';
  const ast = parseJmespath(value.jmespath);
  return typeof ast === 'string' ? ast : { kind: 'jmespath', ast };
}

/** Compiles conditions of one chain. `compile` returns a text for an invalid condition. */
export class ConditionCompiler {
  readonly #ids: Iterable<string>;
  #compile: ReturnType<typeof conditionCompiler> | undefined;

  /** @param ids of the nodes: those that are names of CEL are variables of conditions */
  constructor(ids: Iterable<string>) {
    this.#ids = ids;
  }

  compile(text: string): Condition | string {
    if (text.startsWith('$')) {
      const condition = parseCondition(text);
      return typeof condition === 'string' ? condition : { kind: 'path', condition };
    }
    this.#compile ??= conditionCompiler(variablesOf(this.#ids));
    try {
      const condition = this.#compile(text, 'condition');
      return { kind: 'cel', condition, names: [...new Set(text.match(/[A-Za-z_]\w*/g))] };
    } catch (error) {
      if (!(error instanceof HandfastError)) throw error;
      return `${error.message.replace(/^condition, /, '')}${adviceFor(text)}`;
    }
  }
}

/** Patterns of other languages, with advice on the CEL form. */
const FORMS: readonly (readonly [form: RegExp, advice: string])[] = [
  [/\$/, 'CEL has no `$`: write input.a, or the id of a node, in place of $.a'],
  [/[!=]==/, 'write == or !='],
  [/(?<![=!<>])=(?!=)/, 'write == for equal'],
  [/<>/, 'write != for not equal'],
  [/\b(?:and|AND)\b/, 'write && for and'],
  [/\b(?:or|OR)\b/, 'write || for or'],
  [/\b(?:not|NOT)\b/, 'write ! for not'],
  [/\b(?:None|nil|undefined|NULL)\b/, 'write null'],
  [/\b(?:True|TRUE)\b/, 'write true'],
  [/\b(?:False|FALSE)\b/, 'write false'],
];

/** Longest text that gets advice; a longer one is refused for its length. */
const MAX_ADVISED_CHARS = 4_096;

/** Returns advice on forms of other languages in an invalid expression; empty: it has none of them. */
function adviceFor(text: string): string {
  if (text.length > MAX_ADVISED_CHARS) return '';
  const bare = text.replaceAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, '""');
  const advice = FORMS.flatMap(([form, words]) => (form.test(bare) ? [words] : []));
  return advice.length === 0 ? '' : `; ${advice.join('; ')}`;
}

/** Words with another meaning in CEL. */
const CEL_WORDS = new Set(
  [
    'as break const continue else for function if import let loop package namespace return',
    'var void while __proto__ prototype bool bytes double dyn int list map null_type string',
    'type uint true false null in timestamp duration google optional',
  ].flatMap((words) => words.split(' ')),
);

function variablesOf(ids: Iterable<string>): Record<string, string> {
  const variables: Record<string, string> = Object.create(null);
  for (const id of ids) if (/^[A-Za-z_]\w*$/.test(id) && !CEL_WORDS.has(id)) variables[id] = 'dyn';
  for (const name of CONDITION_NAMES) variables[name] ??= 'dyn';
  return variables;
}

/** Returns the value of an expression. Fails with chains.expression. */
export function expressionValue(expression: Expression, context: Context, steps = chainSteps()): unknown {
  switch (expression.kind) {
    case 'literal':
      return expression.value;
    case 'path':
      // The whole context is built from its parts.
      if (expression.path.names.length === 0) steps.count(context.size * STEPS_PER_MEMBER);
      return valueAt(expression.path, context);
    case 'jmespath':
      return evaluateJmespath(expression.ast, context, context, steps);
  }
}

/** Maximum nesting of an output or input: less than the receiver of a message accepts. */
export const MAX_NESTED = 200;

/**
 * Checks the size of a value that expressions made. Inputs can share the value at a path, so a small chain can make inputs that
 * are small until they are written. Fails with chains.expression.
 * @param maxSteps values at most
 */
export function mustBeSmall(value: unknown, maxSteps = MAX_STEPS): void {
  const bounds: JsonBounds = { chars: MAX_MADE_CHARS, depth: MAX_NESTED, values: maxSteps };
  const beyond = jsonChars(value, bounds);
  if (typeof beyond === 'number') return;
  const message =
    beyond === 'depth'
      ? `the values are nested more than ${MAX_NESTED} deep`
      : `the values are more than ${bounds[beyond]} ${beyond === 'chars' ? 'characters' : 'in number'}`;
  throw failure('expression', message, { reason: beyond === 'depth' ? 'depth' : 'steps' });
}

/** Maximum characters of one input. */
const MAX_MADE_CHARS = 64 * 1024 ** 2;

/**
 * Returns the input of a node. Fails with chains.expression and `detail.field`.
 * @param maxSteps of all its expressions
 */
export function evaluate(map: InputMap, context: Context, maxSteps?: number): Record<string, unknown> {
  if (map.kind === 'input') return { ...map.input };
  const steps = chainSteps(maxSteps);
  const input = Object.fromEntries(
    map.fields.map(([field, expression]) => {
      try {
        return [field, expressionValue(expression, context, steps)];
      } catch (error) {
        throw atField(error, `input_map.${field}`);
      }
    }),
  );
  try {
    mustBeSmall(input, maxSteps);
  } catch (error) {
    throw atField(error, 'input_map');
  }
  return input;
}

/** Returns the list that a map runs over: a value that is no list is one item. Fails with chains.expression. */
export function itemsOf(expression: Expression, context: Context, maxSteps?: number): readonly unknown[] {
  try {
    const items = expressionValue(expression, context, chainSteps(maxSteps));
    return Array.isArray(items) ? items : [items];
  } catch (error) {
    throw atField(error, 'items_path');
  }
}

/**
 * Returns the value that a reduce node makes of the gathered outputs: `@` in its expression is these outputs, `$` is the
 * context. Fails with chains.expression.
 */
export function reduced(expression: Expression, gathered: unknown, context: Context, maxSteps?: number): unknown {
  try {
    return expression.kind === 'jmespath'
      ? evaluateJmespath(expression.ast, gathered, context, chainSteps(maxSteps))
      : expressionValue(expression, context, chainSteps(maxSteps));
  } catch (error) {
    throw atField(error, 'reduce');
  }
}

/**
 * Returns true when a condition holds. Fails with chains.expression, also for a CEL condition whose value is neither true nor
 * false.
 */
export function test(condition: Condition, context: Context): boolean {
  try {
    if (condition.kind === 'path') return holds(condition.condition, context);
    const steps = chainSteps();
    const found = condition.condition.test(conditionValues(condition.names, context, steps), steps);
    if (found !== undefined) return found;
    throw failure('expression', 'the condition is neither true nor false with these data', { reason: 'type' });
  } catch (error) {
    throw atField(error, 'condition');
  }
}

/** Returns the variables that a condition uses. A node without an output is null. */
function conditionValues(names: readonly string[], context: Context, steps: Steps): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = Object.create(null);
  for (const name of names) {
    values[name] = context.get(name);
    if (name !== 'nodes' || context.outputs.has(name)) continue;
    steps.count(context.outputs.size * STEPS_PER_MEMBER);
    values[name] = Object.fromEntries(context.outputs);
  }
  return values;
}

function atField(error: unknown, field: string): unknown {
  if (!(error instanceof HandfastError)) return error;
  const { reason } = error.detail;
  return failure('expression', `${field}: ${error.message}`, { ...(reason !== undefined && { reason }), field }, error);
}

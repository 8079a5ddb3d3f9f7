/**
 * Conditions in the Common Expression Language, as the configuration has them: parsed and type-checked once by the
 * package, evaluated many times within counted steps (`cel/evaluate.ts`). The only file that loads the expression
 * library.
 */
import { createRequire } from 'node:module';
import type * as Cel from '@marcbachmann/cel-js';
import { fail } from '../wire/errors.ts';
import { evaluator, PatternError, type Small, type Variables } from './cel/evaluate.ts';
import { NO_VALUE } from './cel/values.ts';
import { OutOfSteps, Steps } from './steps.ts';

export type { Variables };

/** A compiled condition. */
export interface Condition {
  /**
   * Evaluates the condition: true or false; undefined if it cannot be evaluated, or the result is neither.
   * @param steps the bound of work, shared by the conditions of one decision; its error passes through. Default:
   *   {@link MAX_STEPS}, past which it is undefined
   */
  test(values: Readonly<Record<string, unknown>>, steps?: Steps): boolean | undefined;
  /** True if it can use many steps with small values: a regular expression, or loops inside loops. */
  readonly slow: boolean;
  /**
   * Returns the position at which an expression uses only a part of a member: by a function, an operator, an index. A
   * character of the expression, from 0; undefined when the member is only compared (`==`, `!=`, `in`) or looked up
   * (`has`).
   */
  usesPartOf(path: readonly string[]): number | undefined;
}

/** Loads the library with the first compiler: many programs that import this have no conditions. */
const cel = (): typeof Cel => createRequire(import.meta.url)('@marcbachmann/cel-js') as typeof Cel;

/** Longest expression, in characters. */
const MAX_EXPRESSION_CHARS = 4096;

/** Bounds of an expression after parsing. */
const LIMITS = { maxAstNodes: 1000, maxDepth: 64, maxListElements: 256, maxMapEntries: 64 };

/** The work of a regular expression grows with its size; each loop multiplies the work by the length of a list. */
const REGULAR_EXPRESSION = /\bmatches\b/;
const LOOP = /\b(?:all|exists|exists_one|filter|map)\b/g;

/**
 * Returns a compiler of conditions over these variables.
 *
 * `what` names the condition in messages (`approvals rule 2`), `detail` goes into the error's.
 * @throws config_invalid, with `detail.column` (from 1), for an expression that does not parse, does not type-check, or
 *   cannot be true or false
 */
export function conditionCompiler(
  variables: Variables,
): (when: string, what: string, detail?: Readonly<Record<string, unknown>>) => Condition {
  const { Environment } = cel();
  const environment = new Environment({ limits: LIMITS });
  for (const [name, type] of Object.entries(variables)) {
    if (typeof type === 'string') environment.registerVariable(name, type);
    else environment.registerVariable({ name, schema: { ...type } });
  }
  return (when, what, detail) => {
    const refuse = (why: string, at = 0): Error =>
      fail('config_invalid', `${what}, column ${at + 1}: ${why}`, { ...detail, column: at + 1 });
    if (when.length > MAX_EXPRESSION_CHARS) throw refuse(`the expression exceeds ${MAX_EXPRESSION_CHARS} characters`);
    const { ast } = parse(environment, when, refuse);
    const evaluate = prepare(ast, variables, refuse);
    const slow = REGULAR_EXPRESSION.test(when) || (when.match(LOOP)?.length ?? 0) > 1;
    return {
      slow,
      test: (values, steps) => evaluated(evaluate, values, steps),
      usesPartOf: (path) => partUse(ast, path),
    };
  };
}

function parse(
  environment: Cel.Environment,
  when: string,
  refuse: (why: string, at?: number) => Error,
): Cel.ParseResult {
  let type: string | undefined;
  let parsed: Cel.ParseResult;
  try {
    parsed = environment.parse(when);
    const checked = parsed.check();
    if (!checked.valid) throw checked.error;
    type = checked.type;
  } catch (error) {
    const { summary, message, range } = error as { summary?: string; message: string; range?: { start: number } };
    throw refuse(summary ?? message, range?.start);
  }
  if (type !== 'bool' && type !== 'dyn') throw refuse(`the expression is a ${type}, not a bool`);
  return parsed;
}

function prepare(
  ast: Cel.ASTNode,
  variables: Variables,
  refuse: (why: string, at?: number) => Error,
): ReturnType<typeof evaluator> {
  try {
    return evaluator(ast, variables, small);
  } catch (error) {
    throw error instanceof PatternError ? refuse(error.message, error.start) : error;
  }
}

let scalars: { readonly environment: Cel.Environment; readonly parsed: Map<string, Cel.ParseResult> } | undefined;

/** Functions of the package are few; each is parsed once. */
const small: Small = (expression, values) => {
  const { Environment } = cel();
  scalars ??= {
    environment: new Environment({ limits: LIMITS })
      .registerVariable('a0', 'dyn')
      .registerVariable('a1', 'dyn')
      .registerVariable('a2', 'dyn'),
    parsed: new Map(),
  };
  let parsed = scalars.parsed.get(expression);
  if (parsed === undefined) {
    parsed = scalars.environment.parse(expression);
    scalars.parsed.set(expression, parsed);
  }
  return parsed(values) as unknown;
};

function evaluated(
  evaluate: ReturnType<typeof evaluator>,
  values: Readonly<Record<string, unknown>>,
  steps: Steps | undefined,
): boolean | undefined {
  try {
    const value = evaluate(values, steps ?? new Steps());
    return typeof value === 'boolean' ? value : undefined;
  } catch (error) {
    if (error === NO_VALUE || (steps === undefined && error instanceof OutOfSteps)) return undefined;
    throw error;
  }
}

/** Operators and functions that take a value as it is. */
const WHOLE = new Set(['==', '!=', 'in', 'has']);

/** @param by the operator or function around the node */
function partUse(node: unknown, path: readonly string[], by = ''): number | undefined {
  if (Array.isArray(node)) return firstOf(node, (each) => partUse(each, path, by));
  if (typeof node !== 'object' || node === null || !('op' in node)) return undefined;
  const { op, args, start } = node as { op: string; args: unknown; start: number };
  if (pathOf(node)?.join('.') === path.join('.')) return WHOLE.has(by) ? undefined : start;
  return partUse(args, path, op === 'call' && Array.isArray(args) ? String(args[0]) : op);
}

/** Returns the names in `tool.input.command` or `tool.input["command"]`. */
function pathOf(node: unknown): readonly string[] | undefined {
  const { op, args } = node as { op: string; args: unknown };
  if (op === 'id') return [String(args)];
  if ((op !== '.' && op !== '[]') || !Array.isArray(args)) return undefined;
  const [base, member] = args as [unknown, unknown];
  const name = typeof member === 'string' ? member : (member as { args?: unknown } | null)?.args;
  const before = pathOf(base);
  return before !== undefined && typeof name === 'string' ? [...before, name] : undefined;
}

function firstOf<Value>(values: readonly unknown[], find: (value: unknown) => Value | undefined): Value | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

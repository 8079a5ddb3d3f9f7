/**
 * JMESPath expressions: parses them with `@jmespath-community/jmespath`, which this file alone knows, and checks size,
 * functions and variables. `jmespath-evaluate.ts` evaluates the result, within bounds.
 *
 * The grammar is that of JMESPath Community: with `$` for the root, `let`, and arithmetic.
 * @see docs/decisions/0044-jmespath-parsed-by-a-package.md
 */
import { createRequire } from 'node:module';
import { suggest } from '../../../base/suggest.ts';
import { arityOf, functionNames } from './jmespath-functions.ts';

/** The tree of an expression, as the package makes it. */
export type Ast =
  | { readonly type: 'Identity' | 'Current' | 'Root' }
  | { readonly type: 'Field' | 'Variable'; readonly name: string }
  | { readonly type: 'Literal'; readonly value: unknown }
  | { readonly type: 'Index'; readonly value: number }
  | {
      readonly type: 'Slice';
      readonly start: number | null;
      readonly stop: number | null;
      readonly step: number | null;
    }
  | { readonly type: 'ExpressionReference' | 'Flatten' | 'NotExpression'; readonly child: Ast }
  | {
      readonly type:
        | 'AndExpression'
        | 'OrExpression'
        | 'IndexExpression'
        | 'Pipe'
        | 'Projection'
        | 'Subexpression'
        | 'ValueProjection';
      readonly left: Ast;
      readonly right: Ast;
    }
  | { readonly type: 'FilterProjection'; readonly left: Ast; readonly right: Ast; readonly condition: Ast }
  | { readonly type: 'Comparator'; readonly name: string; readonly left: Ast; readonly right: Ast }
  | { readonly type: 'Arithmetic'; readonly operator: string; readonly left: Ast; readonly right: Ast }
  | { readonly type: 'Unary'; readonly operator: string; readonly operand: Ast }
  | {
      readonly type: 'MultiSelectHash';
      readonly children: readonly { readonly name: string; readonly value: Ast }[];
    }
  | { readonly type: 'MultiSelectList'; readonly children: readonly Ast[] }
  | { readonly type: 'Function'; readonly name: string; readonly children: readonly Ast[] }
  | { readonly type: 'Ternary'; readonly condition: Ast; readonly trueExpr: Ast; readonly falseExpr: Ast }
  | {
      readonly type: 'LetExpression';
      readonly bindings: readonly { readonly variable: string; readonly reference: Ast }[];
      readonly expression: Ast;
    };

/** Longest expression, in characters; the parser is recursive. */
const MAX_CHARS = 4_096;
/** Limits of a parsed expression. */
const MAX_NODES = 1_000;
const MAX_DEPTH = 200;

type Parser = { compile(expression: string): Ast };
let parser: Parser | undefined;

/** Loads the package with the first expression: many programs that import this module have none. */
const parserNow = (): Parser => {
  parser ??= createRequire(import.meta.url)('@jmespath-community/jmespath') as Parser;
  return parser;
};

/** Reads an expression. Returns a text that describes the problem of an invalid one. */
export function parseJmespath(text: string): Ast | string {
  if (text.length > MAX_CHARS) return `the expression exceeds ${MAX_CHARS} characters`;
  let ast: Ast;
  try {
    ast = parserNow().compile(text);
  } catch (error) {
    if (error instanceof RangeError) return 'the expression is nested too deeply';
    return (error as Error).message.replace(/^Syntax error[:,]? ?/, '').replaceAll('\n', ' ');
  }
  return problemOf(ast) ?? ast;
}

/** Returns the problem of an expression that the grammar allows and an evaluation could not run. */
function problemOf(root: Ast): string | undefined {
  const open: { readonly ast: Ast; readonly depth: number; readonly names: readonly string[] }[] = [
    { ast: root, depth: 1, names: [] },
  ];
  for (let nodes = 1; open.length > 0; nodes += 1) {
    const { ast, depth, names } = open.pop() as (typeof open)[number];
    if (nodes > MAX_NODES) return `the expression has more than ${MAX_NODES} parts`;
    if (depth > MAX_DEPTH) return `the expression is nested more than ${MAX_DEPTH} deep`;
    const problem = ownProblem(ast, names);
    if (problem !== undefined) return problem;
    const inside = ast.type === 'LetExpression' ? [...names, ...ast.bindings.map(({ variable }) => variable)] : names;
    for (const child of partsOf(ast)) open.push({ ast: child, depth: depth + 1, names: inside });
  }
  return undefined;
}

function ownProblem(ast: Ast, names: readonly string[]): string | undefined {
  if (ast.type === 'Variable' && !names.includes(ast.name)) return `there is no variable $${ast.name}`;
  if (ast.type === 'Slice' && ast.step === 0) return 'the step of a slice cannot be 0';
  if (ast.type !== 'Function') return undefined;
  const arity = arityOf(ast.name);
  if (arity === undefined) {
    const near = suggest(ast.name, functionNames);
    return `there is no function ${ast.name}()${near === undefined ? '' : `; did you mean ${near}()?`}`;
  }
  const { min, max, references } = arity;
  const given = ast.children.length;
  if (given < min || given > max) {
    return `${ast.name}() takes ${min === max ? min : `at least ${min}`} argument${min === 1 ? '' : 's'}, got ${given}`;
  }
  const wrong = ast.children.findIndex(
    (child, at) => (child.type === 'ExpressionReference') !== references.includes(at),
  );
  if (wrong === -1) return undefined;
  return references.includes(wrong)
    ? `argument ${wrong + 1} of ${ast.name}() is an expression: put & before it`
    : `argument ${wrong + 1} of ${ast.name}() is a value: no & before it`;
}

/** Returns the expressions directly inside one. */
export function partsOf(ast: Ast): readonly Ast[] {
  switch (ast.type) {
    case 'ExpressionReference':
    case 'Flatten':
    case 'NotExpression':
      return [ast.child];
    case 'FilterProjection':
      return [ast.left, ast.condition, ast.right];
    case 'Unary':
      return [ast.operand];
    case 'MultiSelectHash':
      return ast.children.map(({ value }) => value);
    case 'MultiSelectList':
    case 'Function':
      return ast.children;
    case 'Ternary':
      return [ast.condition, ast.trueExpr, ast.falseExpr];
    case 'LetExpression':
      return [...ast.bindings.map(({ reference }) => reference), ast.expression];
    default:
      return 'left' in ast ? [ast.left, ast.right] : [];
  }
}

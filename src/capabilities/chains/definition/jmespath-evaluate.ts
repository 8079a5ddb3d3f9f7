/**
 * Evaluates a JMESPath expression for a context: reads own members only, and counts every value it visits or makes as a step. A
 * missing value is null. `jmespath.ts` has parsed and checked the expression.
 */
import type { Steps } from '../../../base/steps.ts';
import { isObject } from '../../../wire/json.ts';
import { failure } from '../errors.ts';
import { Context } from './context.ts';
import type { Ast } from './jmespath.ts';
import { callFunction, equal, isEmpty } from './jmespath-functions.ts';
import { STEPS_PER_MEMBER } from './steps.ts';

/** Variables of `let`, the inner ones first. */
interface Scope {
  readonly values: ReadonlyMap<string, unknown>;
  readonly outer: Scope | undefined;
}

/**
 * Evaluates an expression. Fails with chains.expression where an operator or a function does not fit its values, and beyond the
 * steps.
 * @param root the value of `$` and, at first, of `@`: the context, or any value
 */
export function evaluateJmespath(ast: Ast, current: unknown, root: unknown, steps: Steps): unknown {
  try {
    const value = new Evaluation(root, steps).visit(ast, current, undefined);
    // A result can share one value thousands of times; its reader sees each of them.
    steps.countAll(value);
    return value;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw failure('expression', 'the data are nested too deeply', { reason: 'depth' }, error);
  }
}

class Evaluation {
  readonly #root: unknown;
  readonly steps: Steps;

  constructor(root: unknown, steps: Steps) {
    this.#root = root;
    this.steps = steps;
  }

  visit(ast: Ast, value: unknown, scope: Scope | undefined): unknown {
    this.steps.count();
    switch (ast.type) {
      case 'Field':
        return member(value, ast.name);
      case 'Subexpression':
      case 'IndexExpression':
      case 'Pipe':
        return this.visit(ast.right, this.#base(ast.left, value, scope), scope);
      case 'Current':
      case 'Identity':
        return this.#plain(value);
      case 'Root':
        return this.#plain(this.#root);
      case 'Literal':
        return ast.value;
      case 'Index':
        return Array.isArray(value) ? (value.at(ast.value) ?? null) : null;
      case 'Slice':
        return this.#slice(ast, value);
      case 'Projection':
        return this.#projection(ast, value, scope);
      case 'ValueProjection': {
        const base = this.visit(ast.left, value, scope);
        if (!isObject(base)) return null;
        this.steps.keys(base);
        return this.#each(Object.values(base), ast.right, scope);
      }
      case 'FilterProjection': {
        const base = this.visit(ast.left, value, scope);
        if (!Array.isArray(base)) return null;
        const fits = base.filter((item) => !isEmpty(this.visit(ast.condition, item, scope), this.steps));
        return this.#each(fits, ast.right, scope);
      }
      case 'Flatten': {
        const base = this.visit(ast.child, value, scope);
        if (!Array.isArray(base)) return null;
        // Counts before the list is made: its lists may be one and the same.
        for (const item of base) this.steps.count(Array.isArray(item) ? item.length : 1);
        return base.flat();
      }
      case 'MultiSelectList':
        // Null has no members.
        return value === null ? null : ast.children.map((child) => this.visit(child, value, scope));
      case 'MultiSelectHash': {
        if (value === null) return null;
        this.steps.count(ast.children.length * 4);
        return fromEntries(ast.children.map((child) => [child.name, this.visit(child.value, value, scope)]));
      }
      case 'Comparator':
        return this.#compare(ast.name, this.visit(ast.left, value, scope), this.visit(ast.right, value, scope));
      case 'Arithmetic':
        return arithmetic(ast.operator, this.visit(ast.left, value, scope), this.visit(ast.right, value, scope));
      case 'Unary':
        return arithmetic(ast.operator, 0, this.visit(ast.operand, value, scope));
      case 'OrExpression': {
        const left = this.visit(ast.left, value, scope);
        return isEmpty(left, this.steps) ? this.visit(ast.right, value, scope) : left;
      }
      case 'AndExpression': {
        const left = this.visit(ast.left, value, scope);
        return isEmpty(left, this.steps) ? left : this.visit(ast.right, value, scope);
      }
      case 'NotExpression':
        return isEmpty(this.visit(ast.child, value, scope), this.steps);
      case 'Ternary': {
        const chosen = isEmpty(this.visit(ast.condition, value, scope), this.steps) ? ast.falseExpr : ast.trueExpr;
        return this.visit(chosen, value, scope);
      }
      case 'LetExpression': {
        const values = new Map(
          ast.bindings.map(({ variable, reference }) => [variable, this.visit(reference, value, scope)]),
        );
        return this.visit(ast.expression, value, { values, outer: scope });
      }
      case 'Variable':
        return variable(ast.name, scope);
      case 'Function':
        return this.#call(ast.name, ast.children, value, scope);
      case 'ExpressionReference':
        throw failure('expression', 'an expression with & is no value', { reason: 'type' });
    }
  }

  /** Evaluates as `visit` does, but a context stays a `Context`, whose names are looked up one by one. */
  #base(ast: Ast, value: unknown, scope: Scope | undefined): unknown {
    if (ast.type === 'Current' || ast.type === 'Identity') return value;
    return ast.type === 'Root' ? this.#root : this.visit(ast, value, scope);
  }

  /** Returns the context as an object. */
  #plain(value: unknown): unknown {
    if (!(value instanceof Context)) return value;
    this.steps.count(value.size * STEPS_PER_MEMBER);
    return value.whole();
  }

  /** Evaluates an expression for each item; returns the values that are not null. */
  #each(items: readonly unknown[], ast: Ast, scope: Scope | undefined): unknown[] {
    const found: unknown[] = [];
    for (const item of items) {
      const value = this.visit(ast, item ?? null, scope);
      if (value !== null) found.push(value);
    }
    return found;
  }

  #projection(
    ast: Ast & { readonly left: Ast; readonly right: Ast },
    value: unknown,
    scope: Scope | undefined,
  ): unknown {
    const base = this.visit(ast.left, value, scope);
    // A slice of a text is a text, and no list to project.
    if (typeof base === 'string' && ast.left.type === 'IndexExpression' && ast.left.right.type === 'Slice') {
      return this.visit(ast.right, base, scope);
    }
    return Array.isArray(base) ? this.#each(base, ast.right, scope) : null;
  }

  #slice(ast: Ast & { readonly type: 'Slice' }, value: unknown): unknown {
    if (!Array.isArray(value) && typeof value !== 'string') return null;
    this.steps.count(typeof value === 'string' ? value.length : 1);
    const items: readonly unknown[] = typeof value === 'string' ? [...value] : value;
    const step = ast.step ?? 1;
    const bound = (given: number | null, missing: number): number => {
      if (given === null) return missing;
      const at = given < 0 ? given + items.length : given;
      return step > 0 ? Math.min(Math.max(at, 0), items.length) : Math.min(Math.max(at, -1), items.length - 1);
    };
    const start = bound(ast.start, step > 0 ? 0 : items.length - 1);
    const stop = bound(ast.stop, step > 0 ? items.length : -1);
    const found: unknown[] = [];
    for (let at = start; step > 0 ? at < stop : at > stop; at += step) found.push(items[at]);
    this.steps.count(found.length);
    return typeof value === 'string' ? found.join('') : found;
  }

  #compare(operator: string, left: unknown, right: unknown): boolean | null {
    if (operator === 'EQ') return equal(left, right, this.steps);
    if (operator === 'NE') return !equal(left, right, this.steps);
    if (typeof left !== 'number' || typeof right !== 'number') return null;
    if (operator === 'GT') return left > right;
    if (operator === 'GTE') return left >= right;
    return operator === 'LT' ? left < right : left <= right;
  }

  #call(name: string, args: readonly Ast[], value: unknown, scope: Scope | undefined): unknown {
    const values = args.map((arg) =>
      arg.type === 'ExpressionReference'
        ? (item: unknown) => this.visit(arg.child, item ?? null, scope)
        : this.visit(arg, value, scope),
    );
    return callFunction(name, values, this.steps);
  }
}

function member(value: unknown, name: string): unknown {
  if (value instanceof Context) return value.get(name);
  return isObject(value) && Object.hasOwn(value, name) ? (value[name] ?? null) : null;
}

/** Returns an object of these members, even of one named `__proto__`. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): object {
  return Object.fromEntries(entries);
}

function variable(name: string, scope: Scope | undefined): unknown {
  for (let at = scope; at !== undefined; at = at.outer) if (at.values.has(name)) return at.values.get(name);
  throw failure('expression', `there is no variable $${name}`, { reason: 'type' });
}

function arithmetic(operator: string, left: unknown, right: unknown): number {
  if (typeof left !== 'number' || typeof right !== 'number') {
    throw failure('expression', 'arithmetic needs two numbers', { reason: 'type' });
  }
  const value = computed(operator, left, right);
  if (Number.isFinite(value)) return value;
  throw failure('expression', 'the result of the arithmetic is no number', { reason: 'type' });
}

function computed(operator: string, left: number, right: number): number {
  switch (operator) {
    case 'Plus':
      return left + right;
    case 'Minus':
      return left - right;
    case 'Multiply':
    case 'Star':
      return left * right;
    case 'Divide':
      return left / right;
    case 'Div':
      return Math.floor(left / right);
    default:
      return left % right;
  }
}

/**
 * Conditions of the Common Expression Language, evaluated within counted steps: the tree that the package parsed and
 * type-checked becomes functions, and every value visited, compared or made counts.
 *
 * `&&`, `||`, `all` and `exists` pass over parts without a value where another part decides, as the language has it.
 * @see docs/decisions/0050-expressions-within-counted-work.md
 */
import type { Steps } from '../steps.ts';
import { join, textMethods } from './functions.ts';
import { patternOf } from './pattern.ts';
import {
  doubles,
  equal,
  integers,
  isIn,
  itemsOf,
  kindOf,
  memberOf,
  NO_VALUE,
  ordered,
  sizeOf,
  valueAt,
} from './values.ts';

/** The tree of a condition, as the package makes it. */
export type CelNode = { readonly start: number } & (
  | { readonly op: 'value'; readonly args: unknown }
  | { readonly op: 'id'; readonly args: string }
  | Member
  | { readonly op: '.?'; readonly args: readonly [CelNode, string] }
  | { readonly op: '[]' | '[?]' | BinaryOperator | '&&' | '||'; readonly args: readonly [CelNode, CelNode] }
  | { readonly op: 'call'; readonly args: readonly [string, readonly CelNode[]] }
  | { readonly op: 'rcall'; readonly args: readonly [string, CelNode, readonly CelNode[]] }
  | { readonly op: 'list'; readonly args: readonly CelNode[] }
  | { readonly op: 'map'; readonly args: readonly (readonly [CelNode, CelNode])[] }
  | { readonly op: '?:'; readonly args: readonly [CelNode, CelNode, CelNode] }
  | { readonly op: '!_' | '-_'; readonly args: CelNode }
);
interface Member {
  readonly op: '.';
  readonly args: readonly [CelNode, string];
}
type BinaryOperator = '==' | '!=' | 'in' | '+' | '-' | '*' | '/' | '%' | '<' | '<=' | '>' | '>=';

/** One evaluation: the variables, the names that loops bind, and the bound. */
interface Frame {
  readonly values: Readonly<Record<string, unknown>>;
  readonly bound: unknown[];
  readonly steps: Steps;
}

type Run = (frame: Frame) => unknown;

/** The package evaluates an expression over small values; throws where it has no value. */
export type Small = (expression: string, values: Readonly<Record<string, unknown>>) => unknown;

/** Name of a variable → its CEL type, or its members with theirs. */
export type Variables = Readonly<Record<string, string | Readonly<Record<string, string>>>>;

/** Makes an expression ready. The result throws `NO_VALUE` for an expression without a value, and the errors of the steps. */
export function evaluator(
  root: CelNode,
  variables: Variables,
  small: Small,
): (values: Readonly<Record<string, unknown>>, steps: Steps) => unknown {
  const run = new Compilation(variables, small).of(root, []);
  return (values, steps) => run({ values, bound: [], steps });
}

/** A pattern that is written in the condition and that RE2 does not have. */
export class PatternError extends Error {
  readonly start: number;
  constructor(message: string, start: number) {
    super(message);
    this.start = start;
  }
}

/** Steps of a part without a value: its exception unwinds the stack. */
const FAILED_STEPS = 150;
/** Steps of an evaluation by the package, and more of one that fails. */
const SMALL_STEPS = 500;
const SMALL_FAILED_STEPS = 2_000;
/** A time in a time zone is written and read as text. */
const ZONE_STEPS = 10_000;
/** Longest text that the package converts to a number, a time or a duration. */
const MAX_CONVERTED_CHARS = 256;

class Compilation {
  readonly #variables: Variables;
  readonly #small: Small;

  constructor(variables: Variables, small: Small) {
    this.#variables = variables;
    this.#small = small;
  }

  /** Compiles a node. @param names that the loops around it bind, the outer ones first */
  of(node: CelNode, names: readonly string[]): Run {
    switch (node.op) {
      case 'value':
        return () => node.args;
      case 'id':
        return this.#name(node.args, names);
      case '.':
        return this.#member(node, names);
      case '[]': {
        const [value, key] = node.args.map((each) => this.of(each, names)) as [Run, Run];
        return (frame) => {
          frame.steps.count(2);
          return memberOf(value(frame), key(frame), frame.steps);
        };
      }
      case 'list': {
        const items = node.args.map((each) => this.of(each, names));
        return (frame) => {
          frame.steps.count(items.length + 1);
          return items.map((item) => item(frame));
        };
      }
      case 'map':
        return this.#map(node.args, names);
      case '?:': {
        const [condition, one, other] = node.args.map((each) => this.of(each, names)) as [Run, Run, Run];
        return (frame) => {
          frame.steps.count();
          return truth(condition(frame)) ? one(frame) : other(frame);
        };
      }
      case '&&':
      case '||':
        return this.#logical(node.op === '||', node.args, names);
      case '!_': {
        const run = this.of(node.args, names);
        return (frame) => {
          frame.steps.count();
          return !truth(run(frame));
        };
      }
      case '-_': {
        const run = this.of(node.args, names);
        return (frame) => {
          frame.steps.count();
          const value = run(frame);
          if (typeof value !== 'bigint' && typeof value !== 'number') throw NO_VALUE;
          return -value;
        };
      }
      case 'call':
        return this.#call(node.args, names);
      case 'rcall':
        return this.#method(node.args, names);
      case '.?':
      case '[?]':
        throw new Error('optional values are not part of conditions');
      default:
        return this.#operator(node.op, node.args, names);
    }
  }

  /** Compiles a name: one that a loop binds, a variable, or a name of the language, for example a type. */
  #name(name: string, names: readonly string[]): Run {
    const at = names.lastIndexOf(name);
    if (at !== -1) return ({ bound }) => bound[at];
    const type = this.#variables[name];
    if (type === undefined || !Object.hasOwn(this.#variables, name)) {
      const value = this.#small(name, {});
      return () => value;
    }
    return ({ values, steps }) => {
      steps.count();
      return typed(values[name], typeof type === 'string' ? type : 'map');
    };
  }

  #member(node: Member, names: readonly string[]): Run {
    const [base, name] = node.args;
    const value = this.of(base, names);
    const declared = base.op === 'id' && !names.includes(base.args) ? this.#variables[base.args] : undefined;
    const type = typeof declared === 'object' ? declared[name] : undefined;
    return (frame) => {
      frame.steps.count();
      const of = value(frame);
      // A dot is no index.
      if (Array.isArray(of)) throw NO_VALUE;
      const found = memberOf(of, name, frame.steps);
      return type === undefined ? found : typed(found, type);
    };
  }

  #map(entries: readonly (readonly [CelNode, CelNode])[], names: readonly string[]): Run {
    const runs = entries.map(([key, value]) => [this.of(key, names), this.of(value, names)] as const);
    return (frame) => {
      frame.steps.count(runs.length * 2 + 1);
      return Object.fromEntries(runs.map(([key, value]) => [String(key(frame)), value(frame)]));
    };
  }

  #logical(decides: boolean, args: readonly CelNode[], names: readonly string[]): Run {
    const [left, right] = args.map((each) => this.of(each, names)) as [Run, Run];
    return (frame) => {
      frame.steps.count();
      const first = attempt(left, frame);
      if (first === decides) return decides;
      const second = right(frame);
      if (second === decides) return decides;
      if (first === !decides && second === !decides) return !decides;
      throw NO_VALUE;
    };
  }

  #operator(operator: string, args: readonly CelNode[], names: readonly string[]): Run {
    const [left, right] = args.map((each) => this.of(each, names)) as [Run, Run];
    const others = (a: unknown, b: unknown): unknown => this.#small('a0 == a1', { a0: a, a1: b });
    switch (operator) {
      case '==':
        return (frame) => equal(left(frame), right(frame), frame.steps, others);
      case '!=':
        return (frame) => !equal(left(frame), right(frame), frame.steps, others);
      case 'in':
        return (frame) => {
          frame.steps.count();
          return isIn(left(frame), right(frame), frame.steps, others);
        };
      default:
        return (frame) => {
          frame.steps.count();
          return this.#combined(operator, left(frame), right(frame), frame.steps);
        };
    }
  }

  /** Applies an operator of arithmetic or order. */
  #combined(operator: string, left: unknown, right: unknown, steps: Steps): unknown {
    const [one, other] = [kindOf(left), kindOf(right)];
    const compares = operator.startsWith('<') || operator.startsWith('>');
    if (one === other && (one === 'string' || one === 'list')) {
      if (operator === '+') return together(left as string, right as string, steps);
      if (one === 'list' || !compares) throw NO_VALUE;
      steps.countText(Math.min((left as string).length, (right as string).length) / 8);
      return ordered(operator, left as string, right as string);
    }
    if (compares) {
      const isNumber = (kind: string): boolean => kind === 'int' || kind === 'double';
      if ((isNumber(one) && isNumber(other)) || (one === 'bool' && other === 'bool')) {
        return ordered(operator, left as number, right as number);
      }
    } else if (one === 'int' && other === 'int') return integers(operator, left as bigint, right as bigint);
    else if (one === 'double' && other === 'double') return doubles(operator, left as number, right as number);
    if (one !== 'other' && other !== 'other') throw NO_VALUE;
    return this.#packages(`a0 ${operator} a1`, [left, right], steps);
  }

  /** Evaluates an expression over small values by the package. Lists, maps and long texts are not small. */
  #packages(expression: string, args: readonly unknown[], steps: Steps): unknown {
    for (const arg of args) {
      const kind = kindOf(arg);
      if (kind === 'list' || kind === 'map') throw NO_VALUE;
      if (ArrayBuffer.isView(arg)) steps.count(arg.byteLength);
    }
    steps.count(SMALL_STEPS);
    try {
      return this.#small(expression, Object.fromEntries(args.map((arg, at) => [`a${at}`, arg])));
    } catch {
      steps.count(SMALL_FAILED_STEPS);
      throw NO_VALUE;
    }
  }

  #call([name, args]: readonly [string, readonly CelNode[]], names: readonly string[]): Run {
    if (name === 'has') return this.#has(args[0] as CelNode, names);
    const runs = args.map((each) => this.of(each, names));
    const expression = `${name}(${runs.map((_, at) => `a${at}`).join(', ')})`;
    return (frame) => {
      const { steps } = frame;
      steps.count(1 + runs.length);
      const given = runs.map((run) => run(frame));
      const [first] = given;
      if (name === 'dyn') return first;
      if (name === 'size') return sizeOf(first, steps) ?? this.#packages(expression, given, steps);
      const kind = kindOf(first);
      // All lists have one type, and all maps.
      if (name === 'type' && (kind === 'list' || kind === 'map')) {
        steps.count(SMALL_STEPS);
        return this.#small(expression, { a0: kind === 'list' ? [] : {} });
      }
      if (typeof first === 'string') {
        if (name === 'string') return first;
        steps.countText(first.length);
        if (name !== 'bytes' && first.length > MAX_CONVERTED_CHARS) throw NO_VALUE;
        if (name === 'bytes') steps.count(first.length);
      }
      return this.#packages(expression, given, steps);
    };
  }

  /** Compiles `has(a.b.c)`: true if the last member exists; those before it must exist. */
  #has(node: CelNode, names: readonly string[]): Run {
    const [base, name] = node.args as [CelNode, string];
    const value = this.of(base, names);
    return (frame) => {
      frame.steps.count();
      const of = value(frame);
      return kindOf(of) === 'map' && valueAt(of as Record<string, unknown>, name) !== undefined;
    };
  }

  #method([name, self, args]: readonly [string, CelNode, readonly CelNode[]], names: readonly string[]): Run {
    if (self.op === 'id' && self.args === 'cel' && name === 'bind') return this.#bind(args, names);
    const loop = this.#loop(name, self, args, names);
    if (loop !== undefined) return loop;
    const receiver = this.of(self, names);
    const runs = args.map((each) => this.of(each, names));
    const [pattern] = args;
    if (name === 'matches' && pattern?.op === 'value' && typeof pattern.args === 'string') {
      const compiled = compiledPattern(pattern.args, pattern.start);
      return (frame) => {
        frame.steps.count();
        const text = receiver(frame);
        if (typeof text !== 'string') throw NO_VALUE;
        return compiled.test(text, frame.steps);
      };
    }
    const expression = `a0.${name}(${runs.map((_, at) => `a${at + 1}`).join(', ')})`;
    const ofTexts = textMethods.get(name);
    return (frame) => {
      const { steps } = frame;
      steps.count(1 + runs.length);
      const of = receiver(frame);
      const given = runs.map((run) => run(frame));
      if (name === 'size') return sizeOf(of, steps) ?? this.#packages(expression, [of, ...given], steps);
      if (name === 'join' && Array.isArray(of)) return join(of, given, steps);
      if (typeof of === 'string') {
        if (ofTexts === undefined) throw NO_VALUE;
        return ofTexts(of, given, steps);
      }
      for (const arg of given) {
        if (typeof arg !== 'string') continue;
        if (arg.length > MAX_CONVERTED_CHARS) throw NO_VALUE;
        steps.count(ZONE_STEPS);
      }
      return this.#packages(expression, [of, ...given], steps);
    };
  }

  #bind([name, given, body]: readonly CelNode[], names: readonly string[]): Run {
    const at = names.length;
    const value = this.of(given as CelNode, names);
    const run = this.of(body as CelNode, [...names, (name as CelNode).args as string]);
    return (frame) => {
      frame.steps.count(2);
      frame.bound[at] = value(frame);
      return run(frame);
    };
  }

  /** Compiles `all`, `exists`, `exists_one`, `filter` and `map` over a list, or over the keys of a map. */
  #loop(name: string, over: CelNode, args: readonly CelNode[], names: readonly string[]): Run | undefined {
    const [variable, first, second] = args;
    const takes = name === 'map' ? [2, 3] : ['all', 'exists', 'exists_one', 'filter'].includes(name) ? [2] : [];
    if (!takes.includes(args.length) || variable?.op !== 'id' || first === undefined) return undefined;
    const list = this.of(over, names);
    const at = names.length;
    const inside = [...names, variable.args];
    const run = this.of(first, inside);
    const transform = second === undefined ? undefined : this.of(second, inside);
    const each = (frame: Frame, visit: (item: unknown) => boolean): void => {
      const items = itemsOf(list(frame), frame.steps);
      for (let index = 0; index < items.length; index += 1) {
        frame.steps.count(2);
        const item = items[index];
        frame.bound[at] = item;
        if (!visit(item)) return;
      }
    };
    if (name === 'all' || name === 'exists') {
      const decides = name === 'exists';
      return (frame) => {
        let found = !decides;
        let failed = false;
        each(frame, () => {
          const holds = attempt(run, frame);
          if (holds === decides) found = decides;
          else if (holds !== !decides) failed = true;
          return holds !== decides;
        });
        if (failed && found !== decides) throw NO_VALUE;
        return found;
      };
    }
    if (name === 'exists_one') {
      return (frame) => {
        let count = 0;
        each(frame, () => {
          if (truth(run(frame))) count += 1;
          return true;
        });
        return count === 1;
      };
    }
    return (frame) => {
      const made: unknown[] = [];
      each(frame, (item) => {
        if (name === 'filter') {
          if (truth(run(frame))) made.push(item);
        } else if (transform === undefined) made.push(run(frame));
        else if (truth(run(frame))) made.push(transform(frame));
        return true;
      });
      return made;
    };
  }
}

function compiledPattern(text: string, start: number): ReturnType<typeof patternOf> {
  try {
    return patternOf(text);
  } catch (error) {
    throw new PatternError((error as Error).message, start);
  }
}

/** Returns the value of a part, or undefined if it has none. */
function attempt(run: Run, frame: Frame): unknown {
  try {
    return run(frame);
  } catch (error) {
    if (error !== NO_VALUE) throw error;
    frame.steps.count(FAILED_STEPS);
    return undefined;
  }
}

function truth(value: unknown): boolean {
  if (typeof value !== 'boolean') throw NO_VALUE;
  return value;
}

function together<Value extends string | readonly unknown[]>(left: Value, right: Value, steps: Steps): unknown {
  if (typeof left === 'string') {
    steps.countText(left.length + right.length);
    return left + (right as string);
  }
  steps.count(left.length + right.length + 1);
  return [...left, ...right];
}

/** Returns a value of the declared type; the host made it. */
function typed(value: unknown, type: string): unknown {
  if (value === undefined) throw NO_VALUE;
  if (type === 'dyn') return value;
  const kind = kindOf(value);
  if (type === kind || (type.startsWith('list') && kind === 'list') || (type.startsWith('map') && kind === 'map'))
    return value;
  throw NO_VALUE;
}

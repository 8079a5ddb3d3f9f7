/**
 * Reads a space from its description on the wire, as in `env/sample/req` and `env/contains/req`, and as a client reads the
 * spaces that a host describes. Descriptions come from peers, so their size is bounded.
 */
import { asError, fail } from '../../../wire/errors.ts';
import { pointer } from '../../../wire/findings.ts';
import { isObject, type JsonObject } from '../../../wire/json.ts';
import { Box } from './box.ts';
import { Dict, OneOf, Sequence, Tuple } from './composite.ts';
import { Discrete } from './discrete.ts';
import { Graph } from './graph.ts';
import { MultiBinary } from './multi-binary.ts';
import { MultiDiscrete } from './multi-discrete.ts';
import { flatten, type Nested, numberFromWire, shapeOf, sizeOf } from './numbers.ts';
import { type Space, spaceKinds } from './space.ts';
import { Text } from './text.ts';

/** Maximum numbers or characters in one value of a space that a peer describes. */
export const MAX_SPACE_ELEMENTS = 1_000_000;
/** Deepest nesting of spaces. */
const MAX_DEPTH = 16;
/** Number of elements that one value of a Sequence, or of a Graph, counts as. */
const COUNTED_SEQUENCE = 16;
const COUNTED_GRAPH = 100;

/**
 * Returns the space of a description.
 * @param path place of the description, as JSON Pointer
 * @throws `schema_violation` for an invalid description, or one of more than {@link MAX_SPACE_ELEMENTS} elements; `detail.path`
 *   names the part
 */
export function spaceOf(description: unknown, path = ''): Space {
  return new Reader().read(description, path, 1, 0);
}

class Reader {
  #elements = 0;

  read(description: unknown, path: string, times: number, depth: number): Space {
    try {
      return this.#read(description, path, times, depth);
    } catch (thrown) {
      const { code, message, detail } = asError(thrown);
      // The innermost part has reported its place.
      if (code !== 'schema_violation' || detail.path !== undefined) throw thrown;
      throw fail('schema_violation', depth === 0 ? message : `${message} (at ${path})`, { ...detail, path });
    }
  }

  #read(description: unknown, path: string, times: number, depth: number): Space {
    if (!isObject(description)) throw fail('schema_violation', 'the description of a space is an object with "type"');
    if (depth > MAX_DEPTH) throw fail('schema_violation', `spaces are nested deeper than ${MAX_DEPTH}`);
    const inner = (part: unknown, at: string, factor = 1): Space => this.read(part, at, times * factor, depth + 1);
    const listed = (): Space[] => list(description.spaces).map((part, at) => inner(part, `${path}/spaces/${at}`));
    const count = (elements: number): void => {
      this.#elements += elements * times;
      if (!(this.#elements <= MAX_SPACE_ELEMENTS))
        throw fail('schema_violation', `a value of the space has more than ${MAX_SPACE_ELEMENTS} elements`);
    };
    const { type } = description;
    count(1);
    switch (type) {
      case 'Discrete':
        return new Discrete(description.n as number, optional(description, 'start', 'dtype'));
      case 'Box': {
        const shape = shapeFrom(description);
        if (shape !== undefined) count(sizeOf(shape));
        const { low, high } = description;
        return new Box(bound(low, shape), bound(high, shape), { shape, ...optional(description, 'dtype') });
      }
      case 'MultiDiscrete':
        return new MultiDiscrete(nested(description.nvec), optional(description, 'start', 'dtype'));
      case 'MultiBinary': {
        const n = typeof description.n === 'number' ? description.n : lengths(description.n);
        count(typeof n === 'number' ? n : sizeOf(n));
        return new MultiBinary(n);
      }
      case 'Tuple':
        return new Tuple(listed());
      case 'OneOf':
        return new OneOf(listed());
      case 'Dict': {
        if (!isObject(description.spaces)) throw fail('schema_violation', 'a Dict space has an object "spaces"');
        return new Dict(
          Object.fromEntries(
            Object.entries(description.spaces).map(([name, part]) => [
              name,
              inner(part, pointer(`${path}/spaces`, name)),
            ]),
          ),
        );
      }
      case 'Text': {
        const { min_length: minLength, charset, max_length: maxLength } = description;
        count(Number(maxLength));
        return new Text(maxLength as number, {
          ...(minLength !== undefined && { minLength: minLength as number }),
          ...((typeof charset === 'string' || charset === null) && { charset }),
        });
      }
      case 'Sequence':
        return new Sequence(inner(description.space, `${path}/space`, COUNTED_SEQUENCE), {
          stack: description.stack === true,
        });
      case 'Graph': {
        const { node_space: nodes, edge_space: edges = null } = description;
        return new Graph(
          inner(nodes, `${path}/node_space`, COUNTED_GRAPH),
          edges === null ? null : inner(edges, `${path}/edge_space`, COUNTED_GRAPH),
        );
      }
      default:
        throw fail('schema_violation', `unknown kind of space; "type" is one of ${spaceKinds.join(', ')}`);
    }
  }
}

/** Returns these members of a description, as far as they are present. */
const optional = (description: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(names.flatMap((name) => (description[name] === undefined ? [] : [[name, description[name]]])));

function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw fail('schema_violation', '"spaces" is an array of spaces');
  return value;
}

function lengths(value: unknown): number[] {
  if (!Array.isArray(value) || !value.every((length) => Number.isSafeInteger(length) && length >= 0))
    throw fail('schema_violation', 'the shape of a space is an array of lengths');
  return value;
}

const shapeFrom = ({ shape, low, high }: JsonObject): number[] | undefined => {
  if (shape !== undefined) return lengths(shape);
  const given = Array.isArray(low) ? low : high;
  return Array.isArray(given) ? shapeOf(given) : undefined;
};

function nested(value: unknown): Nested {
  return bound(value, shapeOf(value));
}

function bound(value: unknown, shape: readonly number[] | undefined): Nested {
  const number = numberFromWire(value);
  if (number !== undefined) return number;
  if (shape === undefined || flatten(value, shape, numberFromWire) === undefined)
    throw fail('schema_violation', 'the bounds of a space are numbers, or arrays of its shape');
  const decode = (part: unknown): Nested => (Array.isArray(part) ? part.map(decode) : numberFromWire(part)!);
  return decode(value);
}

/**
 * Finds the wrong part of a value: the detail of a refused action beyond "no element". Computed only for a refused value, so
 * that accepted ones cost nothing.
 */
import { pointer } from '../../../wire/findings.ts';
import { isObject } from '../../../wire/json.ts';
import { Box } from './box.ts';
import { Dict, OneOf, Sequence, Tuple } from './composite.ts';
import { Discrete } from './discrete.ts';
import { Graph } from './graph.ts';
import { MultiBinary } from './multi-binary.ts';
import { MultiDiscrete } from './multi-discrete.ts';
import { nest, sizeOf } from './numbers.ts';
import type { Space } from './space.ts';

/** The innermost part that is wrong. */
export interface Mismatch {
  /** JSON Pointer within the value; empty: the value itself. */
  readonly path: string;
  /** The space that the part should be in; undefined: the part should be absent. */
  readonly space: Space | undefined;
}

/** A part of a value, by its name. */
type Part = readonly [name: string | number, space: Space | undefined, value: unknown];

/** Returns the part of `value`, in JSON form, that keeps it out of `space`; undefined for an element. */
export function mismatch(space: Space, value: unknown, path = ''): Mismatch | undefined {
  if (space.fromWire(value) !== undefined) return undefined;
  for (const [name, part, inner] of partsOf(space, value)) {
    const at = pointer(path, name);
    const found = part === undefined ? { path: at, space: undefined } : mismatch(part, inner, at);
    if (found !== undefined) return found;
  }
  return { path, space };
}

/** Yields the parts of a value of a space; none if the value has another form. */
function* partsOf(space: Space, value: unknown): Generator<Part, void> {
  if (space instanceof Dict && isObject(value)) {
    for (const [name, part] of Object.entries(space.spaces)) yield [name, part, value[name]];
    for (const name of Object.keys(value)) if (!Object.hasOwn(space.spaces, name)) yield [name, undefined, value[name]];
  } else if (space instanceof Graph && isObject(value)) {
    const { nodeSpace, edgeSpace } = space;
    if (Array.isArray(value.nodes)) yield ['nodes', new Sequence(nodeSpace), value.nodes];
    if (edgeSpace !== null && Array.isArray(value.edges)) yield ['edges', new Sequence(edgeSpace), value.edges];
  } else if (!Array.isArray(value)) return;
  else if (space instanceof Tuple && value.length === space.spaces.length) {
    for (const [at, part] of space.spaces.entries()) yield [at, part, value[at]];
  } else if (space instanceof OneOf && value.length === 2) {
    const [index, inner] = value as unknown[];
    yield [0, new Discrete(space.spaces.length), index];
    yield [1, space.spaces[index as number], inner];
  } else if (space instanceof Sequence) {
    for (const [at, item] of value.entries()) yield [at, space.space, item];
  } else if (space instanceof Box || space instanceof MultiBinary || space instanceof MultiDiscrete) {
    const { low, high, dtype } = space instanceof Box ? space : space.batched(1);
    const [length, ...shape] = space.shape;
    if (value.length !== length) return;
    const size = sizeOf(shape);
    for (const [at, item] of value.entries()) {
      const [from, to] = [at * size, (at + 1) * size];
      yield [at, boxOf(low.slice(from, to), high.slice(from, to), shape, dtype), item];
    }
  }
}

/** Returns a Box of bounds in order. Those of an integer dtype are finite here, so that a message shows them unchanged. */
function boxOf(low: readonly number[], high: readonly number[], shape: readonly number[], dtype: string): Box {
  return new Box(nest(low, shape), nest(high, shape), { shape, dtype });
}

/**
 * The contract of a space: the set of values that an environment's actions and observations come from. Environments declare
 * spaces, the plugin describes them on the wire and checks actions by them.
 *
 * A space is immutable. Gymnasium's spaces each own a generator; here `sampler` makes one, seeded as theirs.
 *
 * In memory a value is what its JSON is, except that numbers may be infinite or NaN:
 *
 * | space | value |
 * | --- | --- |
 * | Discrete | integer |
 * | Box, MultiDiscrete, MultiBinary | nested arrays of the shape; a number where the shape is `[]` |
 * | Tuple, Sequence | array |
 * | Dict | object |
 * | Text | string |
 * | OneOf | `[index, value]` |
 * | Graph | `{ nodes, edges, edge_links }`, the last two null without edges |
 */
import type { JsonSchema } from '../../../base/json-schema.ts';
import type { JsonObject } from '../../../wire/json.ts';

/** The kinds of spaces, as `type` on the wire. */
export const spaceKinds = [
  'Discrete',
  'Box',
  'MultiDiscrete',
  'MultiBinary',
  'Tuple',
  'Dict',
  'Text',
  'Sequence',
  'Graph',
  'OneOf',
] as const;

export type SpaceKind = (typeof spaceKinds)[number];

/** Draws one value after the other. `mask` is Gymnasium's: the values that a sample may have. */
export type Sampler<Value> = (mask?: unknown) => Value;

export interface Space<Value = unknown> {
  readonly kind: SpaceKind;
  /** Returns the description on the wire: `{"type": "Discrete", "n": 2, "start": 0}`. `spaceOf` reads it. */
  describe(): JsonObject;
  /** Returns the JSON Schema of the values on the wire. It may accept more than `contains`. */
  jsonSchema(): JsonSchema;
  contains(value: unknown): value is Value;
  /** Returns a generator of samples; equal seeds (0 to 2^53 - 1) give equal samples. Absent or null: a random seed. */
  sampler(seed?: number | null): Sampler<Value>;
  /** Converts a value to JSON: infinities and NaN become the strings `"Infinity"`, `"-Infinity"`, `"NaN"`. */
  toWire(value: Value): unknown;
  /** Returns the value of a JSON value, float32 rounded to float32; undefined when it is no element of this space. */
  fromWire(value: unknown): Value | undefined;
}

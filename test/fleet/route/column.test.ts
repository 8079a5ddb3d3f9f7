/** A limit takes out exactly the workers beyond it, at both ends, after any changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bitsFor, eachBit } from '../../../src/fleet/route/bits.ts';
import { Column } from '../../../src/fleet/route/column.ts';
import fc from '../../support/properties.ts';

const SLOTS = 1100;

function left(clear: (bits: Int32Array) => void): number[] {
  const bits = bitsFor(SLOTS).fill(-1);
  clear(bits);
  const found: number[] = [];
  eachBit(bits, (slot) => found.push(slot) > 0);
  return found.filter((slot) => slot < SLOTS);
}

test('workers beyond a limit are left out, and workers without a value stay', () => {
  const anyValue = fc.option(fc.integer({ min: 0, max: 40 }), { nil: null });
  fc.assert(
    fc.property(
      fc.array(anyValue, { minLength: SLOTS, maxLength: SLOTS, size: 'max' }),
      fc.array(fc.tuple(fc.nat(SLOTS - 1), anyValue, fc.integer({ min: -1, max: 41 })), { maxLength: 6 }),
      (values, changes) => {
        const column = new Column();
        for (const [slot, value] of values.entries()) column.set(slot, value);
        for (const [slot, value, limit] of changes) {
          values[slot] = value;
          column.set(slot, value);
          const kept = (passes: (value: number) => boolean): number[] =>
            values.flatMap((one, at) => (one === null || passes(one) ? [at] : []));
          for (let round = 0; round < 2; round += 1) {
            assert.deepEqual(
              left((bits) => column.clearAbove(bits, limit)),
              kept((one) => one <= limit),
            );
            assert.deepEqual(
              left((bits) => column.clearBelow(bits, limit)),
              kept((one) => one >= limit),
            );
          }
        }
      },
    ),
    { numRuns: 30 },
  );
});

/**
 * The vectors of kind `negotiate`: mode and version for the known facts about a peer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { negotiate } from '../../src/fleet/phases/negotiate.ts';
import { vectorsOf } from './vectors.ts';

interface NegotiateVector {
  readonly rows: readonly {
    readonly input: {
      readonly announced: readonly string[] | null;
      readonly card_extension?: boolean;
      readonly inline_hints?: boolean;
    };
    readonly expect: Readonly<Record<string, unknown>>;
  }[];
}

test('every row of the negotiate vector is answered as it says', () => {
  const rows = vectorsOf<NegotiateVector>('negotiate').flatMap(({ vector }) => vector.rows);
  assert.equal(rows.length, 9);
  for (const { input, expect } of rows) {
    const { announced, card_extension: cardExtension, inline_hints: inlineHints } = input;
    assert.deepEqual(negotiate({ announced, cardExtension, inlineHints }), expect, JSON.stringify(input));
  }
});

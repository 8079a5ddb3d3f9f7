/** Runs the published vectors of inline hints, both ways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Inline, parseInline } from '../../src/fleet/phases/inline.ts';
import { emitInline, type GivenHints } from '../../src/fleet/phases/inline-emit.ts';
import { vectorsOf } from './support/vectors.ts';

/** Returns the shape that vectors compare. */
const plain = ({ hints, unknown, diagnostics, ...rest }: Inline): unknown => ({
  ...rest,
  hints: { ...hints },
  unknown: Object.fromEntries(unknown),
  diagnostics: [...diagnostics].sort(),
});

for (const { file, input, expect } of vectorsOf<{ text: string }, { diagnostics: string[] }>('inline')) {
  test(`${file} is read as it says`, () => {
    assert.deepEqual(plain(parseInline(input.text)), { ...expect, diagnostics: [...expect.diagnostics].sort() });
  });
}

type Emit = { text: string; roundtrip: { diagnostics: string[] } };
for (const { file, input, expect } of vectorsOf<{ hints: GivenHints; brief: string }, Emit>('inline_emit')) {
  test(`${file} is written byte for byte and read back`, () => {
    const text = emitInline(input.hints, input.brief);
    assert.equal(text, expect.text);
    assert.deepEqual(plain(parseInline(text)), expect.roundtrip);
  });
}

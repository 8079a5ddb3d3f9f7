/** The nesting check agrees with counting by parsing, for any JSON, and is not fooled by strings. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MAX_DEPTH, parseNested, tooDeep } from '../../src/wire/depth.ts';
import fc from '../support/properties.ts';

/** Returns the deepest nesting of objects and arrays. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** Returns the result of parsing a text with a bound: its value, or the code of its refusal. */
function parsed(json: string, bound: number): unknown {
  try {
    return parseNested(json, bound);
  } catch (error) {
    return error instanceof SyntaxError ? 'SyntaxError' : (error as { code: string }).code;
  }
}

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

/** Strings full of characters that could be mistaken for structure. */
const nasty = fc.array(fc.constantFrom('{', '}', '[', ']', '"', '\\', '\\"', 'x', '\n', '漢', '🙂'), { maxLength: 30 });
const text = nasty.map((pieces) => pieces.join(''));

describe('the nesting check', () => {
  test('agrees with parsing and counting, for any JSON and any bound', () => {
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'large', withCrossShrink: true },
        fc.oneof(text, fc.double(), fc.boolean(), fc.constant(null)),
        fc.array(tie('value'), { maxLength: 6 }),
        fc.dictionary(text, tie('value'), { maxKeys: 6 }),
      ),
    }));
    fc.assert(
      fc.property(value, fc.nat(12), fc.constantFrom(undefined, 1), (any, bound, indent) => {
        const json = JSON.stringify(any, null, indent);
        const deep = depthOf(JSON.parse(json)) > bound;
        assert.equal(tooDeep(json, bound), deep, json);
        assert.deepEqual(parsed(json, bound), deep ? 'too_large' : JSON.parse(json));
      }),
      { numRuns: 800 },
    );
  });

  test('64 levels pass and 65 do not', () => {
    assert.equal(MAX_DEPTH, 64);
    assert.equal(tooDeep(nested(64)), false);
    assert.equal(tooDeep(nested(65)), true);
    assert.equal(tooDeep(`{"a":${'{"a":'.repeat(63)}1${'}'.repeat(64)}`), false);
    assert.equal(tooDeep(`{"a":${'{"a":'.repeat(64)}1${'}'.repeat(65)}`), true);
    assert.equal(tooDeep(`${nested(60)},${nested(64)},[${nested(64)}]`), true);
  });

  test('brackets side by side, or inside strings, are not nesting', () => {
    assert.equal(tooDeep(JSON.stringify(Array.from({ length: 500 }, () => ({ a: [{}] })))), false);
    assert.equal(tooDeep(JSON.stringify({ code: '{[('.repeat(1000) })), false);
    assert.equal(tooDeep(JSON.stringify({ code: `${'\\'.repeat(7)}"${'['.repeat(100)}` })), false);
    assert.equal(tooDeep(`["\\\\",${nested(64)}]`), true);
    assert.equal(tooDeep(`["\\"",${nested(63)},"\\"${'['.repeat(100)}"]`), false);
  });

  test('text that is no JSON is answered somehow, and quickly', () => {
    assert.equal(tooDeep('['.repeat(1_000_000)), true);
    assert.equal(tooDeep(`${'[]'.repeat(100)}"${'['.repeat(1000)}`), false);
    assert.equal(typeof tooDeep(`${']'.repeat(1000)}${'{'.repeat(1000)}`), 'boolean');
    assert.equal(tooDeep(''), false);
    assert.equal(parsed('['.repeat(1_000_000), 64), 'too_large');
    assert.equal(parsed(`${nested(64)}]`, 64), 'SyntaxError');
    assert.equal(parsed(`${'[],'.repeat(100)}`, 64), 'SyntaxError');
    assert.equal(parsed('', 64), 'SyntaxError');
  });
});

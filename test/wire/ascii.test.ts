/**
 * ASCII JSON: the same value, and no character above U+007F on the wire.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { asciiLength, toAscii } from '../../src/wire/ascii.ts';
import fc from '../support/properties.ts';

describe('ASCII JSON', () => {
  test('is the same value for any JSON, in ASCII', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        const json = JSON.stringify(value);
        const ascii = toAscii(json);
        assert.match(ascii, /^[\0-\x7f]*$/);
        assert.equal(JSON.stringify(JSON.parse(ascii)), JSON.stringify(JSON.parse(json)));
      }),
      { numRuns: 500 },
    );
  });

  test('is the same string when there was nothing to escape', () => {
    const json = '{"a":"\\u00e9 plain \\n"}';
    assert.equal(toAscii(json), json);
  });

  test('writes four lower-case hex digits, and two escapes outside the basic plane', () => {
    assert.equal(toAscii('"é\u2028🙂"'), '"\\u00e9\\u2028\\ud83d\\ude42"');
  });

  test('is right at the seams of a long text', () => {
    const json = JSON.stringify({ text: `${'a'.repeat(8180)}🙂é`.repeat(20), plain: 'b'.repeat(30_000) });
    assert.deepEqual(JSON.parse(toAscii(json)), JSON.parse(json));
    assert.equal(asciiLength(json), toAscii(json).length);
  });
});

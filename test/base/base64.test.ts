import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base64Bytes, plainBase64, withoutSpace } from '../../src/base/base64.ts';
import fc from '../support/properties.ts';

test('a text without white space is one that can be decoded', () => {
  const parts = fc.constantFrom('A', 'AB', 'AAAA', '/+9', '=', '==', ' ', '\r\n', '!', 'é');
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 12 }), (all) => {
      const text = all.join('');
      const bare = text.replaceAll(/[ \r\n]/g, '');
      assert.equal(withoutSpace(text), base64Bytes(bare) === undefined ? undefined : bare, JSON.stringify(text));
    }),
  );
});

test('every spelling has one plain form', () => {
  const spellings = [
    '-_-_AA==',
    '+/+/AA',
    'data:image/png;base64,+/+/AA==',
    '+/+/\r\nAA==\n',
    '-_\n-_AA',
    '+/+/AA====',
  ];
  for (const spelling of spellings) assert.equal(plainBase64(spelling), '+/+/AA==', spelling);
  for (const other of ['A', 'AA=AA', 'AAAA!', 'A\nAAAA']) assert.equal(plainBase64(other), undefined, other);
});

test('a long text is decoded once', (t) => {
  const decoded = t.mock.method(Buffer, 'from');
  for (const lines of [false, true]) {
    const text = 'AAAA'.repeat(5_000);
    decoded.mock.resetCalls();
    assert.equal(plainBase64(lines ? `${text}\r\n${text}` : text), lines ? text + text : text);
    const calls = decoded.mock.calls.filter((one) => (one.arguments as readonly unknown[])[1] === 'base64');
    assert.equal(calls.length, 1);
  }
});

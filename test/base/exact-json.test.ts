/** JSON that a person wrote keeps its digits and its keys, or is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactJson, keepsDigits, parseExactJson } from '../../src/base/exact-json.ts';
import { jsonOrText, typedObject } from '../../src/packages/command-values.ts';

test('numbers keep their digits', () => {
  for (const text of [
    '0',
    '-0',
    '1.10',
    '0.1',
    '1e3',
    '1E+300',
    '9007199254740991',
    '9007199254740992',
    '100000000000000000000',
    '1e-300',
    '0.30000000000000004',
    '-1.5e-7',
    '0e999',
  ]) {
    assert.ok(keepsDigits(text, Number(text)), text);
    assert.equal(parseExactJson(text), JSON.parse(text));
  }
  for (const text of [
    '9007199254740993',
    '12345678901234567890',
    '1e400',
    '1e-400',
    '0.1234567890123456789',
    '-9007199254740993',
    '1.0000000000000000001',
  ]) {
    assert.equal(keepsDigits(text, Number(text)), false, text);
    assert.throws(() => parseExactJson(`{"a": [${text}]}`), /has more digits than a number of JSON keeps/, text);
  }
});

test('keys occur once, and texts that look like numbers are texts', () => {
  assert.deepEqual(parseExactJson('{"a": "12345678901234567890", "b": {"a": 1}}'), {
    a: '12345678901234567890',
    b: { a: 1 },
  });
  for (const text of ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "\\u0061": 2}}]'])
    assert.match(exactJson(text).lost ?? '', /occurs twice/);
  assert.match(exactJson('{"__proto__": 1}').lost ?? '', /not allowed/);
  assert.match(exactJson(`${'['.repeat(65)}${']'.repeat(65)}`).lost ?? '', /nested/);
  assert.deepEqual(
    parseExactJson(`${'['.repeat(50)}${']'.repeat(50)}`),
    JSON.parse(`${'['.repeat(50)}${']'.repeat(50)}`),
  );
  for (const text of ['', '{', "{'a': 1}", '{"a": 1 /* x */}', 'NaN']) {
    const read = exactJson(text);
    assert.ok(!('value' in read) && read.lost === undefined, text);
  }
});

test('words of the command line are JSON, or a text where any value may stand; a loss is refused with the word that has it', () => {
  for (const [word, value] of [
    ['7', 7],
    ['{"a": [1]}', { a: [1] }],
    ['left', 'left'],
    ['"7"', '7'],
  ] as const)
    assert.deepEqual(jsonOrText(word, 'DATA'), value);
  assert.throws(() => jsonOrText('9007199254740993', 'DATA'), { code: 'usage', message: /^DATA: the number 9007/ });
  assert.throws(() => jsonOrText('{"a": 1, "a": 2}', 'DATA'), { code: 'usage', message: /^DATA: the key .* twice/ });
  assert.deepEqual(typedObject('{"a": 1}', 'an object'), { a: 1 });
  for (const [word, message] of [
    ['[1]', /^an object$/],
    ['{a: 1}', /^an object: .*JSON/],
    ['{"a": 9007199254740993}', /^an object: the number 9007/],
  ] as const)
    assert.throws(() => typedObject(word, 'an object'), { code: 'usage', message });
});

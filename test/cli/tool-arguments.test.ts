/**
 * Arguments as they are typed: how words become values by a schema, and the reports when they cannot.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { schemaTypes } from '../../src/cli/schema-types.ts';
import { needsSchema, toolArguments } from '../../src/cli/tool-arguments.ts';
import type { HandfastError } from '../../src/wire/errors.ts';

const nothing = () => Promise.reject(new Error('nothing may be read'));
const property = (schema: object) => ({ properties: { v: schema } });
const valueFrom = async (words: string[], schema: object): Promise<unknown> =>
  (await toolArguments(words, property(schema), nothing)).v;

async function refused(words: string[], schema: object): Promise<string> {
  const error = await valueFrom(words, schema).then(
    (value) => assert.fail(`became ${JSON.stringify(value)}`),
    (thrown: HandfastError) => thrown,
  );
  assert.equal(error.code, 'usage');
  return error.message;
}

test('a word becomes the strictest type its schema allows', async () => {
  const cases: [string, object, unknown][] = [
    ['007', { type: 'string' }, '007'],
    ['', { type: 'string' }, ''],
    ['-1.5e3', { type: 'number' }, -1500],
    ['12', { type: ['string', 'integer'] }, 12],
    ['twelve', { type: ['string', 'integer'] }, 'twelve'],
    ['true', { type: 'boolean' }, true],
    ['true', { type: 'string' }, 'true'],
    ['null', { type: ['string', 'null'] }, null],
    ['{"a":1}', { type: 'object' }, { a: 1 }],
    ['[1,2]', { type: 'array', items: { type: 'integer' } }, [1, 2]],
    ['1', { type: 'array', items: { type: 'integer' } }, [1]],
    ['b', { enum: ['a', 'b'] }, 'b'],
    ['2', { enum: [1, 2] }, 2],
    ['3', { anyOf: [{ type: 'integer' }, { type: 'null' }] }, 3],
    ['4', {}, 4],
    ['four', {}, 'four'],
  ];
  for (const [word, schema, expected] of cases) {
    assert.deepEqual(await valueFrom([`v=${word}`], schema), expected, `${word} as ${JSON.stringify(schema)}`);
  }
});

test('a key may be repeated for a list, and only for a list', async () => {
  assert.deepEqual(await valueFrom(['v=a', 'v=b'], { type: 'array', items: { type: 'string' } }), ['a', 'b']);
  assert.match(await refused(['v=a', 'v=b'], { type: 'string' }), /v was given 2 times/);
});

test('a word that fits no allowed type is refused with what was expected', async () => {
  assert.equal(await refused(['v=yes'], { type: 'boolean' }), 'v: expected boolean, got "yes"');
  assert.equal(await refused(['v='], { type: 'number' }), 'v: expected number, got ""');
  assert.match(await refused(['v={'], { type: 'object' }), /^v: expected a JSON object: /);
  assert.match(await refused(['=x'], {}), /expected key=value/);
});

test('keys that objects have by birth are keys like any other', async () => {
  const args = await toolArguments(['__proto__=1', 'constructor=x'], { properties: {} }, nothing);
  assert.deepEqual(Object.keys(args), ['__proto__', 'constructor']);
  assert.equal(Object.getPrototypeOf(args), Object.prototype);
});

test('one JSON object needs no schema, words do', () => {
  assert.deepEqual([['{}'], ['@file'], ['-'], []].map(needsSchema), [false, false, false, false]);
  assert.equal(needsSchema(['a=1']), true);
});

test('the types of a schema are found where it has them', () => {
  assert.deepEqual(schemaTypes({ type: 'string' }), ['string']);
  assert.deepEqual(schemaTypes({ oneOf: [{ type: 'string' }, { const: null }] }), ['string', 'null']);
  assert.deepEqual(schemaTypes({ enum: [true, 'auto'] }), ['boolean', 'string']);
  assert.deepEqual(schemaTypes({ description: 'anything' }), []);
});

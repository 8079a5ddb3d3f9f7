/**
 * Schemas of strangers: their checks end within a time, in threads; the event loop of the host runs meanwhile.
 */
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, test } from 'node:test';
import { foreignSchemas } from '../../src/base/foreign-schemas.ts';
import type { JsonSchema } from '../../src/base/json-schema.ts';
import { asError, type HandfastError } from '../../src/wire/errors.ts';

const errorOf = async (work: Promise<unknown>): Promise<HandfastError> => {
  try {
    await work;
  } catch (thrown) {
    return asError(thrown);
  }
  throw new Error('it did not fail');
};

/** Returns `$defs` of which each names the next one twice. */
const doubled = (keyword: string, levels = 40): JsonSchema => ({
  $defs: Object.fromEntries(
    Array.from({ length: levels + 1 }, (_, at) => {
      const next = { $ref: `#/$defs/d${at + 1}` };
      return [`d${at}`, at === levels ? { type: 'string' } : { [keyword]: [next, next] }];
    }),
  ),
  $ref: '#/$defs/d0',
});

/** Values that take for ever to check. */
const slow: Readonly<Record<string, readonly [JsonSchema, unknown]>> = {
  'a pattern that backtracks': [{ pattern: '^(a+)+$' }, `${'a'.repeat(40)}!`],
  'a pattern of names': [{ patternProperties: { '^(a|a)+$': {} } }, { [`${'a'.repeat(40)}!`]: 1 }],
  'a pattern of any name': [{ propertyNames: { pattern: '^(a|aa)+$' } }, { [`${'a'.repeat(60)}!`]: 1 }],
  'references that double in allOf': [doubled('allOf'), 'a'],
  'references that double in anyOf': [doubled('anyOf'), 1],
  'references that double in oneOf': [doubled('oneOf'), 'a'],
  'members that must differ': [{ uniqueItems: true }, Array.from({ length: 60_000 }, (_, i) => ({ a: i }))],
  'a large enum for each of many': [
    { items: { enum: Array.from({ length: 20_000 }, (_, i) => ({ a: { b: [i] } })) } },
    Array.from({ length: 20_000 }, () => ({ a: { b: [19_999] } })),
  ],
  'a search in each of many': [
    { items: { contains: { pattern: '^(b+)+$' } } },
    Array.from({ length: 100 }, () => [`${'b'.repeat(40)}!`]),
  ],
};

/**
 * Runs `work`, and fails if the event loop of this process stood still for seconds: a check on it would block it for
 * minutes.
 */
async function withoutStall<T>(work: () => Promise<T>): Promise<T> {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  try {
    return await work();
  } finally {
    delay.disable();
    assert.ok(delay.max / 1e6 < 2_000, `the loop stood still for ${delay.max / 1e6} ms`);
  }
}

describe('a check that takes too long fails', () => {
  for (const [name, [schema, value]] of Object.entries(slow)) {
    test(name, { timeout: 120_000 }, async () => {
      const { code, message, detail } = await withoutStall(() =>
        errorOf(foreignSchemas.check(schema, value, { what: 'value', limitMs: 50 })),
      );
      assert.equal(code, 'schema_violation', message);
      assert.equal(detail.reason, 'time', message);
      assert.match(message, /^value could not be checked within 50 ms$/);
    });
  }
});

test('schemas that take long to compile are refused or compiled, and the loop turns meanwhile', {
  timeout: 120_000,
}, async () => {
  const properties = Object.fromEntries(
    Array.from({ length: 4_000 }, (_, i) => [`p${i}`, { type: 'object', properties: { a: { type: 'string' } } }]),
  );
  await withoutStall(async () => {
    const problem = await foreignSchemas.problem({ properties }, { what: 'value' });
    assert.ok(problem === null || /could not be checked within/.test(problem), `${problem}`);
    const many = Array.from({ length: 200 }, (_, i) => ({ properties: { [`p${i}`]: { type: 'string' } } }));
    assert.deepEqual(
      [...new Set(await Promise.all(many.map((each) => foreignSchemas.problem(each, { what: 'value' }))))],
      [null],
    );
  });
});

test('other schemas are checked while a slow one is', { timeout: 120_000 }, async () => {
  const [schema, value] = slow['a pattern that backtracks'] as readonly [JsonSchema, unknown];
  const late: string[] = [];
  const slowly = Array.from({ length: 6 }, () =>
    errorOf(foreignSchemas.check(schema, value, { what: 'slow', limitMs: 100 })).then(() => late.push('slow')),
  );
  await foreignSchemas.check({ type: 'string' }, 'a', { what: 'quick' }).then(() => late.push('quick'));
  await Promise.all(slowly);
  assert.ok(late.indexOf('quick') < 2, late.join());
});

test('values that fit are returned, with the defaults of the schema where they are asked for', async () => {
  const schema = { type: 'object', properties: { a: { default: 1 } }, required: ['a'] };
  const given = {};
  assert.deepEqual(await foreignSchemas.check(schema, given, { what: 'value' }), { a: 1 });
  assert.deepEqual(given, {});
  assert.equal(
    (await errorOf(foreignSchemas.check(schema, given, { what: 'value', fills: false }))).code,
    'schema_violation',
  );
  const fitting = { a: 2, b: [] };
  assert.equal(await foreignSchemas.check(schema, fitting, { what: 'value', fills: false }), fitting);
});

test('values that do not fit fail with the place and the reason', async () => {
  const { code, message, detail } = await errorOf(
    foreignSchemas.check({ properties: { a: { type: 'string' } } }, { a: 1 }, { what: 'value' }),
  );
  assert.deepEqual([code, message, detail.path], ['schema_violation', 'value: /a must be string', '/a']);
});

test('broken schemas have a problem; those of an older draft are read by it', async () => {
  assert.match(
    (await foreignSchemas.problem({ type: 'strin' }, { what: 'value' })) ?? '',
    /^the schema of the value is invalid/,
  );
  assert.match((await foreignSchemas.problem({ $ref: '#/$defs/none' }, { what: 'value' })) ?? '', /invalid/);
  assert.match((await foreignSchemas.problem({ pattern: '(' }, { what: 'value' })) ?? '', /invalid/);
  const tuple = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }, { type: 'number' }] };
  assert.equal(await foreignSchemas.problem(tuple, { what: 'value' }), null);
  assert.equal((await errorOf(foreignSchemas.check(tuple, ['a', 'b'], { what: 'value' }))).detail.path, '/1');
});

test('a check ends with its signal', async () => {
  const stop = new AbortController();
  const [schema, value] = slow['a pattern that backtracks'] as readonly [JsonSchema, unknown];
  const checking = foreignSchemas.check(schema, value, { what: 'value', limitMs: 200, signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(checking, /enough/);
  assert.equal(await foreignSchemas.check({}, 1, { what: 'value' }), 1);
});

test('two schemas with one id do not meet, and a reference by the id of its own schema is found', async () => {
  const id = 'https://example.com/result';
  const own = (type: string) => ({
    $id: id,
    type: 'object',
    properties: { a: { $ref: '#/$defs/T' }, b: { $ref: `${id}#/$defs/T` }, c: { $ref: 'urn:c' } },
    $defs: { T: { type }, C: { $id: 'urn:c', type } },
  });
  const what = 'result of one';
  for (const [type, value] of [
    ['string', 'x'],
    ['number', 1],
    ['string', 'x'],
  ] as const) {
    const all = { a: value, b: value, c: value };
    assert.deepEqual(await foreignSchemas.check(own(type), all, { what, fills: false }), all);
    for (const member of ['a', 'b', 'c']) {
      const wrong = foreignSchemas.check(own(type), { ...all, [member]: true }, { what, fills: false });
      await assert.rejects(wrong, new RegExp(`/${member} must be ${type}`));
    }
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerSchemaProblem } from '../../../src/base/value-check.ts';
import { checkAnswer } from '../../../src/fleet/phases/answer-schema.ts';

const schema = {
  type: 'object',
  required: ['count'],
  properties: { count: { type: 'integer' }, unit: { type: 'string', default: 'files' } },
};
const check = (answer: unknown, against: Record<string, unknown> = schema): ReturnType<typeof checkAnswer> =>
  checkAnswer(against, { status: 'done', answer }, { timeoutMs: 20_000 });

test('an answer that fits comes back with the defaults of its schema, and is not changed itself', async () => {
  const answer = { count: 3 };
  assert.deepEqual(await check(answer), { ok: true, answer: { count: 3, unit: 'files' } });
  assert.deepEqual(answer, { count: 3 });
});

test('an answer that does not fit is reported in words an executor can use', async () => {
  assert.deepEqual(await check({ count: '3' }), {
    ok: false,
    problems: ['answer/count must be integer'],
    hopeless: false,
  });
  assert.deepEqual(await check(undefined), { ok: false, problems: ['answer is missing'], hopeless: false });
  assert.equal((await check(null)).ok, false);
});

test('a task that is not done owes no answer', async () => {
  for (const status of ['partial', 'blocked', 'error'] as const)
    assert.deepEqual(await checkAnswer(schema, { status, answer: undefined }), {
      ok: true,
      answer: undefined,
    });
});

test('a schema that cannot be used is reported before work and is no reason to ask again', async () => {
  for (const broken of [{ type: 'nonsense' }, { $ref: 'https://example.org/else.json' }, { pattern: '(' }]) {
    assert.match((await answerSchemaProblem(broken)) ?? '', /schema of the answer is invalid/);
    const checked = await check('x', broken);
    assert.equal(!checked.ok && checked.hopeless, true);
  }
  assert.match((await answerSchemaProblem({ description: 'x'.repeat(70_000) })) ?? '', /exceeds 65536/);
  assert.equal(await answerSchemaProblem(schema), null);
});

test('a schema cannot make every answer pass, run for ever or exhaust the stack', async () => {
  assert.equal((await check(5, { $async: true, type: 'string' })).ok, false);
  const endless = await checkAnswer(
    { type: 'string', pattern: '^(a+)+$' },
    { status: 'done', answer: `${'a'.repeat(40)}!` },
    { timeoutMs: 10 },
  );
  assert.deepEqual(endless, { ok: false, problems: ['answer could not be checked within 10 ms'], hopeless: true });
  assert.equal((await check({}, { $ref: '#' })).ok, false);
});

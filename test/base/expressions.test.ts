import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conditionCompiler } from '../../src/base/expressions.ts';

const compile = conditionCompiler({ risks: 'list<string>', tool: { name: 'string', input: 'map<string, dyn>' } });
const values = { risks: ['exec'], tool: { name: 'shell', input: { depth: 3 } } };

test('a condition is true, false, or undefined where it cannot be evaluated', () => {
  assert.equal(compile('"exec" in risks', 'rule').test(values), true);
  assert.equal(compile('tool.input.depth > 5', 'rule').test(values), false);
  assert.equal(compile('tool.input.absent > 5', 'rule').test(values), undefined);
  assert.equal(compile('tool.input.depth', 'rule').test(values), undefined);
});

test('what is wrong with a condition is reported with its name, its column and the detail of the caller', () => {
  for (const [when, column] of [
    ['tool.name ==', 13],
    ['tool.nonsense == "a"', 1],
    ['1 + 2', 1],
    [' '.repeat(5000), 1],
  ] as const) {
    assert.throws(
      () => compile(when, 'rule 7', { rule: 6 }),
      ({ code, message, detail }: { code: string; message: string; detail: Record<string, unknown> }) =>
        code === 'config_invalid' &&
        message.startsWith('rule 7, column ') &&
        detail.rule === 6 &&
        column <= Number(detail.column),
    );
  }
});

test('what may take long at any size is known before it runs', () => {
  assert.equal(compile('tool.name == "a" && "b" in risks', 'rule').slow, false);
  assert.equal(compile('risks.exists(x, x == "a")', 'rule').slow, false);
  assert.equal(compile('risks.all(x, risks.exists(y, x == y))', 'rule').slow, true);
  assert.equal(compile('tool.name.matches ("^a")', 'rule').slow, true);
});

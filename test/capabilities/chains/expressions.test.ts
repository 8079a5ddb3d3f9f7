/** Inputs and conditions of nodes: the forms of A2E 1.0 as the Python SDK evaluates them, and CEL. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Context } from '../../../src/capabilities/chains/definition/context.ts';
import {
  ConditionCompiler,
  compileExpression,
  evaluate,
  expressionValue,
  test as holds,
  type InputMap,
  itemsOf,
} from '../../../src/capabilities/chains/definition/expressions.ts';

const context = new Context({
  input: { files: ['a', 'b'], limit: 2, 'odd-name': 1, deep: { x: { y: null } } },
  outputs: new Map<string, unknown>([
    ['read', { ok: true, text: ' hi ', count: 3, zero: 0, list: [1], none: null }],
    ['odd-id', { n: 1 }],
    ['failed', null],
  ]),
});

const compiled = (value: unknown) => {
  const expression = compileExpression(value);
  if (typeof expression === 'string') assert.fail(expression);
  return expression;
};
const conditions = new ConditionCompiler([
  'read',
  'odd-id',
  'failed',
  'later',
  'for',
  'prototype',
  'map',
  'string',
  'true',
  'size',
  'has',
  'google',
]);
const condition = (text: string) => {
  const found = conditions.compile(text);
  if (typeof found === 'string') assert.fail(`${text}: ${found}`);
  return found;
};

test('a path has the value it leads to, null where it leads nowhere; what is no expression is itself', () => {
  const cases: readonly (readonly [unknown, unknown])[] = [
    ['$.files', ['a', 'b']],
    ['$.read.count', 3],
    ['$.read', { ok: true, text: ' hi ', count: 3, zero: 0, list: [1], none: null }],
    ['$.read.missing.more', null],
    ['$.read.list.0', null],
    ['$.read.text.length', null],
    ['$.deep.x.y', null],
    ['$.nothing', null],
    ['$.odd-id.n', 1],
    ['$.input.limit', 2],
    ['$.constructor', null],
    ['$.read.__proto__', null],
    ['$.read.toString.name', null],
    ['read.count', 'read.count'],
    ['', ''],
    [7, 7],
    [{ a: '$.read' }, { a: '$.read' }],
    [{ jmespath: 'read.count' }, 3],
    [
      { jmespath: 'read.count', more: 1 },
      { jmespath: 'read.count', more: 1 },
    ],
  ];
  for (const [expression, value] of cases) {
    assert.deepEqual(expressionValue(compiled(expression), context), value, JSON.stringify(expression));
  }
  const whole = expressionValue(compiled('$'), context) as Record<string, unknown>;
  assert.deepEqual(Object.keys(whole).sort(), ['deep', 'failed', 'files', 'limit', 'odd-id', 'odd-name', 'read']);
});

test('what cannot be parsed says why', () => {
  assert.match(String(compileExpression('$read')), /expected `\$` or `\$\.name`/);
  assert.match(String(compileExpression('$.a..b')), /a name is missing/);
  assert.match(String(compileExpression('$.')), /a name is missing/);
  assert.match(String(compileExpression({ jmespath: 'a[' })), /expected/);
  assert.match(String(compileExpression({ jmespath: 3 })), /expected a text/);
});

test('a map runs over a list, and takes a value that is none as one item', () => {
  assert.deepEqual(itemsOf(compiled('$.files'), context), ['a', 'b']);
  assert.deepEqual(itemsOf(compiled('$.limit'), context), [2]);
  assert.deepEqual(itemsOf(compiled('$.missing'), context), [null]);
  assert.deepEqual(itemsOf(compiled({ jmespath: 'files[1:]' }), context), ['b']);
});

test('an input map makes the input, else the input is as given; an error names the field', () => {
  const map: InputMap = {
    kind: 'map',
    fields: [
      ['a', compiled('$.read.count')],
      ['__proto__', compiled('x')],
    ],
  };
  const made = evaluate(map, context);
  assert.deepEqual(Object.entries(made), [
    ['a', 3],
    ['__proto__', 'x'],
  ]);
  assert.deepEqual(evaluate({ kind: 'input', input: { text: '$.read' } }, context), { text: '$.read' });
  const item = evaluate(
    {
      kind: 'map',
      fields: [
        ['x', compiled('$.item')],
        ['at', compiled('$.index')],
      ],
    },
    context.forItem('b', 1),
  );
  assert.deepEqual(item, { x: 'b', at: 1 });
  const failing: InputMap = { kind: 'map', fields: [['n', compiled({ jmespath: 'sum(files)' })]] };
  assert.throws(
    () => evaluate(failing, context),
    (error: { message: string; detail: object }) => {
      assert.match(error.message, /input_map\.n: sum\(\) expects an array of numbers/);
      assert.deepEqual({ ...error.detail }, { row: 'schema_violation', reason: 'type', field: 'input_map.n' });
      return true;
    },
  );
});

describe('conditions', () => {
  const cases: readonly (readonly [string, boolean])[] = [
    // A2E 1.0.
    ['$.read.ok == true', true],
    ['$.read.ok == 1', true],
    ['$.read.ok != false', true],
    ['$.read.count == 3', true],
    ['$.read.count == 3.0', true],
    ['$.read.count>=3', true],
    ['$.read.count < 3', false],
    ['$.read.count > 2.5', true],
    ['$.read.text == hi', true],
    ["$.read.text == 'hi'", true],
    ['$.read.text != "ho"', true],
    ['$.read.text > ha', true],
    ['$.read.count == "3"', false],
    ['$.read.missing == 3', false],
    ['$.read.missing != 3', true],
    ['$.read.missing > 3', false],
    ['$.read.none == null', true],
    ['$.read.missing == null', true],
    ['$.read.none != null', false],
    ['$.read.text != null', true],
    ['$.read.count > null', false],
    ['$.read.list', true],
    ['$.read.zero', false],
    ['$.read.none', false],
    ['$.nothing', false],
    ['$.read', true],
    // CEL.
    ['read.ok', true],
    ['read.count > 2 && read.count < 4', true],
    ['input.limit == 2', true],
    ['input.files.exists(f, f == "b")', true],
    ['nodes["odd-id"].n == 1', true],
    ['failed == null', true],
    ['later == null', true],
    ['"ok" in read && !has(read.missing)', true],
    ['size(input.files) == 2', true],
    ['read.text.matches("^ h")', true],
  ];
  for (const [text, value] of cases) {
    test(text, () => assert.equal(holds(condition(text), context), value));
  }
});

test('a condition that has no answer fails, and is not false', () => {
  for (const text of ['$.read.list > 3', '$.read.text > 3', 'read.missing == 1', 'read.count', 'read.text > 3']) {
    assert.throws(() => holds(condition(text), context), { code: 'chains.expression' }, text);
  }
});

test('a condition with an error or an unknown variable is refused with its column', () => {
  assert.match(String(conditions.compile('read.ok ==')), /column \d+/);
  assert.match(String(conditions.compile('red.ok')), /column 1.*red/);
  assert.match(String(conditions.compile('1 + 2')), /not a bool/);
  assert.match(String(conditions.compile('('.repeat(2_000))), /column/);
  assert.match(String(conditions.compile(`read.ok${' && read.ok'.repeat(900)}`)), /exceeds|AST|limit/i);
});

test('a condition that would take for ever ends', () => {
  const large = context.forItem(
    Array.from({ length: 3_000 }, (_, at) => at),
    0,
  );
  assert.throws(() => holds(condition('item.all(a, item.all(b, item.all(c, a + b + c >= 0.0)))'), large), {
    code: 'chains.expression',
  });
});

test('a path with an index, a slice or a quoted name is refused with its JMESPath form', () => {
  for (const text of [
    '$.list[0]',
    '$.list[-1].name',
    '$.list[*].name',
    "$.a['b c']",
    '$.list[?x > 1]',
    '$.list[1:2]',
    '$.list[]',
  ]) {
    const found = compileExpression(text);
    assert.ok(typeof found === 'string' && found.includes('write {"jmespath": "'), text);
  }
  for (const text of ['$.a[b', '$.odd-name', '$.a(b)']) assert.ok(typeof compileExpression(text) !== 'string', text);
});

test('a condition that only looks like a comparison is refused with the right form', () => {
  const refused: readonly (readonly [text: string, form: RegExp])[] = [
    ['$.a = "x"', /expected ==, !=, >=, <=, > or < behind \$\.a, got: = "x"/],
    ['$.a === "x"', /write == or !=/],
    ['$.a !== "x"', /write == or !=/],
    ['$.a <> 3', /expected a literal, got >; write == or !=/],
    ['$.a =~ "x"', /expected ==/],
    ['$.a ==', /got nothing/],
    ['$.a == "x', /no closing "/],
    [`$.a == "x'`, /no closing "/],
    ['$.a == "x" && $.b == "y"', /one comparison only; write it as CEL/],
    ['$.a == true && $.b == true', /one comparison only/],
    ['$.a == 1 or $.b == 2', /one comparison only/],
    ['$.a && $.b', /expected ==.* got: && \$\.b; write it as CEL/],
    ['$.a == $.b', /expected a literal, got a path; write it as CEL/],
    ['$.a is null', /expected ==.* got: is null/],
    ['$.a in ["x"]', /expected ==/],
    ['$.a contains "x"', /expected ==/],
    ['$.list[0] == "x"', /expected ==/],
    ['$["a"] == "x"', /expected ==/],
    ['$.a == True', /write true, or "True" for the text/],
    ['$.a == None', /write null/],
    ['$.a == undefined', /write null/],
    ['$.a == ["x"]', /in quotes/],
    ['$.a == 12345678901234567890', /more digits than a number of JSON keeps/],
    ['$.a == 1e999', /larger than a number may be/],
    ['!$.a', /CEL has no `\$`: write input\.a/],
    ['not input.a', /write ! for not/],
    ['input.a = 3', /write == for equal/],
    ['input.a === 3', /write == or !=/],
    ['input.a == 3 and input.b == 4', /write && for and/],
    ['input.a <> 3', /write != for not equal/],
    ['input.a == None', /write null/],
  ];
  for (const [text, form] of refused) {
    const compiled = new ConditionCompiler(['a']).compile(text);
    assert.ok(typeof compiled === 'string', `${text} was taken`);
    assert.match(compiled, form, text);
  }
});

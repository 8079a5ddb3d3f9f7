/** JMESPath: the values of expressions, refusals before they run, and that none takes more than its steps. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Context } from '../../../src/capabilities/chains/definition/context.ts';
import { parseJmespath } from '../../../src/capabilities/chains/definition/jmespath.ts';
import { evaluateJmespath } from '../../../src/capabilities/chains/definition/jmespath-evaluate.ts';
import { chainSteps } from '../../../src/capabilities/chains/definition/steps.ts';

function search(expression: string, data: unknown, steps?: number): unknown {
  const ast = parseJmespath(expression);
  if (typeof ast === 'string') assert.fail(`${expression}: ${ast}`);
  return evaluateJmespath(ast, data, data, chainSteps(steps));
}

const shop = {
  name: 'north',
  open: true,
  none: null,
  empty: [],
  tags: ['b', 'a', 'c'],
  numbers: [3, 20, 1],
  nested: [[1, 2], [3], 4, [[5]]],
  items: [
    { id: 'x', price: 5, stock: { here: 2 }, tag: 'a' },
    { id: 'y', price: 12, stock: { here: 0 }, tag: 'b' },
    { id: 'z', price: 7, tag: 'a' },
  ],
  by: { one: { n: 1 }, two: { n: 2 } },
  'odd name': { é: 1 },
};

const cases: readonly (readonly [expression: string, value: unknown])[] = [
  // Names.
  ['name', 'north'],
  ['missing', null],
  ['name.first', null],
  ['none.a.b', null],
  ['"odd name"."é"', 1],
  ['"\\u0074ags"[0]', 'b'],
  // Indexes and slices.
  ['tags[0]', 'b'],
  ['tags[-1]', 'c'],
  ['tags[9]', null],
  ['name[0]', null],
  ['tags[1:]', ['a', 'c']],
  ['tags[::-1]', ['c', 'a', 'b']],
  ['tags[-2:]', ['a', 'c']],
  ['tags[5:9]', []],
  ['name[0:2]', 'no'],
  // Projections.
  ['items[*].id', ['x', 'y', 'z']],
  ['items[*].stock.here', [2, 0]],
  ['items[].id', ['x', 'y', 'z']],
  ['nested[]', [1, 2, 3, 4, [5]]],
  ['nested[][]', [1, 2, 3, 4, 5]],
  ['by.*.n', [1, 2]],
  ['name[*]', null],
  ['items[*].id | [0]', 'x'],
  [
    'items[*][id, price]',
    [
      ['x', 5],
      ['y', 12],
      ['z', 7],
    ],
  ],
  // Filters.
  ['items[?price > `6`].id', ['y', 'z']],
  ["items[?tag == 'a' && price < `6`].id", ['x']],
  ['items[?stock].id', ['x', 'y']],
  ['items[?!stock].id', ['z']],
  ["items[?tag == 'b' || id == 'z'].id", ['y', 'z']],
  ["items[?id > 'x'].id", []],
  // Making values.
  ['{a: name, b: tags[0]}', { a: 'north', b: 'b' }],
  ['[name, missing]', ['north', null]],
  ['missing.{a: b}', null],
  ['`{"a": [1, "x"]}`', { a: [1, 'x'] }],
  ["'raw'", 'raw'],
  // Truth.
  ['missing || name', 'north'],
  ['empty || `7`', 7],
  ['open && name', 'north'],
  ['!empty', true],
  ['numbers[2] == `1`', true],
  ['by == {two: {n: `2`}, one: {n: `1`}}', true],
  ["name < 'o'", null],
  // Functions.
  ['length(name)', 5],
  ["length('é😀')", 2],
  ['length(by)', 2],
  ['sort(numbers)', [1, 3, 20]],
  ['sort(tags)', ['a', 'b', 'c']],
  ['sort_by(items, &price)[*].id', ['x', 'z', 'y']],
  ['max_by(items, &price).id', 'y'],
  ['min_by(items, &price).id', 'x'],
  ['max(numbers)', 20],
  ['max(empty)', null],
  ['sum(numbers)', 24],
  ['avg(numbers)', 8],
  ['map(&price, items)', [5, 12, 7]],
  ['map(&stock.here, items)', [2, 0, null]],
  ["join('-', tags)", 'b-a-c'],
  ["contains(tags, 'a')", true],
  ["contains(name, 'ort')", true],
  ["starts_with(name, 'no') && ends_with(name, 'th')", true],
  ['keys(by)', ['one', 'two']],
  ['values(by)[0].n', 1],
  ['merge(by, {three: `3`}).three', 3],
  ['not_null(missing, none, name)', 'north'],
  ['reverse(tags)', ['c', 'a', 'b']],
  ["reverse('ab')", 'ba'],
  ['to_array(name)', ['north']],
  ['to_string(by)', '{"one":{"n":1},"two":{"n":2}}'],
  ["to_number('1.5')", 1.5],
  ["to_number('x')", null],
  ['type(none)', 'null'],
  ['abs(`-2`)', 2],
  ['ceil(`1.2`)', 2],
  ['floor(`-1.2`)', -2],
  // JMESPath Community.
  ['items[?price > $.numbers[0]].id', ['x', 'y', 'z']],
  ['let $n = numbers[0] in items[*].{id: id, more: $n} | [0]', { id: 'x', more: 3 }],
  ['numbers[0] + numbers[1] * `2`', 43],
  ['group_by(items, &tag).a[*].id', ['x', 'z']],
  ['from_items(items(by)) == by', true],
  ['zip(tags, numbers)[1]', ['a', 20]],
  ["upper(trim(' a '))", 'A'],
  ["split('a,b', ',')", ['a', 'b']],
];

test('expressions have the value that JMESPath says', () => {
  for (const [expression, value] of cases) assert.deepEqual(search(expression, shop), value, expression);
});

describe('what is wrong with an expression is found before it runs', () => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['a[', /expected/],
    ['a..b', /unexpected token/],
    ['', /invalid token/],
    ['foo bar', /unexpected token/],
    ['lenght(a)', /there is no function lenght\(\); did you mean length\(\)\?/],
    ['length()', /length\(\) takes 1 argument, got 0/],
    ['sort_by(a, b)', /argument 2 of sort_by\(\) is an expression: put & before it/],
    ['length(&a)', /argument 1 of length\(\) is a value: no & before it/],
    ['$nothing', /there is no variable \$nothing/],
    ['a[::0]', /the step of a slice cannot be 0/],
    ['('.repeat(4_000), /nested|unexpected|invalid/],
    [`a${'.a'.repeat(3_000)}`, /exceeds 4096 characters/],
    [`a${'.a'.repeat(1_500)}`, /more than 1000 parts|nested more than 200 deep/],
    [`${'['.repeat(500)}a${']'.repeat(500)}`, /nested more than 200 deep/],
  ];
  for (const [expression, message] of wrong) {
    test(`${expression.slice(0, 24)} is refused`, () => assert.match(String(parseJmespath(expression)), message));
  }
});

test('a value that does not fit a function fails with its name', () => {
  for (const expression of [
    'length(open)',
    'sum(tags)',
    "join('-', numbers)",
    'sort(items)',
    'name + `1`',
    'numbers[0] / `0`',
  ]) {
    assert.throws(
      () => search(expression, shop),
      (error: { code: string; detail: { reason: string } }) =>
        error.code === 'chains.expression' && error.detail.reason === 'type',
      expression,
    );
  }
});

test('only own members are seen, also of names that every object has', () => {
  for (const expression of [
    'constructor',
    'by.__proto__',
    'by.toString',
    'tags.length',
    '"hasOwnProperty"',
    '$.__proto__.x',
  ]) {
    assert.equal(search(expression, shop), null, expression);
  }
  const hostile = JSON.parse('{"__proto__": {"polluted": 1}}');
  assert.equal(search('"__proto__".polluted', hostile), 1);
  assert.deepEqual(Object.keys(search('{__proto__: "__proto__"}', hostile) as object), ['__proto__']);
  assert.deepEqual(Object.keys(search('merge(@, @)', hostile) as object), ['__proto__']);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

describe('an expression that would take exponential time or memory ends at its steps', () => {
  const doubled = (times: number) => Array.from({ length: times }, () => '[@, @]').join(' | ');
  const expressions = [
    doubled(60),
    `${doubled(40)} | to_string(@)`,
    `[(${doubled(40)}), (${doubled(40)})] | [0] == [1]`,
    `[name] | ${Array.from({ length: 60 }, () => '[@, @][]').join(' | ')}`,
    `name | ${Array.from({ length: 60 }, () => "join('', [@, @])").join(' | ')}`,
    'big[*].[$.big[*].[$.big]]',
    'big[?$.big[?$.big[?@ == `-1`]]]',
    'map(&sort($.big), big)',
    'big[*].to_string($.big)',
    'big[].{a: $.big[].{b: $.big}}',
    // Work behind one function or operator.
    'big[?ends_with($.text, $.text)]',
    'big[?starts_with($.text, $.text)]',
    'big[?contains($.text, $.middle)]',
    'big[*].split($.text, $.middle)',
    "big[*].split($.text, 'a')",
    'big[*].merge($.map, $.map)',
    'big[?$.map]',
    'big[*].keys($.map)',
    'big[*].values($.map)',
    'big[*].items($.map)',
    'big[*].length($.map)',
    'big[*].length($.text)',
    'big[*].reverse($.text)',
    'big[*].upper($.text)',
    'big[*].trim($.text)',
    'big[*].to_number($.text)',
    'big[*].to_string($.map)',
    'big[*].to_string($.names)',
    'big[?$.map == $.map2]',
    'big[*].sort($.texts)',
    'sort(texts)',
    'big[*].max($.texts)',
    'big[*].join($.name, $.texts)',
    'big[*].group_by($.texts, &@)',
    'big[*].from_items($.pairs)',
    'big[*].length(keys($))',
    'big[*].sum($.big)',
    'big[*].zip($.big, $.big)',
    'big[*].not_null($.big)',
  ];
  const members = () => Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`k${at}`, at]));
  const data = {
    name: 'x'.repeat(1_000),
    big: Array.from({ length: 10_000 }, (_, at) => at),
    text: 'a'.repeat(200_000),
    middle: `${'a'.repeat(50_000)}b${'a'.repeat(50_000)}`,
    map: members(),
    map2: members(),
    names: Object.fromEntries(Array.from({ length: 50 }, (_, at) => ['n'.repeat(4_000) + at, 1])),
    texts: Array.from({ length: 1_000 }, (_, at) => `${'x'.repeat(2_000)}${at}`),
    pairs: Array.from({ length: 1_000 }, (_, at) => [`p${at}`, at]),
  };
  for (const expression of expressions) {
    test(expression.slice(0, 60), () => {
      assert.throws(
        () => search(expression, data),
        (error: { code: string; detail: { reason: string } }) =>
          error.code === 'chains.expression' && error.detail.reason === 'steps',
      );
    });
  }
});

test('texts are searched, split, measured and ordered by code points', () => {
  const long = `${'ab'.repeat(40_000)}c`;
  const data = { long, part: `${'ab'.repeat(20_000)}c`, other: `${'ab'.repeat(20_000)}d`, pair: '\u{1F600}x\u{1F600}' };
  for (const [expression, value] of [
    ['contains(long, part)', true],
    ['contains(long, other)', false],
    ['length(split(long, part))', 2],
    ['length(split(long, part)[0])', 40_000],
    ['length(pair)', 3],
    ['length(`"\\ud83d"`)', 1],
    ["sort(['\u{1F600}', '\uffff', 'a'])", ['a', '\uffff', '\u{1F600}']],
    ["sort(['\u{1F600}', '\u{1F601}', '\u{1F600}a'])", ['\u{1F600}', '\u{1F600}a', '\u{1F601}']],
    ["max(['\uffff', '\u{1F600}'])", '\u{1F600}'],
  ] as const) {
    assert.deepEqual(search(expression, data), value, expression);
  }
});

test('a hundred thousand items are mapped within the steps', () => {
  const data = { items: Array.from({ length: 100_000 }, (_, at) => ({ at })) };
  const found = search('items[*].at', data) as number[];
  assert.equal(found.length, 100_000);
  assert.equal(found.at(-1), 99_999);
});

test('data nested deeper than the stack fail and do not end the process', () => {
  let deep: unknown = 1;
  for (let at = 0; at < 200_000; at += 1) deep = [deep];
  assert.throws(() => search('a', { a: deep }), { code: 'chains.expression' });
});

test('a context is looked up by name: outputs over the input, the item over both', () => {
  const context = new Context({ input: { a: 1, b: 2 }, outputs: new Map<string, unknown>([['b', { c: 3 }]]) });
  const at = (expression: string, where: Context) => {
    const ast = parseJmespath(expression);
    if (typeof ast === 'string') assert.fail(ast);
    return evaluateJmespath(ast, where, where, chainSteps());
  };
  assert.deepEqual(at('[a, b.c, $.b.c, @.a, input.b, missing]', context), [1, 3, 3, 1, 2, null]);
  assert.deepEqual(at('@', context), Object.assign(Object.create(null), { a: 1, b: { c: 3 } }));
  assert.deepEqual(at('sort(keys(@))', context), ['a', 'b']);
  assert.deepEqual(at('{i: index, x: item.x}', context.forItem({ x: 9 }, 4)), { i: 4, x: 9 });
});

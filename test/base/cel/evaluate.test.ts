/** Conditions as the package evaluates them, and within counted steps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Environment } from '@marcbachmann/cel-js';
import { conditionCompiler } from '../../../src/base/expressions.ts';
import { OutOfSteps, Steps } from '../../../src/base/steps.ts';

const variables = {
  tool: { name: 'string', input: 'map<string, dyn>' },
  risks: 'list<string>',
  d: 'dyn',
  n: 'int',
} as const;

const values = {
  tool: {
    name: 'shell',
    input: { a: 1, b: 'x', c: [1, 2, 3], e: { f: null, g: true }, s: 'hello world', z: 0, neg: -2.5 },
  },
  risks: ['exec', 'reads'],
  d: { x: 1, y: 'b', list: [1, 'a', null, [2]], m: { k: 'v' }, t: true, u: 'é😀', big: 'a,b,c' },
  n: 5n,
};

const expressions = [
  'tool.name == "shell"',
  'tool.input.a == 1',
  'tool.input.a == 1.0',
  'tool.input.a + 1.0 == 2.0',
  'tool.input.a + 1 == 2',
  'n + 1 == 6',
  'n / 2 == 2',
  'n % 2 == 1',
  'n / 0 == 1',
  'n * 9223372036854775807 > 0',
  '-n == -5',
  '-tool.input.a == -1.0',
  '!tool.input.e.g',
  '!tool.input.a',
  '"exec" in risks',
  '"nope" in risks',
  '"a" in d.list',
  '1 in d.list',
  '[2] in d.list',
  'null in d.list',
  '"k" in d.m',
  '"z" in d.m',
  '1 in d.m',
  'd.list[0] == 1',
  'd.list[5] == 1',
  'd.list[-1] == 1',
  'd["x"] == 1',
  'd.m["k"] == "v"',
  'd.m[1] == "v"',
  'has(d.m.k)',
  'has(d.m.zz)',
  'has(d.zz.k)',
  'has(d.x.k)',
  'has(d.list.k)',
  'has(d.x.k.l)',
  'd.list.all(i, i != null)',
  'd.list.exists(i, i == "a")',
  'd.list.exists(i, i > 0)',
  'd.list.exists(i, i > 5)',
  'd.list.all(i, i > 0)',
  'd.list.exists_one(i, i == 1)',
  'd.list.exists_one(i, i > 0)',
  'd.list.filter(i, i == "a").size() == 1',
  'd.list.map(i, i == 1).size() == 4',
  'd.list.map(i, i == 1, i).size() == 1',
  'd.m.all(k, k == "k")',
  'd.m.map(k, d.m[k]) == ["v"]',
  'tool.input.c.map(i, i * 2.0) == [2.0, 4.0, 6.0]',
  'tool.input.c == [1.0,2.0,3.0]',
  'tool.input.c == [1,2,3]',
  'tool.input.e == {"f": null, "g": true}',
  '{"a": 1}.a == 1',
  '{"a": 1} == {"a": 1.0}',
  '{"a": 1, "b": 2} != {"a": 1}',
  'd.u.size() == 2',
  'size(d.u) == 2',
  'size(d.list) == 4',
  'size(d.m) == 1',
  'size(d.x) == 1',
  'd.y.startsWith("b")',
  'd.y.endsWith("b")',
  'd.y.contains("c")',
  'd.big.split(",") == ["a","b","c"]',
  'd.big.split(",", 2) == ["a","b,c"]',
  'd.big.split(",", 0) == []',
  'd.big.split(",", -1).size() == 3',
  'd.big.split("").size() == 5',
  '["a","b"].join() == "ab"',
  '["a","b"].join("-") == "a-b"',
  'd.list.join("-") == "x"',
  'd.big.indexOf(",") == 1',
  'd.big.indexOf(",", 2) == 3',
  'd.big.indexOf("q", 9) == 3',
  'd.big.lastIndexOf(",") == 3',
  'd.big.lastIndexOf(",", 2) == 1',
  'd.big.substring(2) == "b,c"',
  'd.big.substring(2,3) == "b"',
  'd.big.substring(9) == ""',
  'd.big.lowerAscii() == "a,b,c"',
  'd.big.upperAscii() == "A,B,C"',
  '" x ".trim() == "x"',
  'd.big.matches("^a")',
  'd.big.matches("^b")',
  'd.big.matches(d.y)',
  'int("5") == 5',
  'int("x") == 5',
  'int(d.x) == 1',
  'int(2.7) == 2',
  'double("1.5") == 1.5',
  'double(d.x) == 1.0',
  'string(d.x) == "1"',
  'string(true) == "true"',
  'string(n) == "5"',
  'bool("true")',
  'bool("zz")',
  'uint(5) == uint(5)',
  'uint(5) + uint(1) == uint(6)',
  'uint(5) < uint(6)',
  'uint(5) == 5',
  '5 == uint(5)',
  'd.x == uint(1)',
  'type(d.x) == double',
  'type(d.y) == string',
  'type(d.list) == list',
  'type(d.m) == map',
  'type(null) == null_type',
  'type(d.list) == type(d.m)',
  'dyn(1) == 1',
  'bytes("abc").size() == 3',
  'bytes("abc") == bytes("abc")',
  'bytes("abc") + bytes("d") == bytes("abcd")',
  'b"abc" == bytes("abc")',
  'string(bytes("abc")) == "abc"',
  'bytes("abc").hex() == "616263"',
  'bytes(\'{"a":1}\').json().a == 1',
  'timestamp("2024-01-01T00:00:00Z") < timestamp("2025-01-01T00:00:00Z")',
  'timestamp("2024-01-01T00:00:00Z") + duration("1h") == timestamp("2024-01-01T01:00:00Z")',
  'timestamp("2024-01-01T00:00:00Z").getFullYear() == 2024',
  'timestamp("2024-01-01T00:00:00Z").getHours("Europe/Berlin") == 1',
  'timestamp("2024-01-01T00:00:00Z").getHours("Nowhere") == 1',
  'timestamp("nope") == timestamp("nope")',
  'duration("90m").getHours() == 1',
  'duration("90m") > duration("1h")',
  'timestamp(0).getSeconds() == 0',
  'd.t ? true : false',
  'd.x ? true : false',
  'd.zz == 1 || true',
  'true || d.zz == 1',
  'false && d.zz == 1',
  'd.zz == 1 && false',
  'd.zz == 1 || false',
  'd.x || true',
  'd.x && false',
  'true && d.x',
  'd.t && d.t',
  '"a" < "b"',
  'd.y < 1',
  'd.x < 2',
  'd.x < 2.0',
  'n < 5.5',
  'true > false',
  'null == null',
  'd.list[2] == null',
  'd.x == null',
  'd.y == null',
  'd.m == null',
  'null == d.m',
  'null == d.x',
  'd.x == "1"',
  'd.y == 1',
  'd.list == d.m',
  'd.m == d.m',
  'tool.name == d.x',
  'tool.name != d.x',
  '1 == d.y',
  'cel.bind(q, d.x, q == 1.0)',
  'cel.bind(q, d.list, q.exists(i, i == 1))',
  'd.list.exists(i, d.list.exists(j, i == j))',
  '[[1,2],[3]].exists(l, l.exists(i, i == 3))',
  '[1,2,3].map(i, [i].map(j, i + j)) == [[2],[4],[6]]',
  'tool.input.missing == 1',
  'tool.input.s + "!" == "hello world!"',
  'tool.input.s + 1 == ""',
  'tool.input.c + [4.0] == [1.0,2.0,3.0,4.0]',
  '[1] + [2] == [1,2]',
  '"\\u00e9" == "é"',
  'd.x in [1.0, 2.0]',
  'd.x in [1, 2]',
  'd.y in ["b"]',
  'd.y in [1]',
  'google.protobuf.Timestamp == type(timestamp(0))',
  'size(risks.filter(r, r.matches("^e"))) == 1',
  'd.list.size() > 3 && d.list[3][0] == 2',
  'risks[0] == "exec"',
  'risks[7] == "exec"',
  'tool.input["a"] == 1',
  'd.m.k.size() == 1',
  'd.nothing',
  'd.t',
  'd.list.all(d, d != "q")',
  '1.5 % 1.0 == 0.5',
  'd.x % 2 == 1',
  'd.x / 0.0 > 1.0',
  '-d.y == 1',
  '{1: "a"}[1] == "a"',
  '{true: 1}[true] == 1',
  '{"a": {"b": 1}}.a.b == 1',
  'd.x > 0 && d.y == "b" || d.t',
  'd.m.exists(k, d.m[k] == "v")',
  '"".split(",") == [""]',
  '"abc".contains("")',
  '"abc".indexOf("", 2) == 2',
  'd.u.lastIndexOf("q") == -1',
  'size(d.nothing) == 1',
  'type(d.nothing) == string',
  'd.list.map(i, i).map(i, i).size() == 4',
  'tool == tool',
  'tool.input == tool.input',
  'd.constructor == 1',
  'd.m.constructor == 1',
  '"toString" in d.m',
  'has(d.m.toString)',
];

test('a condition has the value that the package gives it, or none where the package has none', () => {
  const environment = new Environment({ limits: { maxDepth: 64 } });
  for (const [name, type] of Object.entries(variables)) {
    if (typeof type === 'string') environment.registerVariable(name, type);
    else environment.registerVariable({ name, schema: { ...type } });
  }
  const compile = conditionCompiler(variables);
  for (const expression of expressions) {
    const parsed = environment.parse(expression);
    let expected: unknown;
    if (!parsed.check().valid) {
      assert.throws(() => compile(expression, 'rule'), { code: 'config_invalid' }, expression);
      continue;
    }
    try {
      expected = parsed(values);
    } catch {
      // The expression has none.
    }
    const found = compile(expression, 'rule').test(values);
    assert.equal(found, typeof expected === 'boolean' ? expected : undefined, expression);
  }
});

/** Values that fit in one message of a peer, made so that work behind one operator is large. */
const large = {
  numbers: Array.from({ length: 20_000 }, (_, at) => at),
  same: Array.from({ length: 100_000 }, () => 1),
  too: Array.from({ length: 100_000 }, () => 1),
  map: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, 1])),
  map2: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, 1])),
  text: 'a'.repeat(400_000),
  middle: `${'a'.repeat(100_000)}b${'a'.repeat(100_000)}`,
  letters: 'abc'.repeat(30_000),
  pattern: '(a|b|c)*a(a|b|c){200}[yz]',
  texts: Array.from({ length: 2_000 }, (_, at) => 'x'.repeat(400) + at),
  deep: JSON.parse('['.repeat(150) + ']'.repeat(150)),
  deeper: JSON.parse('{"a":'.repeat(150) + 1 + '}'.repeat(150)),
  durations: '1h'.repeat(200_000),
  digits: '1'.repeat(200_000),
};

/** Each of them would take seconds to minutes. */
const endless = [
  'd.numbers.all(a, d.same == d.too)',
  'd.numbers.all(a, d.map == d.map2)',
  'd.numbers.exists(a, -5.0 in d.same)',
  'd.numbers.exists(a, size(d.map) == 1)',
  'd.numbers.exists(a, d.map.exists(k, k == "z"))',
  'd.numbers.exists(a, d.none == 1)',
  'd.numbers.exists(a, d.none || d.none)',
  'd.numbers.exists(a, (d.same + d.too).size() == 1)',
  'd.numbers.exists(a, (d.text + d.text).size() == 1)',
  'd.numbers.exists(a, d.text.contains(d.middle))',
  'd.numbers.exists(a, d.text.indexOf(d.middle) == 1)',
  'd.numbers.exists(a, d.text.lastIndexOf(d.middle) == 1)',
  'd.numbers.exists(a, d.text.split(d.middle).size() == 2)',
  'd.numbers.exists(a, d.text.split("a").size() == 2)',
  'd.numbers.exists(a, d.text.upperAscii() == "A")',
  'd.numbers.exists(a, d.text.trim() == "A")',
  'd.numbers.exists(a, d.text.startsWith(d.text) && false)',
  'd.numbers.exists(a, d.text.substring(5) == "A")',
  'd.letters.matches(d.pattern)',
  'd.letters.matches("[abc]*a[abc]{400}[yz]")',
  'd.numbers.exists(a, "x".matches(d.pattern + string(a)))',
  'd.texts.exists(a, d.texts.join(",") == a)',
  'd.numbers.exists(a, bytes(d.text) == bytes(d.middle))',
  'd.numbers.exists(a, timestamp(0).getHours("Europe/Berlin") == 99)',
  'd.numbers.exists(a, timestamp("never") == timestamp(0))',
  'd.numbers.exists(a, uint(5) + uint(6) == uint(7))',
  'd.numbers.all(a, d.numbers.all(b, d.numbers.all(c, a + b + c >= 0.0)))',
  'd.numbers.map(a, d.numbers.map(b, [a, b])).size() == 0',
  'd.numbers.filter(a, d.numbers.exists_one(b, b == a)).size() == 0',
  'cel.bind(x, d.numbers.map(a, d.same + d.too), x.size() == 0)',
];
for (const expression of endless) {
  test(`ends within its steps: ${expression}`, () => {
    const condition = conditionCompiler({ d: 'dyn' })(expression, 'rule');
    assert.throws(() => condition.test({ d: large }, new Steps()), OutOfSteps);
    assert.equal(condition.test({ d: large }), undefined);
  });
}

test('a large value that is read once has its value', () => {
  const compile = conditionCompiler({ d: 'dyn' });
  for (const [expression, value] of [
    ['d.same == d.too', true],
    ['d.text.contains(d.middle)', false],
    ['d.text.lastIndexOf(d.middle) == 5', false],
    ['(d.middle + "x").contains("ba")', true],
    ['d.numbers.exists(a, a == 19999)', true],
    ['d.map == d.map2', true],
    ['d.deep == d.deeper', false],
    ['d.deep == [d.deep]', false],
    ['d.letters.matches("^(abc)*$")', false],
    // Longer than a duration or a number of the language is.
    ['d.numbers.exists(a, a == 0) && duration(d.durations) == duration("1h")', undefined],
    ['int(d.digits) == 1', undefined],
  ] as const) {
    const condition = compile(expression, 'rule');
    if (expression.includes('matches')) assert.throws(() => condition.test({ d: large }, new Steps()), OutOfSteps);
    else assert.equal(condition.test({ d: large }), value, expression);
  }
});

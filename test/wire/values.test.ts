import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { A2ECodec } from '../../src/wire/a2e.ts';
import { moreValues, parseBounded, stringEnd, tooDeep, ValueCounter } from '../../src/wire/depth.ts';
import { fail } from '../../src/wire/errors.ts';
import { JsonRpcCodec } from '../../src/wire/jsonrpc.ts';
import { readStrictJson } from '../../src/wire/strict-json.ts';
import { topOf } from '../../src/wire/top-members.ts';

/** Texts with the values they have: elements, objects and arrays, and of each member its name and its value. */
const texts: readonly (readonly [string, number])[] = [
  ['[]', 1],
  ['[1,2,3]', 3],
  ['{"a":1,"b":2}', 4],
  ['[[],[],[]]', 6],
  ['["a,b:c[d{","\\",[\\\\",0]', 3],
];

describe('values are counted on the text', () => {
  test('outside of strings only, whole or in pieces', () => {
    for (const [text, values] of texts) {
      // A text of fewer characters than the bound is not looked at.
      if (values < text.length) assert.equal(moreValues(text, values - 1), true, text);
      assert.equal(moreValues(text, values), false, text);
      const bytes = Buffer.from(text);
      for (let at = 0; at <= bytes.length; at++) {
        const counter = new ValueCounter();
        counter.add(bytes.subarray(0, at));
        assert.equal(counter.add(bytes.subarray(at)), values, text);
      }
    }
  });

  test('a text with too many is not built', () => {
    const over = `[${'0,'.repeat(100)}0]`;
    assert.throws(() => parseBounded(over, 64, 100), { code: 'too_large', detail: { limit: 100, unit: 'values' } });
    assert.equal((parseBounded(over, 64, 102) as unknown[]).length, 101);
    // A text that is not JSON is refused for its values before it is read at all.
    assert.throws(() => parseBounded('['.repeat(200), 64, 100), { code: 'too_large' });
  });

  test('a long text of few values is built first, and has the same limit', () => {
    const padding = 'x'.repeat(50_000);
    for (const [text, values] of texts) {
      const long = `{"text":"${padding}","rest":${text}}`;
      assert.throws(() => parseBounded(long, 64, values + 3), {
        code: 'too_large',
        detail: { limit: values + 3, unit: 'values' },
      });
      assert.deepEqual(parseBounded(long, 64, values + 4), { text: padding, rest: JSON.parse(text) });
      assert.equal(moreValues(long, values + 3), true, text);
      assert.equal(moreValues(long, values + 4), false, text);
    }
  });

  test('wherever a piece of a long text ends', () => {
    const strings = ['x', '\\"', '\\\\', '\\\\\\"', 'x\\"', 'é', '中\\"', '😀', `${'x'.repeat(30)}\\"`, '\\u0022'];
    for (const letters of strings) {
      for (const length of [0, 1, 30, 500, 1_000, 4_094, 4_095, 4_096, 4_097, 9_000]) {
        const string = `"${letters.repeat(Math.ceil(length / letters.length))}"`;
        const text = `[${string},${' '.repeat(length % 7)}{${string}:[${string},1]},"a,b",[]]`;
        const own = `${letters} ${length}`;
        assert.equal(stringEnd(text, 2), string.length, own);
        const values = new ValueCounter().add(Buffer.from(text));
        assert.deepEqual([moreValues(text, values - 1), moreValues(text, values)], [true, false], own);
        const deep = `${string.slice(0, -1)}[[[["${'[{'.repeat(4)}`;
        assert.deepEqual([tooDeep(`[${deep}`, 9), tooDeep(`[${deep}`, 8)], [false, true], own);
        assert.equal(stringEnd(text.slice(0, string.length), 2), -1, own);
      }
    }
  });

  test('without a look at each character of a long string', (t) => {
    const ask = t.mock.method(String.prototype, 'charCodeAt');
    const search = t.mock.method(String.prototype, 'indexOf');
    for (const letters of ['\\"', 'xx\\"', '\\\\', '\\\\\\"', 'xxxxxxx\\"', 'xxxxxxxxxx\\"', 'x']) {
      const text = `["${letters.repeat(100_000 / letters.length)}",${' '.repeat(100_000)}0]`;
      ask.mock.resetCalls();
      search.mock.resetCalls();
      assert.equal(moreValues(text, 2), false);
      const calls = ask.mock.callCount() + search.mock.callCount();
      assert.ok(calls < 3_000, `${letters}: ${calls} calls`);
    }
  });

  test('by every dialect', () => {
    const many = `{"type":"x/req","id":"1","list":[${'0,'.repeat(70_000)}0]}`;
    const { error } = new A2ECodec().read(many, 64);
    assert.deepEqual([error?.code, error?.detail.unit, error?.detail.limit], ['too_large', 'values', 65_536]);
    assert.equal(new A2ECodec().read(many, 64, 100_000).kind, 'request');
    const rpc = new JsonRpcCodec({ calls: false }).read(many.replace('"type"', '"jsonrpc":"2.0","method"'));
    assert.equal(rpc?.error?.detail.unit, 'values');
    const fleet = readStrictJson(many);
    assert.ok(!fleet.ok && fleet.errors[0]?.code === 'E_LIMIT');
  });
});

describe('long messages of session RPC', () => {
  const refusal = fail('too_large', 'too long', { limit: 1000, unit: 'bytes' });
  const long = { above: 1000, methods: new Set(['session.send']), refusal };
  const codec = new JsonRpcCodec({ calls: false, long });
  const padding = 'x'.repeat(2000);
  const read = (text: string) => {
    const incoming = codec.read(text);
    return [incoming?.kind, incoming?.id, incoming?.error?.code];
  };

  test('are read of some methods, and refused by their text of all others', () => {
    const of = (method: string) => `{"jsonrpc":"2.0","id":7,"method":"${method}","params":{"text":"${padding}"}}`;
    assert.deepEqual(read(of('session.send')), ['request', 7, undefined]);
    // The refusal has the id of its request, so that its caller need not wait.
    assert.deepEqual(read(of('session.get')), ['invalid', 7, 'too_large']);
    assert.deepEqual(read(`{"jsonrpc":"2.0","method":"session.get","params":"${padding}","id":"a"}`).slice(1), [
      'a',
      'too_large',
    ]);
  });

  test('whose method can be read in two ways are refused', () => {
    for (const head of [
      '"method":"session.send","method":"session.get"',
      '"method":"session.get","method":"session.send"',
      '"method":"session.send","me\\u0074hod":"session.get"',
      '"params":{"method":"session.send"}',
      `"method":["session.send"]`,
    ]) {
      const [kind, , code] = read(`{"jsonrpc":"2.0","id":1,${head},"more":"${padding}"}`);
      assert.deepEqual([kind, code], ['invalid', 'too_large'], head);
    }
  });

  test('have most of their characters in texts', () => {
    const blanks = `{"jsonrpc":"2.0","id":1,"method":"session.send",${' '.repeat(2000)}"params":{}}`;
    assert.equal(read(blanks)[2], 'too_large');
  });

  test('have no member that occurs twice, however long it is', () => {
    const long = 'x'.repeat(2000);
    for (const text of [
      `{"method":"a","method":"${long}"}`,
      `{"method":"${long}","method":"a"}`,
      '{"method":"a","method":"a"}',
    ])
      assert.deepEqual(topOf(text, ['method'], 100).members, {});
  });

  test('are counted on the way', () => {
    assert.deepEqual(topOf('{"a":[[1,2],{"b":"[[["}],"method":"m"}', ['method'], 100), {
      members: { method: '"m"' },
      values: 10,
      levels: 3,
    });
  });
});

/**
 * The strict decoder below all messages: valid JSON, texts that two readers could understand in two ways, and the cost
 * of a hostile text.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MAX_MESSAGE_BYTES, readStrictJson, readStrictValue } from '../../src/wire/strict-json.ts';
import { cpuMsOf } from '../fleet/support/cpu-time.ts';
import fc from '../support/properties.ts';

/** Returns `ok`, or the codes and paths of the errors. */
function said(input: string | Uint8Array): string {
  const json = readStrictJson(input);
  return json.ok ? 'ok' : json.errors.map(({ code, path }) => `${code} ${path}`.trim()).join(', ');
}

const nested = (open: string, middle: string, close: string, levels: number): string =>
  open.repeat(levels) + middle + close.repeat(levels);

// Grammar.

/** Texts from the well-known corpora of JSON parsers; each is the value of a member. */
const values: Readonly<Record<string, readonly string[]>> = {
  ok: [
    '[[] ]',
    '[""]',
    '[]',
    '["a"]',
    '[false]',
    '[null, 1, "1", {}]',
    '[null]',
    '[1\n]',
    ' [1]',
    '[1,null,null,null,2]',
    '[2] ',
    '[123e65]',
    '[0e+1]',
    '[0e1]',
    '[ 4]',
    '[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]',
    '[20e1]',
    '[-0]',
    '[-123]',
    '[-1]',
    '[1E22]',
    '[1E-2]',
    '[1E+2]',
    '[123.456e78]',
    '[1e999]',
    '[123456789012345678901234567890]',
    '["\\u0060\\u012a\\u12AB"]',
    '["\\uD801\\udc37"]',
    '["\\"\\\\\\/\\b\\f\\n\\r\\t"]',
    '["\\\\u0000"]',
    '["\\u0000"]',
    '["\u2028\u2029"]',
    '["\u007f"]',
    '["\\uD800"]',
    '"x"',
    '{"":0}',
    '{"foo\\u0000bar": 42}',
    '{"a":[]}',
    '\t\r\n {} \t\r\n',
  ],
  E_NOT_JSON: [
    '[1 true]',
    '[a]',
    '["": 1]',
    '[""],',
    '[,1]',
    '[1,,2]',
    '["x",,]',
    '["x"]]',
    '["",]',
    '["x"',
    '[x',
    '[3[4]]',
    '[1,]',
    '[*]',
    '[-]',
    '[fals]',
    '[nul]',
    '[tru]',
    '[True]',
    '[None]',
    '[undefined]',
    '[++1234]',
    '[+1]',
    '[-01]',
    '[-1.0.]',
    '[-2.]',
    '[.-1]',
    '[.2e-3]',
    '[0.1.2]',
    '[0.3e]',
    '[0.e1]',
    '[0E+]',
    '[1.0e+]',
    '[1eE2]',
    '[2.e3]',
    '[9.e+]',
    '[Inf]',
    '[Infinity]',
    '[-Infinity]',
    '[NaN]',
    '[1+2]',
    '[0x1]',
    '[012]',
    '[1 000.0]',
    '[１]',
    '["\\x00"]',
    '["\\a"]',
    '["\\u00A"]',
    '["\\\\\\"]',
    '["\\uD834\\u"]',
    "['single quote']",
    '["new\nline"]',
    '["\t"]',
    '["\u0000"]',
    '{"x", null}',
    '{"x"::"b"}',
    '{"a":"a" 123}',
    '{key: "value"}',
    '{1:1}',
    '{"a":1,}',
    '{"a":1,,"b":2}',
    '{a: "b"}',
    '{"a":"b"}/**/',
    '{"a":/*comment*/"b"}',
    '{"a":"b"}//',
    '{"a":"b"}#',
    '{} {}',
    '[\u000c]',
    '[\u00a0]',
    '[\u2060]',
    '[\ufeff]',
    '<.>',
    '',
    ' ',
  ],
};

describe('the grammar', () => {
  test('is RFC 8259, to the letter', () => {
    for (const [code, texts] of Object.entries(values)) {
      for (const text of texts) assert.equal(said(`{"value":${text}}`), code, text);
    }
  });

  test('has an object at its root and nothing else', () => {
    for (const text of ['[]', '[{"a":1}]', '"a"', '1', 'null', 'true', ' [] '])
      assert.equal(said(text), 'E_NOT_OBJECT');
    for (const text of ['', ' ', '\n', '{', '}', '{}}', '{}{}', 'nul']) assert.equal(said(text), 'E_NOT_JSON', text);
    assert.equal(said(' {} '), 'ok');
  });

  test('takes one byte order mark, with a warning, and no second one', () => {
    const marked = readStrictJson('\ufeff{"a":1}');
    assert.deepEqual(marked, { ok: true, value: { a: 1 }, warnings: [{ code: 'W_BOM', path: '' }] });
    assert.equal(said('\ufeff\ufeff{}'), 'E_NOT_JSON');
    assert.deepEqual(readStrictJson(Buffer.from('\ufeff{}')).warnings, [{ code: 'W_BOM', path: '' }]);
    assert.deepEqual(readStrictJson('\ufeff{').warnings, [{ code: 'W_BOM', path: '' }]);
  });

  test('is written in valid UTF-8, which is never repaired', () => {
    const around = (bytes: readonly number[]) =>
      Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')]);
    assert.equal(said(around([0xe2, 0x82, 0xac])), 'ok');
    for (const bytes of [[0xff], [0xc0, 0xaf], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80]]) {
      assert.equal(said(around(bytes)), 'E_NOT_JSON', Buffer.from(bytes).toString('hex'));
    }
    const shared = new Uint8Array(Buffer.from('xx{"a":1}xx')).subarray(2, 9);
    assert.deepEqual(readStrictJson(shared), { ok: true, value: { a: 1 }, warnings: [] });
  });
});

// Keys.

describe('keys', () => {
  test('occur once in an object, compared after unescaping', () => {
    assert.equal(said('{"a":1,"a":1}'), 'E_DUP_KEY /a');
    assert.equal(said('{"a":1,"\\u0061":1}'), 'E_DUP_KEY /a');
    assert.equal(said('{"":1,"":1}'), 'E_DUP_KEY /');
    assert.equal(said('{"x":{"b":1,"c":{},"b":1}}'), 'E_DUP_KEY /x/b');
    assert.equal(said('{"x":[0,{"b":[],"b":1}]}'), 'E_DUP_KEY /x/1/b');
    assert.equal(said('{"/~":1,"/~":1}'), 'E_DUP_KEY /~1~0');
    assert.equal(said('{"a":{"b":1},"b":{"a":1},"c":[{"a":1},{"a":1}]}'), 'ok');
    assert.equal(said('{"a":"a","b":"a"}'), 'ok');
    assert.equal(said('{"a":",\\"a\\":","b":"{\\"a\\":1,\\"a\\":2}"}'), 'ok');
    assert.equal(said('{"\\u00e9":1,"e\\u0301":1}'), 'ok', 'two ways to write one letter are two keys');
  });

  test('that occur more than once are reported once each, in all places', () => {
    assert.equal(said('{"a":1,"a":1,"a":1,"b":{"c":1,"c":1},"b":1}'), 'E_DUP_KEY /a, E_DUP_KEY /b/c, E_DUP_KEY /b');
  });

  test('are found again in an object with many', () => {
    const many = Array.from({ length: 5000 }, (_, index) => `"k${index}":${index}`);
    assert.equal(said(`{${many.join(',')}}`), 'ok');
    assert.equal(said(`{${[...many, '"k4999":0'].join(',')}}`), 'E_DUP_KEY /k4999');
    assert.equal(said(`{${[...many, '"k0":0'].join(',')}}`), 'E_DUP_KEY /k0');
    // The keys of a level are dropped with its object.
    assert.equal(said(`{"a":{${many.join(',')}},"b":{${many.join(',')}}}`), 'ok');
  });

  test('are never __proto__, however it is spelt', () => {
    assert.equal(said('{"__proto__":1}'), 'E_RESERVED_KEY /__proto__');
    assert.equal(said('{"a":[{"\\u005f_proto__":{}}]}'), 'E_RESERVED_KEY /a/0/__proto__');
    assert.equal(said('{"a":"__proto__","constructor":1,"prototype":1,"_proto_":1}'), 'ok');
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});

// Depth and size.

describe('nesting', () => {
  test('goes 32 levels deep, the root being the first', () => {
    assert.equal(said(`{"a":${nested('[', '', ']', 31)}}`), 'ok');
    assert.equal(said(`{"a":${nested('[', '', ']', 32)}}`), 'E_LIMIT');
    assert.equal(said(nested('{"a":', '1', '}', 32)), 'ok');
    assert.equal(said(nested('{"a":', '1', '}', 33)), 'E_LIMIT');
    assert.equal(said(`{"a":[${'[],'.repeat(1000)}[]]}`), 'ok', 'many beside each other are not deep');
    assert.equal(said(`{"a":"${'['.repeat(1000)}\\"${'{'.repeat(1000)}"}`), 'ok', 'brackets in a string are text');
  });

  test('of 5,000 levels and more is reported without overflowing the stack, also where it is cut off', () => {
    for (const levels of [5_000, 100_000]) {
      assert.equal(said(nested('[', '', ']', levels)), 'E_LIMIT');
      assert.equal(said(nested('{"a":', '1', '}', levels)), 'E_LIMIT');
      assert.equal(said(nested('[{"a":', '1', '}]', levels)), 'E_LIMIT');
      assert.equal(said('['.repeat(levels)), 'E_LIMIT');
      assert.equal(said('{"a":'.repeat(levels)), 'E_LIMIT');
    }
    assert.equal(said(']'.repeat(5_000)), 'E_NOT_JSON');
  });
});

describe('size', () => {
  test('is at most 1 MiB of UTF-8', () => {
    const room = MAX_MESSAGE_BYTES - '{"a":""}'.length;
    assert.equal(said(`{"a":"${'x'.repeat(room)}"}`), 'ok');
    assert.equal(said(`{"a":"${'x'.repeat(room + 1)}"}`), 'E_LIMIT');
    assert.equal(said(Buffer.from(`{"a":"${'x'.repeat(room + 1)}"}`)), 'E_LIMIT');
    assert.equal(said(`{"a":"${'é'.repeat(room / 2 + 1)}"}`), 'E_LIMIT', 'bytes count, not characters');
    assert.equal(said(`{"a":"${'é'.repeat(room / 2)}"}`), 'ok');
  });

  test('is read in linear time, with any content', () => {
    const room = MAX_MESSAGE_BYTES - 100;
    const fill = (piece: string) => piece.repeat(Math.floor(room / piece.length));
    const hostile = [
      `{"a":"${fill('\\"')}"}`,
      `{"a":"${fill('\\\\')}"}`,
      `{"a":"${fill('\\\\\\"')}"}`,
      `{"${fill('\\\\')}":1}`,
      `{"a":[${fill('{"a":1,"a":1},')}1]}`,
      `{"a":[${fill('[],')}1]}`,
      `{"a":[${fill('0,')}0]}`,
      `{"a":"${fill('"a":"')}`,
      fill('"'),
      fill('{"'),
      fill('\\'),
      `{${Array.from({ length: 90_000 }, (_, index) => `"${index}":0`).join(',')}}`,
    ];
    for (const text of hostile) {
      const took = cpuMsOf(() => readStrictJson(text));
      // A quadratic look at a million characters takes minutes, a linear one milliseconds.
      assert.ok(took < 5000, `${text.slice(0, 20)}… took ${Math.round(took)} ms`);
    }
  });
});

// Properties.

/** A JSON value in the form of its text: objects are lists of pairs, so that a key can occur twice. */
type Tree =
  | { readonly kind: 'scalar'; readonly text: string }
  | { readonly kind: 'array'; readonly of: readonly Tree[] }
  | { readonly kind: 'object'; readonly of: readonly (readonly [key: string, value: Tree])[] };

const blanks = fc.constantFrom('', ' ', '\n', '\t\r ');
/** Returns a text as JSON, with some characters escaped that need not be. */
const quoted = (text: string): fc.Arbitrary<string> =>
  fc.array(fc.boolean(), { minLength: text.length, maxLength: text.length }).map((escaped) => {
    const units = Array.from({ length: text.length }, (_, at) => {
      const code = `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
      return escaped[at] ? code : JSON.stringify(text.charAt(at)).slice(1, -1);
    });
    return `"${units.join('')}"`;
  });
const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'status', '~/', '', 'ключ', '😀') },
  { weight: 1, arbitrary: fc.constant('__proto__') },
  { weight: 2, arbitrary: fc.string({ unit: 'grapheme', maxLength: 4 }) },
);
const { tree, root } = fc.letrec<{ tree: Tree; root: Tree }>((tie) => ({
  root: fc
    .array(fc.tuple(key, tie('tree')), { minLength: 1, maxLength: 6 })
    .map((of) => ({ kind: 'object' as const, of })),
  tree: fc.oneof(
    { maxDepth: 5, depthSize: 'small', withCrossShrink: true },
    fc
      .oneof(
        fc.json({ maxDepth: 0 }),
        fc.string().map((text) => JSON.stringify(text)),
      )
      .map((text) => ({ kind: 'scalar' as const, text })),
    fc.array(tie('tree'), { maxLength: 4 }).map((of) => ({ kind: 'array' as const, of })),
    fc.array(fc.tuple(key, tie('tree')), { maxLength: 5 }).map((of) => ({ kind: 'object' as const, of })),
  ),
}));

/** Returns the text of a tree. */
function textOf(value: Tree, draw: <T>(arbitrary: fc.Arbitrary<T>) => T): string {
  const blank = () => draw(blanks);
  if (value.kind === 'scalar') return value.text;
  const parts =
    value.kind === 'array'
      ? value.of.map((each) => blank() + textOf(each, draw) + blank())
      : value.of.map(
          ([name, each]) => `${blank()}${draw(quoted(name))}${blank()}:${blank()}${textOf(each, draw)}${blank()}`,
        );
  const inside = parts.length === 0 ? blank() : parts.join(',');
  return value.kind === 'array' ? `[${inside}]` : `{${inside}}`;
}

/** Collects the expected findings of a tree, in the slow and plain way. */
function expected(value: Tree, path: string, found: Set<string>): void {
  const escaped = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1');
  if (value.kind === 'array') for (const [index, each] of value.of.entries()) expected(each, `${path}/${index}`, found);
  if (value.kind !== 'object') return;
  const seen = new Set<string>();
  for (const [name, each] of value.of) {
    const here = `${path}/${escaped(name)}`;
    if (name === '__proto__') found.add(`E_RESERVED_KEY ${here}`);
    else if (seen.has(name)) found.add(`E_DUP_KEY ${here}`);
    seen.add(name);
    expected(each, here, found);
  }
}

describe('any text', () => {
  test('is read to what it says, and every key that is there twice or reserved is found', () => {
    let clean = 0;
    fc.assert(
      fc.property(fc.oneof({ weight: 5, arbitrary: root }, tree), fc.gen(), (value, draw) => {
        const text = textOf(value, (arbitrary) => draw(() => arbitrary));
        const found = new Set<string>();
        expected(value, '', found);
        const json = readStrictJson(text);
        clean += found.size === 0 ? 1 : 0;
        if (found.size > 0) {
          const told = json.ok ? [] : json.errors.map(({ code, path }) => `${code} ${path}`);
          assert.deepEqual(told.toSorted(), [...found].sort());
        } else if (value.kind === 'object') assert.deepEqual(json.ok && json.value, JSON.parse(text));
        else assert.deepEqual(json.ok ? [] : json.errors, [{ code: 'E_NOT_OBJECT', path: '' }]);
      }),
      { numRuns: 400 },
    );
    assert.ok(clean > 40 && clean < 360, `texts with and without such keys were tried: ${clean} of 400 without`);
  });

  test('or bytes never throw, and are taken only where JSON.parse takes them', () => {
    const likely = fc
      .array(
        fc.constantFrom(
          '{',
          '}',
          '[',
          ']',
          '"',
          ':',
          ',',
          '\\',
          'u0061',
          '1',
          '-',
          'true',
          ' ',
          'a',
          '\ufeff',
          '\ud800',
        ),
        {
          maxLength: 24,
        },
      )
      .map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(fc.oneof(likely, fc.string({ unit: 'binary' }), fc.json()), (text) => {
        const json = readStrictJson(text);
        if (json.ok) assert.deepEqual(json.value, JSON.parse(text.replace(/^\ufeff/, '')));
        else assert.ok(json.errors.length > 0);
      }),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => readStrictJson(bytes).ok || true),
      { numRuns: 200 },
    );
  });
});

describe('a value that was never text', () => {
  test('is taken where its text would be, with undefined members left out', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const read = readStrictValue(value);
        const asText = readStrictJson(JSON.stringify(value));
        assert.equal(read.ok, asText.ok);
        if (!read.ok) assert.deepEqual(read, asText);
      }),
      { numRuns: 200 },
    );
    assert.equal(readStrictValue({ a: undefined, b: [{ c: undefined }] }).ok, true);
  });

  const problem = (value: unknown): string => {
    const read = readStrictValue(value);
    return read.ok ? 'ok' : (read.errors[0]?.code ?? '');
  };

  test('is refused where JSON could not say it', () => {
    class Thing {}
    for (const value of [undefined, 1n, Symbol('x'), () => 1, new Date(0), new Map(), new Thing(), [undefined]]) {
      assert.equal(problem({ a: value === undefined ? [value] : value }), 'E_NOT_JSON', String(value));
    }
    assert.equal(problem([]), 'E_NOT_OBJECT');
    assert.equal(problem('text'), 'E_NOT_OBJECT');
    assert.equal(problem(JSON.parse('{"a":{"__proto__":1}}')), 'E_RESERVED_KEY');
    assert.equal(problem(Object.assign(Object.create(null), { a: 1 })), 'ok');
  });

  test('is bounded in depth and size, also where it holds itself', () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    assert.equal(problem(circle), 'E_LIMIT');
    let shared: unknown = 1;
    for (let level = 0; level < 31; level++) shared = { left: shared, right: shared };
    assert.equal(problem(shared), 'E_LIMIT');
    assert.equal(problem({ a: 'x'.repeat(MAX_MESSAGE_BYTES) }), 'E_LIMIT');
    assert.equal(problem({ a: Array.from({ length: MAX_MESSAGE_BYTES }, () => 0) }), 'E_LIMIT');
    assert.equal(problem(JSON.parse(nested('{"a":', '1', '}', 32))), 'ok');
    assert.equal(problem(JSON.parse(nested('{"a":', '1', '}', 33))), 'E_LIMIT');
  });
});

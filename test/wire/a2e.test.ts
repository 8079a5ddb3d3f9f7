import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { A2ECodec, errorOf, randomPrefix, withoutEnvelope } from '../../src/wire/a2e.ts';
import { toAscii } from '../../src/wire/ascii.ts';
import { type ErrorName, errorTable, fail, HandfastError } from '../../src/wire/errors.ts';
import { isObject } from '../../src/wire/json.ts';
import fc from '../support/properties.ts';

type Message = Record<string, unknown>;

/** The names the codec writes itself. */
const envelope = ['type', 'id', 'a2e', 'version', 'ts', 'req_id', 'cursor'];

/** Any text, lone surrogates and control characters included. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(fc.constantFrom('\ud800', '\udfff', '\u0000', '\u2028', '"', '\\', '\n', '\u{1f600}', 'a'), { maxLength: 8 })
    .map((parts) => parts.join('')),
);

/**
 * Keys that break careless code, and the names of the envelope. None with a backslash: once V8 14.6 has parsed such a
 * key, its JSON.parse mistakes other escaped keys of that length for it.
 */
const key = fc.oneof(
  { weight: 3, arbitrary: text.filter((name) => !name.includes('\\')) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('__proto__', 'constructor', 'prototype', 'toJSON', 'toString', 'hasOwnProperty'),
  },
  { weight: 1, arbitrary: fc.constantFrom(...envelope) },
);

const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => (Object.is(number, -0) ? 0 : number)),
    text,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map(ownObject),
  ),
}));

/** Returns an object of own properties, `__proto__` among them. */
function ownObject(entries: [string, unknown][]): Message {
  const made: Message = {};
  for (const [name, held] of entries) {
    Object.defineProperty(made, name, { value: held, enumerable: true, configurable: true, writable: true });
  }
  return made;
}

const body = fc.array(fc.tuple(key, value), { maxLength: 6 }).map(ownObject);
const id = text.filter((one) => one !== '');
const cursor = fc.oneof(fc.constant(0), fc.nat());

/** Returns the part of a body that must remain next to an envelope. */
function own(fields: Message, names: readonly string[] = envelope): [string, unknown][] {
  return Object.entries(fields)
    .filter(([name]) => !names.includes(name))
    .sort(byKey);
}
const byKey = ([left]: [string, unknown], [right]: [string, unknown]): number =>
  left < right ? -1 : left > right ? 1 : 0;

/** Returns a message as the other side would read it. */
const read = (written: string | Message): Message => {
  assert.equal(typeof written, 'string');
  const ascii = toAscii(written as string);
  // DEL is ASCII, ends no line, and JSON leaves it as it is.
  assert.ok(/^[\x20-\x7f]*$/.test(ascii), 'a message is one line of ASCII');
  return JSON.parse(ascii);
};

const writer = (): A2ECodec => new A2ECodec('abcde-', () => 1_767_225_600_125);

describe('the codec, for any content of a message', () => {
  test('an answer read back has its envelope and its body, and the body never overrides the envelope', () =>
    fc.assert(
      fc.property(id, body, cursor, (request, fields, at) => {
        const answer = read(writer().reply(true, 'tool/call/resp', { id: request, idText: '' }, fields, at));
        assert.deepEqual(
          [answer.type, answer.id, answer.a2e, answer.version, answer.ts, answer.req_id, answer.cursor],
          ['tool/call/resp', 'abcde-0', '1.0', '1.0', 1_767_225_600.125, request, at > 0 ? at : undefined],
        );
        assert.deepEqual(own(answer), own(fields));
        assert.equal(Object.getPrototypeOf(answer), Object.prototype);
      }),
      { numRuns: 500 },
    ));

  test('an answer as text and one as an object hold the same', () =>
    fc.assert(
      fc.property(id, body, cursor, (request, fields, at) => {
        const asText = read(writer().reply(true, 'pong', { id: request, idText: '' }, fields, at));
        const asObject = writer().reply(false, 'pong', { id: request, idText: '' }, fields, at) as Message;
        assert.deepEqual(Object.entries(asObject).sort(byKey), Object.entries(asText).sort(byKey));
      }),
      { numRuns: 500 },
    ));

  test('an event read back is what was emitted, as text and as an object', () =>
    fc.assert(
      fc.property(id, text, body, fc.nat(), cursor, (request, kind, data, seq, at) => {
        const address = { id: request, idText: '' };
        const event = read(writer().event(true, 'tool/event', address, kind, data, seq, at));
        assert.deepEqual(
          [event.type, event.id, event.req_id, event.kind, event.seq, event.cursor],
          ['tool/event', 'abcde-0', request, kind, seq, at > 0 ? at : undefined],
        );
        assert.deepEqual(Object.entries(event.data as Message), Object.entries(data));
        const asObject = writer().event(false, 'tool/event', address, kind, data, seq, at) as Message;
        assert.deepEqual(Object.entries(asObject).sort(byKey), Object.entries(event).sort(byKey));
      }),
      { numRuns: 500 },
    ));

  test('a request read back has its own envelope; of the names of an answer it may have req_id', () =>
    fc.assert(
      fc.property(body, (fields) => {
        const message = read(writer().request(true, 'cancel', 'abcde-7', fields));
        assert.deepEqual(
          [message.type, message.id, message.a2e, message.version, message.ts],
          ['cancel', 'abcde-7', '1.0', '1.0', 1_767_225_600.125],
        );
        assert.deepEqual(own(message), own(fields));
        assert.deepEqual(message.req_id, fields.req_id);
      }),
      { numRuns: 500 },
    ));

  test('a request as text and one as an object hold the same', () =>
    fc.assert(
      fc.property(body, (fields) => {
        const asText = read(writer().request(true, 'x/req', 'abcde-7', fields));
        const asObject = writer().request(false, 'x/req', 'abcde-7', fields) as Message;
        assert.deepEqual(Object.entries(asObject).sort(byKey), Object.entries(asText).sort(byKey));
      }),
      { numRuns: 500 },
    ));

  test('withoutEnvelope takes away the envelope and nothing else', () =>
    fc.assert(
      fc.property(body, (fields) => {
        assert.deepEqual(Object.entries(withoutEnvelope(fields)).sort(byKey), own(fields));
      }),
    ));
});

describe('times and ids', () => {
  test('a time is epoch seconds with its milliseconds, for any clock', () => {
    for (const ms of [1_767_225_600_125, 1_767_225_600_000, 1_767_225_600_007, 1_000, 999, 5, 0]) {
      assert.equal(JSON.parse(new A2ECodec('a-', () => ms).stamp()), ms / 1000, `${ms} ms`);
    }
  });

  test('a clock that is set back or forth changes only the times', async () => {
    let now = 1_767_225_600_000;
    const clocked = new A2ECodec('a-', () => now);
    const seen: unknown[] = [];
    for (const ms of [0, 864_000_000, -86_400_000, -5_000]) {
      now = 1_767_225_600_000 + ms;
      // The clock is asked once for all that happens without a break.
      await Promise.resolve();
      seen.push(read(clocked.request(true, 'ping', clocked.id(), {})).ts);
    }
    assert.deepEqual(seen, [1_767_225_600, 1_768_089_600, 1_767_139_200, 1_767_225_595]);
  });

  test('ids of one writer are all different, prefixes need no quoting', () => {
    const one = new A2ECodec();
    assert.equal(new Set(Array.from({ length: 1_000 }, () => one.id())).size, 1_000);
    for (const random of [0, 0.5, 0.999_999_999])
      assert.match(
        randomPrefix(() => random),
        /^[0-9a-z]{5}-$/,
      );
  });
});

describe('errors on the wire', () => {
  const overTheWire = (error: HandfastError): HandfastError =>
    errorOf(read(writer().failure(true, { id: 'r', idText: '' }, error, 0)));

  test('every row of the table comes back as the same name, with its message, detail and retryable', () => {
    for (const name of Object.keys(errorTable) as ErrorName[]) {
      const back = overTheWire(fail(name, 'what happened', { path: '/a', n: 1 }));
      assert.deepEqual([back.code, back.message, back.retryable], [name, 'what happened', errorTable[name].retryable]);
      assert.deepEqual([back.detail.path, back.detail.n], ['/a', 1]);
    }
  });

  test('any error comes back with its code, message, capability and retryable', () =>
    fc.assert(
      fc.property(
        fc.oneof(
          fc.constantFrom(...Object.keys(errorTable)),
          fc.constantFrom('__proto__', 'constructor', 'skill_error'),
          text,
        ),
        text,
        fc.boolean(),
        text,
        (code, message, retryable, capability) => {
          const back = overTheWire(new HandfastError(code, message, { retryable, capability }));
          assert.deepEqual(
            [back.code, back.message, back.retryable, back.capability],
            [code, message === '' ? (errorTable[code as ErrorName]?.a2e ?? code) : message, retryable, capability],
          );
        },
      ),
      { numRuns: 500 },
    ));

  test('anything a peer sends as an error is read without failing', () =>
    fc.assert(
      fc.property(body, value, value, (fields, code, detail) => {
        const error = errorOf({ ...fields, code, detail });
        assert.equal(error.code, typeof code === 'string' ? error.code : 'runtime_error');
        assert.ok(isObject(error.detail));
        assert.equal(typeof error.message, 'string');
      }),
      { numRuns: 500 },
    ));
});

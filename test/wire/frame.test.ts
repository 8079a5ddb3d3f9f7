/**
 * The line cutter: for any chunking, the same lines come out, and no other text.
 */
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { describe, test } from 'node:test';
import { type BadLine, LineReader } from '../../src/wire/frame.ts';
import fc from '../support/properties.ts';

type Heard = string | BadLine;

/** All at once. */
const unbounded = { spend: () => false, renew() {} };

/** Returns a reader's output for chunks. `reused` overwrites each chunk after the call, as shared read memory is. */
function read(chunks: readonly Uint8Array[], maxBytes = 1 << 20, reused = false): Heard[] {
  const heard: Heard[] = [];
  const reader = new LineReader(
    { line: (text) => heard.push(text), malformed: (problem) => heard.push(problem) },
    maxBytes,
    false,
    unbounded,
  );
  for (const chunk of chunks) {
    const memory = Buffer.from(chunk);
    reader.push(memory, reused);
    if (reused) memory.fill(0x7b);
  }
  reader.end();
  return heard;
}

/** Cuts bytes at the given places (any numbers, taken modulo the length). */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, index) => bytes.subarray(from, at[index] ?? bytes.length));
}

const inBytes = (bytes: Buffer): Buffer[] => Array.from(bytes, (byte) => Buffer.of(byte));

/** Applies the rules again, slowly: splits at newlines, then judges each line alone. */
function reference(bytes: Buffer, maxBytes: number): Heard[] {
  const heard: Heard[] = [];
  let first = true;
  let from = 0;
  while (from < bytes.length) {
    const newline = bytes.indexOf(10, from);
    const to = newline === -1 ? bytes.length : newline;
    let line = bytes.subarray(from, to);
    if (line.at(-1) === 13) line = line.subarray(0, -1);
    from = to + 1;
    const wasFirst = first;
    first = false;
    if (line.length > maxBytes) heard.push({ reason: 'too_large', limit: maxBytes });
    else if (!isUtf8(line)) heard.push({ reason: 'bad_utf8' });
    else {
      let text = line.toString('utf8');
      if (wasFirst && text.startsWith('\ufeff')) text = text.slice(1);
      if (/[^ \t\r]/.test(text)) heard.push(text);
    }
  }
  return heard;
}

/** Lines as peers send them, and as they should not. */
const line = fc.oneof(
  fc.json().map((text) => Buffer.from(text)),
  fc.string({ unit: 'binary' }).map((text) => Buffer.from(text.replaceAll('\n', ' '))),
  fc
    .uint8Array({ maxLength: 40 })
    .map((bytes) => Buffer.from(bytes).map((byte) => (byte === 10 ? 32 : byte)) as Buffer),
  fc
    .constantFrom('', ' \t', '\r', 'x\r', '{}\r\r', '\ufeff', '{}', '[1]', '\ufffd{}', 'x\ry')
    .map((text) => Buffer.from(text)),
  fc.integer({ min: 900, max: 9000 }).map((length) => Buffer.alloc(length, 'é漢 x')),
);

const stream = fc
  .tuple(
    fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n')), { maxLength: 30 }),
    fc.option(line, { nil: Buffer.of() }),
  )
  .map(([lines, last]) => Buffer.concat([...lines.flatMap(([text, end]) => [text, Buffer.from(end)]), last]));

describe('the line cutter', () => {
  test('gives the lines the reference gives, for any bytes, any chunking and any limit', () => {
    const limits = fc.constantFrom(1, 20, 1000, 5000, 1 << 20);
    const places = fc.array(fc.nat(), { maxLength: 12 });
    fc.assert(
      fc.property(stream, places, limits, fc.boolean(), (bytes, at, maxBytes, reused) => {
        assert.deepEqual(read(cut(bytes, at), maxBytes, reused), reference(bytes, maxBytes));
      }),
      { numRuns: 1500 },
    );
  });

  test('gives the same lines when every byte is a chunk', () => {
    fc.assert(
      fc.property(stream, fc.constantFrom(20, 1 << 20), (bytes, maxBytes) => {
        assert.deepEqual(read(inBytes(bytes), maxBytes), reference(bytes, maxBytes));
      }),
      { numRuns: 200 },
    );
  });

  test('gives the same lines for frames, whose end also ends a line', () => {
    fc.assert(
      fc.property(stream, fc.constantFrom(20, 1 << 20), (bytes, maxBytes) => {
        const heard: Heard[] = [];
        const sink = { line: (text: string) => heard.push(text), malformed: (problem: BadLine) => heard.push(problem) };
        const reader = new LineReader(sink, maxBytes, false, unbounded);
        reader.frame(bytes);
        assert.deepEqual(heard, reference(bytes, maxBytes));
        reader.frame(Buffer.from('{"next":1}'));
        assert.equal(heard.at(-1), '{"next":1}');
      }),
      { numRuns: 500 },
    );
  });

  test('many short lines in one chunk come out one by one', () => {
    const lines = Array.from({ length: 5000 }, (_, n) => `{"n":${n}}`);
    assert.deepEqual(read([Buffer.from(lines.join('\n'))]), lines);
    assert.deepEqual(read([Buffer.from(`${lines.join('\r\n')}\r\n`)]), lines);
  });

  test('a carriage return inside a line stays, one before the newline goes', () => {
    assert.deepEqual(read([Buffer.from('{"a"\r:1}\r\n{"b":2}\r')]), ['{"a"\r:1}', '{"b":2}']);
    // Only one CR, and the same whether the line arrives alone or with others.
    assert.deepEqual(read([Buffer.from('x\r\r\n')]), ['x\r']);
    assert.deepEqual(read([Buffer.from('x\r\r\ny\r\r\nz\n')]), ['x\r', 'y\r', 'z']);
  });

  test('U+2028, U+2029, U+0085 and a real U+FFFD are text like any other', () => {
    const text = '{"a":"\u2028\u2029\u0085\ufffd"}';
    assert.deepEqual(read([Buffer.from(`${text}\n`)]), [text]);
  });

  test('invalid, overlong and surrogate UTF-8 is refused for its own line only', () => {
    const bad = [
      [0xff],
      [0xc0, 0xaf],
      [0xe0, 0x80, 0xaf],
      [0xed, 0xa0, 0x80],
      [0xf4, 0x90, 0x80, 0x80],
      [0xc3],
      [0x80],
      [0xf0, 0x9f, 0x99],
    ];
    for (const bytes of bad) {
      const chunk = Buffer.concat([Buffer.from('{"a":1}\n"'), Buffer.from(bytes), Buffer.from('"\n{"b":"é"}\n')]);
      const expected = ['{"a":1}', { reason: 'bad_utf8' }, '{"b":"é"}'];
      assert.deepEqual(read([chunk]), expected);
      assert.deepEqual(read(inBytes(chunk)), expected);
    }
  });

  test('a byte order mark counts only at the very start', () => {
    assert.deepEqual(read([Buffer.from('\ufeff{}\n\ufeff{}\n')]), ['{}', '\ufeff{}']);
    assert.deepEqual(read(inBytes(Buffer.from('\ufeff\n{}\n'))), ['{}']);
  });

  test('a line of exactly the limit passes, its line break not counted; one byte more does not', () => {
    for (const end of ['\n', '\r\n', '']) {
      assert.deepEqual(read([Buffer.from(`${'x'.repeat(100)}${end}`)], 100), ['x'.repeat(100)]);
      assert.deepEqual(read(inBytes(Buffer.from(`${'x'.repeat(101)}${end}`)), 100), [
        { reason: 'too_large', limit: 100 },
      ]);
    }
    assert.deepEqual(read([Buffer.from(`${'é'.repeat(50)}\nx\n`)], 100), ['é'.repeat(50), 'x']);
    assert.deepEqual(read([Buffer.from(`${'é'.repeat(51)}\nx\n`)], 100), [{ reason: 'too_large', limit: 100 }, 'x']);
  });

  test('an over-long line is reported once, before it ends, and nothing of it is kept', () => {
    const heard: Heard[] = [];
    const reader = new LineReader(
      { line: (text) => heard.push(text), malformed: (p) => heard.push(p) },
      1000,
      false,
      unbounded,
    );
    const piece = Buffer.alloc(64 * 1024, 'x');
    reader.push(piece);
    assert.deepEqual(heard, [{ reason: 'too_large', limit: 1000 }]);
    const before = process.memoryUsage().arrayBuffers;
    for (let n = 0; n < 1024; n++) reader.push(piece);
    assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20);
    reader.push(Buffer.from('x\n{}\n'));
    assert.deepEqual(heard, [{ reason: 'too_large', limit: 1000 }, '{}']);
  });

  test('a changed limit counts from the next line of the same chunk on', () => {
    const heard: Heard[] = [];
    const reader = new LineReader(
      {
        line(text) {
          heard.push(text);
          reader.setMaxBytes(10_000);
        },
        malformed: (problem) => heard.push(problem),
      },
      10,
      false,
      unbounded,
    );
    reader.push(Buffer.from(`${'a'.repeat(11)}\nshort\n${'b'.repeat(9000)}\n${'c'.repeat(9000)}`));
    reader.end();
    assert.deepEqual(heard, [{ reason: 'too_large', limit: 10 }, 'short', 'b'.repeat(9000), 'c'.repeat(9000)]);
  });

  test('a stopped reader is silent, in the middle of a chunk too', () => {
    for (const chunk of ['1\n2\n3\n', `1\n2\n${'3'.repeat(9000)}\n4\n`, '1\n2\n\xff\n3\n']) {
      const heard: Heard[] = [];
      const reader = new LineReader(
        {
          line(text) {
            heard.push(text);
            if (text === '2') reader.stop();
          },
          malformed: (problem) => heard.push(problem),
        },
        1 << 20,
        false,
        unbounded,
      );
      reader.push(Buffer.from(chunk, 'latin1'));
      reader.push(Buffer.from('5\n'));
      reader.frame(Buffer.from('6'));
      reader.end();
      assert.deepEqual(heard, ['1', '2']);
    }
  });

  test('past its share of a turn the rest waits, in the same order, for any bytes, any chunking and any share', async () => {
    const places = fc.array(fc.nat(), { maxLength: 12 });
    const shares = fc.array(fc.boolean(), { minLength: 1, maxLength: 8 });
    const check = async (bytes: Buffer, at: number[], full: boolean[], pauses: number[], framed: boolean) => {
      const heard: Heard[] = [];
      const told: boolean[] = [];
      const maxBytes = 5000;
      const heed = (one: Heard): void => {
        heard.push(one);
        if (pauses.includes(heard.length)) reader.pause(true);
      };
      let asked = 0;
      const share = { spend: () => full[asked++ % full.length] as boolean, renew() {} };
      const sink = { line: heed, malformed: heed, behind: (behind: boolean) => told.push(behind) };
      const reader = new LineReader(sink, maxBytes, false, share);
      const pieces = cut(bytes, at);
      for (const piece of pieces) {
        const memory = Buffer.from(piece);
        if (framed) reader.frame(memory);
        else reader.push(memory, true);
        if (!framed) memory.fill(0x7b);
      }
      const drain = async (): Promise<void> => {
        while (reader.holds) {
          reader.pause(false);
          await new Promise((resolve) => setImmediate(resolve));
        }
        reader.pause(false);
      };
      await drain();
      reader.end();
      await drain();
      const whole: Heard[] = [];
      const all = { line: (text: string) => whole.push(text), malformed: (problem: BadLine) => whole.push(problem) };
      const other = new LineReader(all, maxBytes, false, unbounded);
      for (const piece of pieces) framed ? other.frame(piece) : other.push(piece);
      other.end();
      assert.deepEqual(heard, whole);
      // Each "behind" is followed by one "no more".
      assert.ok(told.every((behind, n) => behind === (n % 2 === 0)) && told.length % 2 === 0, `${told}`);
    };
    await fc.assert(
      fc.asyncProperty(stream, places, shares, fc.array(fc.nat({ max: 30 }), { maxLength: 4 }), fc.boolean(), check),
      { numRuns: 800 },
    );
  });

  test('a line that comes in single bytes costs linear time and no object a byte', () => {
    const time = (bytes: number): number => {
      const chunks = inBytes(Buffer.from(`${'x'.repeat(bytes)}\n`));
      // Of this thread alone: the time of other programs on a busy machine does not count.
      const before = process.threadCpuUsage();
      assert.equal(read(chunks)[0]?.toString().length, bytes);
      const { user, system } = process.threadCpuUsage(before);
      return (user + system) / 1000;
    };
    time(20_000);
    const small = Math.min(time(40_000), time(40_000), time(40_000));
    const large = Math.min(time(400_000), time(400_000), time(400_000));
    // Ten times the bytes; quadratic cost would be a hundred times the time.
    assert.ok(large < 40 * Math.max(small, 1), `${small} ms, then ${large} ms`);
  });
});

test('many readers have some milliseconds of a turn together, and continue in their order', async () => {
  const heard: string[] = [];
  const readers = Array.from({ length: 24 }, () => {
    const line = (text: string): void => {
      for (const until = performance.now() + 8; performance.now() < until; );
      heard.push(text);
    };
    return new LineReader({ line, malformed: () => assert.fail() }, 1 << 20);
  });
  await new Promise(setImmediate);
  const memory = Buffer.alloc(8);
  for (const [at, reader] of readers.entries()) {
    memory.write(`${at}\n`.padStart(8));
    reader.push(memory, true);
  }
  // The last reader of a turn finishes its line.
  assert.ok(heard.length <= 5, `${heard.length} in one turn`);
  for (let turns = 0, counted = heard.length; heard.length < readers.length; turns++) {
    await new Promise(setImmediate);
    assert.ok(heard.length - counted <= 5, `${heard.length - counted} in one turn`);
    counted = heard.length;
    assert.ok(turns < 100);
  }
  assert.deepEqual(heard.map(Number), [...readers.keys()]);
  assert.ok(readers.every((reader) => !reader.holds));
});

describe('where a return alone ends a line', () => {
  const readAll = (chunks: readonly Uint8Array[], maxBytes = 1 << 20): Heard[] => {
    const heard: Heard[] = [];
    const sink = { line: (text: string) => heard.push(text), malformed: (problem: BadLine) => heard.push(problem) };
    const reader = new LineReader(sink, maxBytes, true, unbounded);
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    return heard;
  };

  test('the line is delivered with its return, before anything follows', () => {
    assert.deepEqual(readAll([Buffer.from('{"a":1}\r')]), ['{"a":1}']);
    assert.deepEqual(readAll([Buffer.from('{"a"'), Buffer.from(':1}\r{"b":2}\r')]), ['{"a":1}', '{"b":2}']);
  });

  test('LF, CRLF and CR end the same lines, however the chunks are cut', () => {
    const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
    const content = fc.json().filter((text) => text.trim() !== '');
    fc.assert(
      fc.property(fc.array(fc.tuple(content, lineEnd)), fc.array(fc.nat()), (lines, places) => {
        const bytes = Buffer.from(lines.map(([text, end]) => text + end).join(''));
        assert.deepEqual(
          readAll(cut(bytes, places)),
          lines.map(([text]) => text),
        );
      }),
      { numRuns: 200 },
    );
  });

  test('a limit counts from return to return', () => {
    assert.deepEqual(readAll([Buffer.from('123456\r12\r123456\n1\r')], 4), [
      { reason: 'too_large', limit: 4 },
      '12',
      { reason: 'too_large', limit: 4 },
      '1',
    ]);
  });
});

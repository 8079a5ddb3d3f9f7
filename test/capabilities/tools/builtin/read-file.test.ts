import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFile } from '../../../../src/capabilities/tools/builtin/index.ts';
import fc from '../../../support/properties.ts';
import { call, callShaped, failsWith, makeWorkspace, testCall } from './support.ts';

const lines = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}\n`).join('');

test('a whole small file comes with its lines, size and hash', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'a.txt': 'one\ntwo' });
  const read = await callShaped(readFile, { path: 'a.txt' }, testCall(workspace));
  assert.deepEqual(read.data, {
    path: 'a.txt',
    encoding: 'utf-8',
    content: 'one\ntwo',
    size: 7,
    start_line: 1,
    end_line: 2,
    total_lines: 2,
    sha256: createHash('sha256').update('one\ntwo').digest('hex'),
    truncated: false,
    next_offset: null,
    next_byte_offset: null,
  });
  assert.equal(read.truncated, false);
});

test('a window of lines says where to continue', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'a.txt': lines(1, 100) });
  const read = await callShaped(readFile, { path: 'a.txt', offset: 11, limit: 5 }, testCall(workspace));
  assert.equal(read.data.content, lines(11, 15));
  assert.deepEqual([read.data.start_line, read.data.end_line, read.data.total_lines], [11, 15, 100]);
  assert.deepEqual([read.data.truncated, read.data.next_offset, read.truncated], [true, 16, true]);
});

test('an empty file and an offset past the end give no lines and no error', async (t) => {
  const { workspace } = await makeWorkspace(t, { empty: '', 'a.txt': lines(1, 3) });
  const empty = await call(readFile, { path: 'empty' }, testCall(workspace));
  assert.deepEqual([empty.content, empty.total_lines, empty.end_line, empty.truncated], ['', 0, 0, false]);
  const past = await call(readFile, { path: 'a.txt', offset: 50 }, testCall(workspace));
  assert.deepEqual([past.content, past.total_lines, past.truncated], ['', 3, false]);
});

test('whole lines are returned up to the byte limit, a longer line is cut between characters', async (t) => {
  const { workspace } = await makeWorkspace(t, { short: 'ab\n'.repeat(200), long: `${'é'.repeat(400)}\nend\n` });
  const short = await call(readFile, { path: 'short', max_bytes: 256 }, testCall(workspace));
  assert.equal(short.content, 'ab\n'.repeat(85));
  assert.deepEqual([short.next_offset, short.next_byte_offset], [86, 255]);
  const long = await call(readFile, { path: 'long', max_bytes: 257 }, testCall(workspace));
  assert.equal(long.content, 'é'.repeat(128));
  assert.deepEqual([long.truncated, long.next_offset, long.next_byte_offset], [true, 2, 256]);
  const rest = await call(readFile, { path: 'long', byte_offset: 256, max_bytes: 4096 }, testCall(workspace));
  assert.equal(rest.content, `${'é'.repeat(272)}\nend\n`);
  assert.equal(rest.truncated, false);
});

test('following next_offset returns every file whole', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const text = fc
    .array(fc.constantFrom('a', '€', '😀', '\n', '\n', 'word '), { maxLength: 400 })
    .map((parts) => parts.join(''));
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 50 }), async (content, limit) => {
      await using file = await open(join(workspace, 'f'), 'w');
      await file.writeFile(content);
      let offset: number | null = 1;
      let seen = '';
      while (offset !== null) {
        const part: { content: string; next_offset: number | null } = await call(
          readFile,
          { path: 'f', offset, limit, max_bytes: 4096 },
          testCall(workspace),
        );
        seen += part.content;
        offset = part.next_offset;
      }
      assert.equal(seen, content);
    }),
    { numRuns: 25 },
  );
});

test('following next_byte_offset returns every file whole, text and bytes alike', async (t) => {
  const content = '€uro 😀 '.repeat(300);
  const { workspace } = await makeWorkspace(t, { f: content });
  for (const encoding of ['utf-8', 'base64']) {
    let seen = Buffer.alloc(0);
    for (let at: number | null = 0; at !== null; ) {
      const args = { path: 'f', byte_offset: at, max_bytes: 257, encoding };
      const part = await call(readFile, args, testCall(workspace));
      seen = Buffer.concat([seen, Buffer.from(part.content, encoding === 'base64' ? 'base64' : 'utf8')]);
      at = part.next_byte_offset;
    }
    assert.equal(seen.toString('utf8'), content, encoding);
  }
});

test('a binary file is refused as text and given as base64', async (t) => {
  const bytes = Buffer.from([0x89, 0x50, 0, 1, 2, 255]);
  const { workspace } = await makeWorkspace(t, { 'image.png': bytes });
  const context = testCall(workspace);
  await assert.rejects(
    call(readFile, { path: 'image.png' }, context),
    (error: Error & { detail?: { size?: number } }) => {
      assert.ok(failsWith('tool_error', 'binary_file')(error));
      assert.equal(error.detail?.size, 6);
      assert.match(error.message, /base64/);
      return true;
    },
  );
  const read = await call(readFile, { path: 'image.png', encoding: 'base64', byte_offset: 1, byte_limit: 3 }, context);
  assert.deepEqual([read.content, read.truncated, read.next_byte_offset], ['UAAB', true, 4]);
});

test('a byte order mark is left out and bytes that are no UTF-8 are marked', async (t) => {
  const { workspace } = await makeWorkspace(t, { bom: '\ufefftext\r\n', latin: Buffer.from('caf\xe9\n', 'latin1') });
  const bom = await call(readFile, { path: 'bom' }, testCall(workspace));
  assert.deepEqual([bom.content, bom.bom, bom.lossy], ['text\r\n', true, undefined]);
  const latin = await call(readFile, { path: 'latin' }, testCall(workspace));
  assert.deepEqual([latin.content, latin.lossy], ['caf\ufffd\n', true]);
});

test('the end of a very large file is reached without loading or counting it', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const size = 3 * 1024 ** 3;
  await using file = await open(join(workspace, 'huge'), 'w');
  await file.write('first\nsecond\nthird\n', 0);
  await file.truncate(size);
  await file.write('the end\n', size - 8);
  const before = process.memoryUsage().rss;
  const head = await call(readFile, { path: 'huge', limit: 2, max_bytes: 256 }, testCall(workspace)).catch(
    (error) => error,
  );
  // Holes are NUL bytes, so the file counts as binary from its first bytes on; the bytes themselves are readable.
  assert.ok(failsWith('tool_error', 'binary_file')(head));
  const tail = await call(readFile, { path: 'huge', encoding: 'base64', byte_offset: size - 8 }, testCall(workspace));
  assert.equal(Buffer.from(tail.content, 'base64').toString(), 'the end\n');
  assert.equal(tail.size, size);
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 ** 2);
});

test('a large text file is read from the middle, and its lines are not counted past 64 MiB', async (t) => {
  const { workspace } = await makeWorkspace(t, { big: `${'x'.repeat(1023)}\n`.repeat(70 * 1024) });
  const read = await call(readFile, { path: 'big', offset: 1000, limit: 2 }, testCall(workspace));
  assert.equal(read.content.length, 2048);
  assert.deepEqual([read.total_lines, read.sha256, read.next_offset], [null, null, 1002]);
});

test('a call that was given up stops reading', async (t) => {
  const { workspace } = await makeWorkspace(t, { big: `${'x'.repeat(1023)}\n`.repeat(32 * 1024) });
  const context = testCall(workspace);
  const reading = call(readFile, { path: 'big', offset: 30_000 }, context);
  setImmediate(() => context.cancel());
  await assert.rejects(reading, failsWith('cancelled'));
});

test('directories and missing files are distinguished', async (t) => {
  const { workspace } = await makeWorkspace(t, { 'd/f': '' });
  await assert.rejects(call(readFile, { path: 'd' }, testCall(workspace)), failsWith('tool_error', 'is_a_directory'));
  await assert.rejects(call(readFile, { path: 'x' }, testCall(workspace)), failsWith('tool_error', 'not_found'));
});

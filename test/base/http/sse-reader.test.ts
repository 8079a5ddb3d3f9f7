/** The reader of event streams: every cut of the input gives the same events, in bounded memory and linear time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SseReader } from '../../../src/base/http/sse-reader.ts';
import fc from '../../support/properties.ts';

type Seen = [type: string, data: string, id: string] | ['malformed', string, string];

function read(chunks: readonly (string | Buffer)[], maxBytes = 1_000): Seen[] {
  const seen: Seen[] = [];
  const reader = new SseReader(
    {
      event: (type, data, id) => seen.push([type, data, id]),
      malformed: (problem, id) => seen.push(['malformed', problem.reason, id]),
      retry: (delayMs) => seen.push(['retry', String(delayMs), '']),
    },
    maxBytes,
  );
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  return seen;
}

const transcript = [
  '\uFEFFretry: 250\n\n: a comment\n\n',
  'id: 1\ndata: {"a":1}\n\n',
  'data:{"b":"ü€😀"}\r\nid: 2\r\n\r\n',
  'event: gap\rdata: {"from":1,\rdata: "to":2}\r\r',
  'data\n\nid\n\n',
  'data: {"c":3}\nid: 3\nunheard: of\n\n',
  'data: never finished\n',
].join('');
const events: Seen[] = [
  ['retry', '250', ''],
  ['', '{"a":1}', '1'],
  ['', '{"b":"ü€😀"}', '2'],
  ['gap', '{"from":1, "to":2}', '2'],
  ['', '{"c":3}', '3'],
];

test('an event stream gives the same events however it is cut into chunks', () => {
  const bytes = Buffer.from(transcript);
  assert.deepEqual(read([bytes]), events);
  assert.deepEqual(read([...bytes].map((byte) => Buffer.from([byte]))), events);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: bytes.length })), (cuts) => {
      const points = [0, ...cuts.sort((a, b) => a - b), bytes.length];
      const chunks = points.slice(1).map((end, index) => bytes.subarray(points[index], end));
      assert.deepEqual(read(chunks), events);
    }),
    { numRuns: 200 },
  );
});

test('an event over the limit is reported once and skipped, and the next one is read', () => {
  const long = `id: 7\ndata: ${'x'.repeat(2_000)}\n\nid: 8\ndata: {}\n\n`;
  const expected = [
    ['malformed', 'too_large', '7'],
    ['', '{}', '8'],
  ];
  assert.deepEqual(read([long]), expected);
  assert.deepEqual(read([...long].map((character) => character)), expected);
});

test('the limit counts bytes and is exact', () => {
  assert.deepEqual(read([`data: ${'x'.repeat(10)}\n\n`], 10), [['', 'x'.repeat(10), '']]);
  assert.deepEqual(read([`data: ${'x'.repeat(11)}\n\n`], 10), [['malformed', 'too_large', '']]);
  assert.deepEqual(read([`data: ${'é'.repeat(6)}\n\n`], 11), [['malformed', 'too_large', '']]);
  assert.deepEqual(read(['data: 123456\ndata: 123456\n\n'], 12), [['malformed', 'too_large', '']]);
});

test('bytes that are not UTF-8 are reported, never replaced, and harm only their event', () => {
  const bad = Buffer.concat([Buffer.from('data: "'), Buffer.from([0xc3, 0x28]), Buffer.from('"\n\ndata: "é"\n\n')]);
  assert.deepEqual(read([bad]), [
    ['malformed', 'bad_utf8', ''],
    ['', '"é"', ''],
  ]);
});

test('one long event in many chunks is read in linear time', () => {
  const bytes = 8 * 1024 * 1024;
  const piece = Buffer.alloc(2_048, 'x');
  const before = process.threadCpuUsage();
  const seen = read(
    [Buffer.from('data: '), ...Array<Buffer>(bytes / piece.length).fill(piece), Buffer.from('\n\n')],
    bytes,
  );
  assert.equal(seen[0]?.[1]?.length, bytes);
  // Quadratic reading of this takes minutes. The time of other programs does not count.
  assert.ok(process.threadCpuUsage(before).user < 5_000_000);
});

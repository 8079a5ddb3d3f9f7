/**
 * The two bounds on the output of tools: the size of a result, and the rate of live output.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { liveOutput } from '../../../src/control/rounds/live-output.ts';
import { boundedValue } from '../../../src/wire/bounded-value.ts';

const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

test('what fits is handed on as plain JSON, by value', () => {
  const value = { a: [1, 'x', null], b: undefined, c: new Date(0) };
  const bounded = boundedValue(value, 1024);
  assert.deepEqual(bounded, { value: { a: [1, 'x', null], c: '1970-01-01T00:00:00.000Z' }, cut: false });
  assert.deepEqual(boundedValue(undefined, 1024), { value: null, cut: false });
});

test('what JSON cannot carry becomes null', () => {
  const round: Record<string, unknown> = {};
  round.self = round;
  assert.deepEqual(boundedValue(round, 1024), { value: null, cut: true });
  assert.deepEqual(boundedValue({ big: 1n }, 1024), { value: null, cut: true });
});

test('long texts give way first, the longest most; everything else stays', () => {
  const value = { stdout: 'o'.repeat(50_000), stderr: 'e'.repeat(2000), exit_code: 1, note: 'short' };
  const { value: cut } = boundedValue(value, 16_384);
  const { stdout, stderr, exit_code, note } = cut as typeof value;
  assert.deepEqual([stderr, exit_code, note], [value.stderr, 1, 'short']);
  assert.match(stdout, /^o+\n\[… \d+ characters left out …\]\no+$/);
  assert.ok(bytes(cut) <= 16_384 && bytes(cut) > 15_000);
});

test('the bound holds for any text', () => {
  const texts = [
    '"'.repeat(40_000),
    '\u0001'.repeat(40_000),
    '😀'.repeat(40_000),
    `${'a'.repeat(20_000)}${'\u0001'.repeat(20_000)}`,
  ];
  for (const text of texts) {
    const { value, cut } = boundedValue({ text }, 8192);
    assert.equal(cut, true);
    assert.ok(bytes(value) <= 8192, `${bytes(value)} bytes`);
    assert.ok(JSON.stringify(value).isWellFormed());
    assert.doesNotMatch(JSON.stringify(value), /\\ud[89a-f]/i, 'no character is split');
  }
});

test('a value that is large without long texts becomes the beginning of its JSON', () => {
  const many = Array.from({ length: 10_000 }, (_, at) => ({ path: `file-${at}`, size: at }));
  const { value } = boundedValue(many, 8192);
  const { truncated, text, note } = value as { truncated: boolean; text: string; note: string };
  assert.equal(truncated, true);
  assert.match(text, /^\[\{"path":"file-0"/);
  assert.match(note, /bytes of JSON/);
  assert.ok(bytes(value) <= 8192);
});

test('members named like parts of the prototype stay members', () => {
  const value = JSON.parse(`{"__proto__":{"x":1},"text":${JSON.stringify('t'.repeat(5000))}}`);
  const { value: cut } = boundedValue(value, 2048);
  assert.ok(Object.hasOwn(cut as object, '__proto__'));
  assert.equal((cut as { x?: number }).x, undefined);
});

test('live output passes within its rate; what is left out is named where it was', () => {
  let nowMs = 0;
  const told: string[] = [];
  const live = liveOutput((stream, text) => told.push(`${stream} ${text}`), {
    burstCharacters: 10,
    charactersPerSecond: 10,
    now: () => nowMs,
  });
  live.push('stdout', '12345678');
  live.push('stdout', 'too much');
  live.push('stderr', 'too much as well');
  live.push('stdout', '');
  nowMs = 1000;
  live.push('stdout', 'again');
  live.end();
  live.end();
  assert.deepEqual(told, [
    'stdout 12345678',
    'stdout \n[… 8 characters left out …]\n',
    'stdout again',
    'stderr \n[… 16 characters left out …]\n',
  ]);
});

test('a piece that is larger than the whole allowance is left out, not queued', () => {
  const told: string[] = [];
  const live = liveOutput((_stream, text) => told.push(text), { burstCharacters: 4, now: () => 0 });
  live.push('stdout', 'x'.repeat(100));
  live.push('stdout', 'ok');
  live.end();
  assert.deepEqual(told, ['\n[… 100 characters left out …]\n', 'ok']);
});

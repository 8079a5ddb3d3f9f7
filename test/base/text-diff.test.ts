import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unifiedDiff } from '../../src/base/text-diff.ts';
import fc from '../support/properties.ts';

/** Applies a unified diff strictly: every line that it names must be at its position. */
function patch(before: string, diff: string): string {
  const old = before === '' ? [] : before.replace(/\n$/, '').split('\n');
  const fresh: string[] = [];
  let at = 0;
  for (const line of diff.split('\n').slice(0, -1)) {
    const hunk = /^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$/.exec(line);
    if (hunk !== null) {
      const start = Number(hunk[1]) - (hunk[2] === '0' ? 0 : 1);
      fresh.push(...old.slice(at, start));
      at = start;
      assert.equal(fresh.length, Number(hunk[3]) - (hunk[4] === '0' ? 0 : 1));
      continue;
    }
    if (line[0] !== '+') assert.equal(old[at++], line.slice(1));
    if (line[0] !== '-') fresh.push(line.slice(1));
  }
  fresh.push(...old.slice(at));
  return fresh.join('\n');
}

test('equal texts have no diff', async () => {
  assert.equal(await unifiedDiff('a\nb\n', 'a\nb\n'), '');
  assert.equal(await unifiedDiff('', ''), '');
});

test('distant changes are separate hunks, close ones share one', async () => {
  const before = Array.from({ length: 30 }, (_, index) => `line ${index + 1}`).join('\n');
  const far = await unifiedDiff(before, before.replace('line 3\n', 'three\n').replace('line 25', 'twenty-five'));
  assert.match(far, /^@@ -1,6 \+1,6 @@\n(?:.*\n)+@@ -22,7 \+22,7 @@\n/);
  const close = await unifiedDiff(before, before.replace('line 3\n', 'three\n').replace('line 8\n', 'eight\n'));
  assert.equal(close.match(/@@ -/g)?.length, 1);
});

test('the shortest way is shown', async () => {
  assert.equal(await unifiedDiff('a\nb\nc\n', 'a\nc\nd\n'), '@@ -1,3 +1,3 @@\n a\n-b\n c\n+d\n');
  assert.equal(await unifiedDiff('', 'a\n'), '@@ -0,0 +1,1 @@\n+a\n');
  assert.equal(await unifiedDiff('a\n', ''), '@@ -1,1 +0,0 @@\n-a\n');
});

test('a diff applied to the old text gives the new text', async () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', '', 'd'), { maxLength: 30 }).map((lines) => lines.join('\n'));
  const ended = (value: string): string => value.replace(/\n$/, '');
  await fc.assert(
    fc.asyncProperty(text, text, fc.integer({ min: 0, max: 3 }), async (before, after, context) => {
      assert.equal(patch(before, await unifiedDiff(before, after, { context })), ended(after));
    }),
    { numRuns: 500 },
  );
});

test('texts that have nothing in common are shown as one block, in bounded time and size', async () => {
  const before = Array.from({ length: 9000 }, (_, index) => `old ${index}`).join('\n');
  const after = Array.from({ length: 9000 }, (_, index) => `new ${index}`).join('\n');
  const begun = process.threadCpuUsage();
  const diff = await unifiedDiff(before, after, { maxCharacters: 10_000_000 });
  assert.ok(process.threadCpuUsage(begun).user < 2_000_000);
  assert.equal(patch(before, diff), after);
  const cut = await unifiedDiff(before, after);
  assert.ok(cut.length < 17_000 && cut.endsWith('… the diff continues\n'));
});

test('of a very large change only the place is reported', async () => {
  const diff = await unifiedDiff(`same\n${'a\n'.repeat(30_000)}`, `same\n${'b\n'.repeat(30_001)}`, { context: 0 });
  assert.equal(diff, '@@ -2,30000 +2,30001 @@\n… too many lines to show\n');
});

test('line ends are no part of the lines shown', async () => {
  assert.equal(await unifiedDiff('a\r\nb\r\n', 'a\r\nc\r\n'), '@@ -1,2 +1,2 @@\n a\n-b\n+c\n');
});

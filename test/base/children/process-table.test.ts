/**
 * Reading the processes of the system: once for all simultaneous callers, and never from before they asked.
 */
import assert from 'node:assert/strict';
import fs, { existsSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, startChild } from '../../../src/base/child.ts';
import { markerName, readProcesses, withMarker } from '../../../src/base/children/process-table.ts';
import { sharedRuns } from '../../../src/base/shared-runs.ts';

const skip = !existsSync('/proc/self/stat') && 'needs /proc';

/** Counts the readings of the list of processes. */
function counted(t: TestContext): () => number {
  let count = 0;
  const { readdirSync } = fs;
  t.mock.method(fs, 'readdirSync', ((path: string, ...rest: []) => {
    if (path === '/proc') count++;
    return readdirSync(path, ...rest);
  }) as typeof readdirSync);
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  return () => count;
}

async function sleeperOf(env: Record<string, string> = {}): Promise<Child> {
  const child = startChild({ argv: ['sleep', '600'], env: { PATH: process.env.PATH, ...env } });
  await child.started;
  return child;
}

test('those who ask while a run is under way share the one after it', async () => {
  const ends: PromiseWithResolvers<number>[] = [];
  const ask = sharedRuns(() => {
    const run = Promise.withResolvers<number>();
    ends.push(run);
    return run.promise;
  });
  const first = ask();
  const later = [ask(), ask(), ask()];
  assert.equal(ends.length, 1);
  ends[0]?.resolve(1);
  assert.equal(await first, 1);
  while (ends.length < 2) await pause(1);
  const last = ask();
  ends[1]?.reject(new Error('unreadable'));
  for (const each of later) await assert.rejects(each, /unreadable/);
  while (ends.length < 3) await pause(1);
  ends[2]?.resolve(3);
  assert.equal(await last, 3);
  const again = ask();
  assert.equal(ends.length, 4);
  ends[3]?.resolve(4);
  assert.equal(await again, 4);
});

test('many who ask at once cause two readings, and each sees what ran when it asked', { skip }, async (t) => {
  const count = counted(t);
  const early = readProcesses();
  const child = await sleeperOf();
  t.after(() => child.kill());
  const before = count();
  const all = await Promise.all(Array.from({ length: 50 }, () => readProcesses()));
  assert.ok(all.every((entries) => entries.some(({ pid }) => pid === child.pid)));
  assert.ok(count() - before <= 2, `${count() - before} readings`);
  await early;
});

test('children that are ended at once share the search for what they have started', { skip }, async (t) => {
  const children = await Promise.all(Array.from({ length: 20 }, () => sleeperOf()));
  const alone = await sleeperOf();
  const count = counted(t);
  await alone.end(0);
  const one = count();
  await Promise.all(children.map((child) => child.end(0)));
  assert.ok(children.every(({ exit }) => exit?.signal === 'SIGKILL'));
  // Alone each would search as often as the first one.
  assert.ok(count() - one < 10 * one, `${count() - one} readings for 20 children, ${one} for one`);
});

test('a marker is found also behind variables that look like it', { skip }, async (t) => {
  const child = await sleeperOf({ A: `${markerName}=`, [`X${markerName}`]: 'other;' });
  t.after(() => child.kill());
  const entries = await readProcesses();
  const own = entries.find(({ pid }) => pid === child.pid);
  assert.ok(own !== undefined);
  const [marker = ''] = /[0-9a-f]{32}\.\d+;/.exec(fs.readFileSync(`/proc/${child.pid}/environ`, 'latin1')) ?? [];
  assert.deepEqual(await withMarker(entries, marker), [own]);
  assert.deepEqual(await withMarker([own], 'nothing of it;'), []);
});

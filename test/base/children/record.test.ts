/**
 * The records that are swept, and the proof that nothing else is touched; with real processes.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { markerName, seesProcesses, startOf, systemIdentity } from '../../../src/base/children/process-table.ts';
import { sweep } from '../../../src/base/children/record.ts';

const skip = !seesProcesses && 'this system does not show its processes';
const MARKER = 'a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5.';

/** The process that a record names, and the children it lists. */
interface Written {
  readonly pid: number;
  readonly started: number;
  readonly system?: string;
  readonly marker?: string;
  readonly leaders?: readonly string[];
}

function folder(t: TestContext): { home: string; write: (name: string, written: Written | string) => string } {
  const home = mkdtempSync(join(tmpdir(), 'handfast-children-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  mkdirSync(join(home, 'children'));
  return {
    home,
    write(name, written) {
      const file = join(home, 'children', name);
      if (typeof written === 'string') writeFileSync(file, written);
      else {
        const { leaders = [], ...owner } = { system: systemIdentity(), marker: MARKER, ...written };
        writeFileSync(file, [JSON.stringify(owner), ...leaders.map((line) => line.padEnd(31)), ''].join('\n'));
      }
      return file;
    },
  };
}

/** Returns a process that runs until it is killed; in a separate group. */
async function sleeper(t: TestContext, env: Record<string, string> = {}): Promise<ChildProcess & { pid: number }> {
  const child = spawn('sleep', ['300'], { stdio: 'ignore', detached: true, env: { PATH: process.env.PATH, ...env } });
  t.after(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  return child as ChildProcess & { pid: number };
}

const isAlive = (child: ChildProcess): boolean => child.exitCode === null && child.signalCode === null;

/** No process: its number was never given out, or its start is another one. */
const GONE = { pid: process.pid, started: 1 };

test('what a process left that has ended is ended, by its marker or by its group, and the record goes', {
  skip,
}, async (t) => {
  const { home, write } = folder(t);
  const marked = await sleeper(t, { [markerName]: `${MARKER}0;` });
  const listed = await sleeper(t);
  const ends = [marked, listed].map((child) => once(child, 'exit'));
  const file = write('left.json', { ...GONE, leaders: ['', `${listed.pid} ${startOf(listed.pid)}`, ''] });
  assert.equal(await sweep(home), 1);
  assert.deepEqual(await Promise.all(ends), [
    [null, 'SIGTERM'],
    [null, 'SIGTERM'],
  ]);
  assert.equal(existsSync(file), false);
  assert.equal(await sweep(home), 0);
});

test('a process whose number was used again is left alone', { skip }, async (t) => {
  const { home, write } = folder(t);
  const stranger = await sleeper(t);
  const file = write('reused.json', {
    ...GONE,
    leaders: [`${stranger.pid} ${startOf(stranger.pid) - 100}`, '1 1', '0 0', '-1 5'],
  });
  assert.equal(await sweep(home), 1);
  assert.equal(isAlive(stranger), true);
  assert.equal(existsSync(file), false);
});

test('children of a process that runs, and of one of another boot or container, are left alone', {
  skip,
}, async (t) => {
  const { home, write } = folder(t);
  const child = await sleeper(t, { [markerName]: `${MARKER}0;` });
  const owned = write('owned.json', { pid: process.pid, started: startOf(process.pid) });
  const foreign = write('foreign.json', { ...GONE, system: 'another boot pid:[1]' });
  assert.equal(await sweep(home), 0);
  assert.deepEqual([isAlive(child), existsSync(owned), existsSync(foreign)], [true, true, true]);
  // No process can still use a record of this age.
  utimesSync(foreign, 1, 1);
  assert.equal(await sweep(home), 0);
  assert.deepEqual([isAlive(child), existsSync(owned), existsSync(foreign)], [true, true, false]);
});

test('a record that is damaged or was written by someone else ends nothing', { skip }, async (t) => {
  const { home, write } = folder(t);
  const child = await sleeper(t, { [markerName]: `${MARKER}0;` });
  for (const marker of ['', 'PATH', '.', MARKER.slice(1), `${MARKER}0`])
    write(`${marker.length}.json`, { ...GONE, marker });
  write('cut.json', '{"pid":1,"sta');
  write('empty.json', '');
  write('list.json', '[]');
  mkdirSync(join(home, 'children', 'folder.json'));
  assert.equal(await sweep(home), 0);
  assert.equal(isAlive(child), true);
  assert.equal(await sweep(join(home, 'nowhere')), 0);
});

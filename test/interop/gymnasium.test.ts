/**
 * Handfast's environments beside Gymnasium itself: a thousand seeded episodes of every variant, played by Gymnasium in
 * Python and played again here. `GYMNASIUM_EPISODES` sets another number; without Python and its packages the test is
 * skipped with that reason.
 *
 * `GYMNASIUM_PYTHON`: a Python that has the packages. Without it, a virtual environment is created, once.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { GymnasiumComparison } from '../capabilities/env/environments/gymnasium-episodes.ts';
import { virtualPython } from './virtual-python.ts';

/** The versions that the recorded vectors are of. */
const PACKAGES = ['gymnasium[toy-text]==1.4.0', 'numpy==2.4.6'];

const episodes = Number(process.env.GYMNASIUM_EPISODES ?? 1000);

function find(): { readonly python: string; readonly skip: string | false } {
  try {
    return { python: process.env.GYMNASIUM_PYTHON || virtualPython('interop-gymnasium', PACKAGES), skip: false };
  } catch (error) {
    if (process.env.CI !== undefined) throw error;
    return { python: '', skip: `${(error as Error).message}; set GYMNASIUM_PYTHON to a Python that has them` };
  }
}

const { python, skip } = find();

test(`${episodes} seeded episodes of each variant are Gymnasium's`, { skip, timeout: 1_200_000 }, async (context) => {
  const recorder = join(import.meta.dirname, 'gymnasium-recorder.py');
  const child = spawn(python, [recorder, 'episodes', String(episodes)], { stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(() => child.kill());
  const comparison = new GymnasiumComparison();
  const ended = once(child, 'exit');
  for await (const line of createInterface({ input: child.stdout })) await comparison.play(line);
  assert.deepEqual(await ended, [0, null]);
  for (const [id, { episodes: played, steps, worst }] of comparison.counts) {
    context.diagnostic(`${id}: ${played} episodes, ${steps} steps, largest difference ${worst}`);
  }
  assert.ok([...comparison.counts.values()].every(({ episodes: played }) => played >= episodes));
});

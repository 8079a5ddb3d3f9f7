/**
 * `examples/learner.ts` with its agent, alone or with its host, killed at random moments: the result of the run equals
 * that of an undisturbed one, to the last bit. Claims exactly once, decisions with their probabilities, rewards,
 * memory, and learned values are compared; only times differ.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const EXAMPLE = join(import.meta.dirname, '../../examples/learner.ts');
const EPISODES = '12';

async function run(variables: Record<string, string>): Promise<{ ends: string[]; decisions: unknown[] }> {
  const env = { ...process.env, EPISODES, KILL: '0', JSON: '1', ...variables };
  const words = ['-C', 'handfast-source', EXAMPLE];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env, timeout: 200_000, maxBuffer: 2 ** 26 });
  return JSON.parse(stdout.trim().split('\n').at(-1)!).outcome;
}

for (const SEED of ['1', '2']) {
  test(`a learner that is killed at random moments ends like one that is not, seed ${SEED}`, {
    timeout: 400_000,
  }, async () => {
    const calm = await run({ SEED });
    assert.deepEqual([calm.ends.length, calm.decisions.length], [12, 12]);
    assert.deepEqual(await run({ SEED, KILLS: '3' }), calm);
  });
}

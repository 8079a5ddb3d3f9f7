/** The environments of Gymnasium's ids, compared with recordings of Gymnasium itself. The interop test compares more. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { environmentKinds } from '../../../../src/capabilities/env/registry.ts';
import { GymnasiumComparison } from './gymnasium-episodes.ts';

const vectors = join(import.meta.dirname, '../../../vectors/gymnasium/episodes.ndjson');

test('recorded episodes of every id are played again: observations, rewards, flags, infos, samples, text', async () => {
  const comparison = new GymnasiumComparison();
  for (const line of readFileSync(vectors, 'utf8').trim().split('\n')) await comparison.play(line);
  const played = [...comparison.counts.keys()].sort();
  const known = environmentKinds.map(({ id }) => id).filter((id) => !/^CartPole-v0|^handfast\//.test(id));
  assert.deepEqual(played, known.sort());
});

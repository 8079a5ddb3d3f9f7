/** Two thousand small fleets, each with its own faults; a seed that breaks a rule is in the failure. */
import { test } from 'node:test';
import { tiny } from '../../simulation/setting.ts';
import { simulateHandshake } from '../../simulation/simulation.ts';

test('no rule is broken in two thousand small fleets', () => {
  for (let seed = 1; seed <= 2000; seed += 1) simulateHandshake(tiny(seed));
});

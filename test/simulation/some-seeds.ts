/**
 * Simulates small fleets until a rule is broken, and prints it.
 */
import { RuleBroken } from '../../simulation/checks.ts';
import { crowded, tiny } from '../../simulation/setting.ts';
import { simulateHandshake } from '../../simulation/simulation.ts';

const seeds = Number(process.argv[2]);
for (let seed = 1; seed <= seeds; seed += 1) {
  try {
    await simulateHandshake(seed % 4 === 0 ? crowded(seed) : tiny(seed));
  } catch (thrown) {
    if (!(thrown instanceof RuleBroken)) throw thrown;
    console.log(thrown.message);
    break;
  }
}

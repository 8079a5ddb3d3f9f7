/**
 * An agent that learns which of three ways to search works best here, from whether it found the wanted entry.
 *
 * Run it with `node -C handfast-source examples/learning.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect } from 'handfast';

process.chdir(dirname(import.meta.dirname));
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'stdio'];
const address = `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;
const home = mkdtempSync(join(tmpdir(), 'handfast-example-'));

const env = { HANDFAST_HOME: home };

/** Share of successful searches of each kind. The agent does not know it. */
const chances: Readonly<Record<string, number>> = { lexical: 0.5, vector: 0.4, hybrid: 0.8 };
/** Searches: finds the entry as often as the chosen kind promises, in a fixed order. */
const search = async (way: string, query: number) => (query * 7) % 10 < (chances[way] ?? 0) * 10;

// #region connect
// A host has the capability without any configuration.
const agent = await connect(address, { capabilities: ['learning'], agentId: 'searcher', env });
// #endregion

let found = 0;
for (let query = 0; query < 200; query++) {
  // #region decide
  const ways = ['lexical', 'vector', 'hybrid'];
  const { option, experienceId } = await agent.learning.decide('search', ways, { seed: 'example' });
  const hit = await search(option, query);
  await agent.learning.reward(experienceId, hit ? 1 : 0);
  // #endregion
  if (hit) found += 1;
}
console.log(`found ${found} of 200`);

const { message, recommendations } = await agent.learning.adapt('search');
const [best] = recommendations ?? [];
console.log(`recommended: ${best?.option}, policy: ${best?.policy}`);
assert.equal(best?.option, 'hybrid');
assert.match(message ?? '', /ppo was not run/);

// Estimates the earnings of another policy. The log has the probability with which each option was chosen.
const { logged, estimates } = await agent.learning.evaluate('search', { option: 'hybrid' });
const dr = estimates.find(({ estimator }) => estimator === 'dr');
console.log(`earned ${logged.value.toFixed(2)}; always hybrid: ${dr?.value.toFixed(2)}`);

// A refinement can be undone exactly.
const { refinement_id = '' } = await agent.learning.apply({
  path: 'choices.search.policy',
  new_value: { name: 'ucb1' },
});
const { rolled_back } = await agent.learning.rollback(refinement_id);
console.log(`rolled back: ${rolled_back}`);

await agent.close();
rmSync(home, { recursive: true, force: true });

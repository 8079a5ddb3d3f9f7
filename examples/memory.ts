/**
 * An agent with a memory: facts under keys, found by words and similarity, also after its host was restarted; a changed
 * fact has a history, and a forgotten one is deleted.
 *
 * Run it with `node -C handfast-source examples/memory.ts`.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { connect } from 'handfast';

process.chdir(dirname(import.meta.dirname));
const command = [process.execPath, ...process.execArgv, 'src/cli/main.ts', 'stdio'];
// Each connection starts a separate host, as a child, and ends it; all have the memory of this user.
const address = `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`;
const year = (number: number): number => Date.UTC(number, 0, 1) / 1000;

{
  // #region quick-start
  await using agent = await connect(address, { capabilities: ['memory'], agentId: 'planner' });
  const memory = await agent.memory.open({ namespace: 'travel' });

  await memory.store([
    { key: 'home', content: 'Ada lives in Rome', valid_from: year(2015), tags: ['profile'] },
    { key: 'home', content: 'Ada lives in Lisbon', valid_from: year(2024), tags: ['profile'] },
    { key: { user: 'ada', topic: 'seat' }, content: 'prefers a window seat', tags: ['profile', 'flights'] },
  ]);
  const { entries } = await memory.search('where does Ada live?');
  console.log('found:', entries[0]?.content); // found: Ada lives in Lisbon
  // #endregion
  assert.equal(entries[0]?.content, 'Ada lives in Lisbon');
}

// #region later
await using agent = await connect(address, { capabilities: ['memory'], agentId: 'planner' });
const memory = await agent.memory.open({ namespace: 'travel' });
console.log('another day:', (await memory.get('home'))?.content); // Ada lives in Lisbon
console.log('in 2020:', (await memory.get('home', { asOf: year(2020) }))?.content); // Ada lives in Rome
console.log('versions:', (await memory.history('home')).length); // 2

// #endregion

// #region watch
const changed = Promise.withResolvers<readonly unknown[]>();
const end = await agent.memory.watch({ namespace: 'travel' }, ({ keys }) => changed.resolve(keys));
await memory.store({ key: 'seat', content: 'prefers an aisle seat now' });
console.log('changed:', await changed.promise); // [ { key: 'seat' } ]
await end();
// #endregion

// #region forget
const { deleted, erased } = await memory.forget({ tags: ['profile'] });
console.log(`forgotten: ${deleted}, erased: ${erased}`); // forgotten: 2, erased: true
// #endregion
assert.equal((await memory.list()).total, 1);

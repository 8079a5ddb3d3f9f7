import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Memory } from '../../../src/capabilities/memory/client.ts';
import { memoryHost } from './support.ts';

const at = (year: number) => Date.UTC(year, 0, 1) / 1000;
const historyOf = async (memory: Memory, key: string) =>
  (await memory.history(key)).map(({ content, valid_from, valid_until, current }) => [
    content,
    valid_from,
    valid_until,
    current,
  ]);

test('a key has one fact at a time: a new one ends the one before, and a search finds what holds', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store({ key: 'home', content: 'lives in Rome', valid_from: at(2010) });
  await memory.store({ key: 'home', content: 'lives in Paris', valid_from: at(2020) });
  assert.equal((await memory.get('home'))?.content, 'lives in Paris');
  assert.deepEqual(
    (await memory.search('lives')).entries.map(({ content }) => content),
    ['lives in Paris'],
  );
  assert.deepEqual(
    (await memory.search('lives', { asOf: at(2015) })).entries.map(({ content }) => content),
    ['lives in Rome'],
  );
  assert.equal((await memory.get('home', { asOf: at(2015) }))?.content, 'lives in Rome');
  assert.equal(await memory.get('home', { asOf: at(2005) }), undefined);
  assert.deepEqual(await historyOf(memory, 'home'), [
    ['lives in Paris', at(2020), null, true],
    ['lives in Rome', at(2010), at(2020), false],
  ]);
});

test('a fact that is learned late takes its place between the others', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store({ key: 'job', content: 'baker', valid_from: at(2010) });
  await memory.store({ key: 'job', content: 'pilot', valid_from: at(2020) });
  await memory.store({ key: 'job', content: 'nurse', valid_from: at(2015) });
  assert.equal((await memory.get('job'))?.content, 'pilot');
  assert.equal((await memory.get('job', { asOf: at(2017) }))?.content, 'nurse');
  assert.equal((await memory.get('job', { asOf: at(2012) }))?.content, 'baker');
  assert.deepEqual(
    (await historyOf(memory, 'job')).map(([content, , until]) => [content, until]),
    [
      ['pilot', null],
      ['nurse', at(2020)],
      ['baker', at(2015)],
    ],
  );
});

test('a fact with an end, and one that begins later', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  const now = Date.now() / 1000;
  await memory.store([
    { key: 'trial', content: 'trial account', valid_from: now - 100, valid_until: now - 50 },
    { key: 'price', content: 'old price', valid_from: now - 100 },
    { key: 'price', content: 'new price', valid_from: now + 3600 },
  ]);
  assert.equal(await memory.get('trial'), undefined);
  assert.equal((await memory.get('trial', { asOf: now - 75 }))?.content, 'trial account');
  assert.equal((await memory.get('price'))?.content, 'old price');
  assert.equal((await memory.get('price', { asOf: now + 4000 }))?.content, 'new price');
  assert.deepEqual(
    (await memory.search('price')).entries.map(({ content }) => content),
    ['old price'],
  );
});

test('a fact supersedes others by key; the history follows both ways', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store([
    { key: 'flat', content: 'rents a flat', valid_from: at(2018) },
    { key: 'car', content: 'has a car', valid_from: at(2018) },
    { key: 'house', content: 'owns a house', valid_from: at(2022), supersedes: ['flat'] },
  ]);
  assert.equal(await memory.get('flat'), undefined);
  assert.equal((await memory.get('car'))?.content, 'has a car');
  assert.equal((await memory.get('flat', { asOf: at(2020) }))?.content, 'rents a flat');
  for (const key of ['flat', 'house']) {
    assert.deepEqual(
      (await historyOf(memory, key)).map(([content]) => content),
      ['owns a house', 'rents a flat'],
      key,
    );
  }
  assert.deepEqual(
    (await memory.get('house'))?.supersedes,
    ['flat'].map((key) => ({ key })),
  );
});

test('the same fact again makes no new version; others are stored up to the bound', async (t) => {
  const memory = await (await memoryHost(t, { historyVersions: 3 })).memory();
  for (let n = 0; n < 3; n += 1) await memory.store({ key: 'same', content: 'unchanged' });
  assert.equal((await memory.history('same')).length, 1);
  for (let n = 0; n < 10; n += 1) await memory.store({ key: 'count', content: n });
  assert.deepEqual(
    (await memory.history('count')).map(({ content }) => content),
    [9, 8, 7, 6],
  );
  assert.equal((await memory.list({ allVersions: true })).total, 5);
  for (let n = 0; n < 3; n += 1) await memory.store({ key: 'scratch', content: n, tier: 'working' });
  assert.equal((await memory.history('scratch', 'working')).length, 1, 'the working tier has no history');
});

test('staleness: of facts that changed several times, the first result is the current one', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  const people = ['Ada', 'Bob', 'Cleo', 'Dan', 'Eva', 'Finn', 'Gia', 'Hugo', 'Ines', 'Jan'];
  const cities = ['Rome', 'Paris', 'Oslo', 'Bern', 'Riga'];
  for (const [change, city] of cities.entries()) {
    await memory.store(
      people.map((name, n) => ({
        key: { name, fact: 'city' },
        content: `${name} lives in ${cities[(n + change) % 5] ?? city}`,
        valid_from: at(2015 + change),
      })),
    );
  }
  let current = 0;
  let stale = 0;
  for (const [n, name] of people.entries()) {
    const { entries } = await memory.search(`Where does ${name} live?`);
    if (entries[0]?.content === `${name} lives in ${cities[(n + 4) % 5]}`) current += 1;
    stale += entries.filter((entry) => entry.current !== true).length;
  }
  t.diagnostic(`current-fact@1 ${current / people.length}, stale results ${stale}`);
  assert.equal(current, people.length);
  assert.equal(stale, 0);
});

test('forgetting a key deletes its whole history; an old version alone can be deleted by its tag', async (t) => {
  const memory = await (await memoryHost(t)).memory();
  await memory.store({ key: 'a', content: 'one', tags: ['draft'] });
  await memory.store({ key: 'a', content: 'two', tags: ['final'] });
  await memory.forget({ tags: ['draft'] });
  assert.deepEqual(
    (await memory.history('a')).map(({ content }) => content),
    ['two'],
  );
  await memory.store({ key: 'a', content: 'three', tags: ['other'] });
  await memory.forget({ tags: ['other'] });
  assert.deepEqual(await memory.history('a'), [], 'the version before does not come back');
});

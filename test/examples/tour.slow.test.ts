/**
 * The tour of every capability: on each transport it prints what the README shows, and with a kill of the host between any two of its
 * steps too. What it claims it also asserts itself.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { assertPrinted, expected, killed, PATIENCE_MS, shown, tour } from './tour.ts';

const STEPS = 11;

/** Runs it with a home of its own. */
function toured(home: string, transport: string, kill = 0): Promise<string[]> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const own = { HOME: home, HANDFAST_KEYRING: 'off', TRANSPORT: transport, KILL: String(kill) };
  return tour({ PATH, NODE_COMPILE_CACHE, ...own });
}

test('the README shows the tour with a kill', () => {
  assert.equal(shown.length, STEPS + 3);
  assert.equal(killed, 7);
});

for (const transport of ['unix', 'tcp', 'http', 'ws', 'stdio']) {
  test(`the tour over ${transport}`, { timeout: PATIENCE_MS }, async (t) => {
    assertPrinted(await toured(temporaryFolder(t), transport), expected());
  });
}

for (let kill = 1; kill <= STEPS + 1; kill++) {
  test(`the tour with the host killed before step ${kill}`, { timeout: PATIENCE_MS }, async (t) => {
    assertPrinted(await toured(temporaryFolder(t), kill % 2 === 0 ? 'unix' : 'http', kill), expected(kill));
  });
}

test('the tour on pipes, with another host between two steps', { timeout: PATIENCE_MS }, async (t) => {
  const printed = await toured(temporaryFolder(t), 'stdio', 8);
  assert.equal(printed[8], 'the host ended, and is up again');
  assertPrinted(printed.toSpliced(8, 1), expected());
});

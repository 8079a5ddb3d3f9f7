/**
 * The tour of every capability: on each transport it prints the lines of the README, also with a kill of the host
 * between any two of its steps. It also asserts its claims itself.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { assertPrinted, expected, killed, PATIENCE_MS, shown, tour } from './tour.ts';

const STEPS = 11;

/** Runs it with a separate home. */
function toured(home: string, transport: string, kill = 0): Promise<string[]> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const own = { HOME: home, HANDFAST_KEYRING: 'off', TRANSPORT: transport, KILL: String(kill) };
  return tour({ PATH, NODE_COMPILE_CACHE, ...own });
}

test('the README shows the tour with a kill', () => {
  assert.equal(shown.length, STEPS + 3);
  assert.equal(killed, 7);
});

const TRANSPORTS = ['unix', 'tcp', 'http', 'ws', 'stdio'] as const;

for (const transport of TRANSPORTS) {
  test(`the tour over ${transport}`, { timeout: PATIENCE_MS }, async (t) => {
    assertPrinted(await toured(temporaryFolder(t), transport), expected());
  });
}

for (let kill = 1; kill <= STEPS + 1; kill++) {
  const transport = TRANSPORTS[kill % TRANSPORTS.length] as string;
  test(`the tour over ${transport} with the host killed before step ${kill}`, { timeout: PATIENCE_MS }, async (t) => {
    const printed = await toured(temporaryFolder(t), transport, kill);
    // A host on pipes is the child of its agent, whose next connection starts another host: the session has ended with
    // the first.
    const end = transport === 'stdio' ? 'what it stored is there' : 'the session continues';
    assert.equal(printed[kill], `the host was killed, and is up again; ${end}`);
    assertPrinted(printed.with(kill, 'the host was killed, and is up again; the session continues'), expected(kill));
  });
}

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connect } from '../../src/connect.ts';
import { contractHost } from '../support/contract-host.ts';
import { PATIENCE_MS, type Peer } from '../support/peer.ts';
import { doorOf } from '../support/sites.ts';

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

/** Returns the resources that keep the process busy, counted by kind. */
function resources(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

async function until(done: () => boolean, what: () => string): Promise<void> {
  const late = performance.now() + PATIENCE_MS;
  while (!done()) {
    assert.ok(performance.now() < late, what());
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Ways for a session to end. */
const endings: ((peer: Peer) => Promise<void> | void)[] = [
  (peer) => peer.cut(),
  (peer) => peer.send({ type: 'shutdown', id: 's', timeout: 0 }),
  (peer) => (peer.carrier.end === undefined ? peer.cut() : peer.end()),
  (peer) => {
    // With work that is still running.
    peer.send({ type: 'tool/call/req', id: 'w', tool_name: 'wait', arguments: { ms: 30 } });
    peer.cut();
  },
];

describe('F-44: sessions that come and go leave nothing behind', () => {
  for (const [transport, sessions] of [
    ['memory', 2_000],
    ['tcp', 2_000],
    ['unix', 400],
    ['websocket', 400],
    ['http', 200],
  ] as const) {
    test(`${sessions} over ${transport}`, async () => {
      const host = await contractHost('open', () => {}, { limits: { resumeWindowMs: 50 } });
      const door = await doorOf(transport, host, { reattachMs: 50 });
      closing.push(
        () => host.close(0),
        () => door.close(),
      );
      const AT_ONCE = 40;
      const one = async (at: number): Promise<void> => {
        const peer = await door.dial();
        // Some may be resumed, which no client does.
        const extensions = at % 5 === 0 ? { 'handfast/resume': {} } : {};
        assert.equal((await peer.shake({ extensions })).ok, true);
        peer.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: { n: at }, timeout: 30 });
        assert.equal((await peer.answer('c')).data.data.n, at);
        await endings[at % endings.length]?.(peer);
        if (at % endings.length !== 1) return;
        await peer.closed();
      };
      // The first ones load and create the objects that are then retained.
      await Promise.all(Array.from({ length: AT_ONCE }, (_, at) => one(at)));
      const gone = (): boolean => host.health().sessions === 0;
      await until(gone, () => JSON.stringify(host.health()));
      const before = resources();
      for (let at = 0; at < sessions; at += AT_ONCE) {
        await Promise.all(Array.from({ length: AT_ONCE }, (_, offset) => one(at + offset)));
      }
      await until(gone, () => JSON.stringify(host.health()));
      const { pending_links, running, abandoned, journal_failures } = host.health();
      assert.deepEqual([pending_links, running, abandoned, journal_failures], [0, 0, 0, 0]);
      const settled = (): boolean => Object.entries(resources()).every(([kind, count]) => count <= (before[kind] ?? 0));
      await until(settled, () => `before: ${JSON.stringify(before)}, after: ${JSON.stringify(resources())}`);
    });
  }

  test('agents of ours, which reconnect and keep windows and timers', async () => {
    const host = await contractHost('open', () => {});
    const door = await doorOf('tcp', host);
    closing.push(
      () => host.close(0),
      () => door.close(),
    );
    const one = async (): Promise<void> => {
      const agent = await connect(door.address as string, { capabilities: ['tools'] });
      await agent.tools.call('echo', { n: 1 });
      await agent.close();
    };
    await one();
    await until(
      () => host.health().sessions === 0,
      () => JSON.stringify(host.health()),
    );
    const before = resources();
    for (let at = 0; at < 500; at += 20) await Promise.all(Array.from({ length: 20 }, one));
    await until(
      () => host.health().sessions === 0,
      () => JSON.stringify(host.health()),
    );
    const settled = (): boolean => Object.entries(resources()).every(([kind, count]) => count <= (before[kind] ?? 0));
    await until(settled, () => `before: ${JSON.stringify(before)}, after: ${JSON.stringify(resources())}`);
  });
});

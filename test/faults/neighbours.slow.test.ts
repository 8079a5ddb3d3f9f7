import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { dialSocket } from '../support/carriers.ts';
import { type HostChild, startHostProcess } from '../support/host-child.ts';
import type { Peer } from '../support/peer.ts';

/**
 * Longest time that others may have to wait for the host's one thread. The busy time is counted, because elapsed time
 * depends more on the machine; the goal is a quarter of it.
 */
const MAX_BUSY_MS = 1_000;
const MIB = 1024 * 1024;
const MAX_GROWTH_BYTES = 32 * MIB;

let host: HostChild;
before(async () => {
  host = await startHostProcess();
});
after(() => host.stop());

/** Returns the time for which the work keeps the host busy. */
async function busyMs(work: () => Promise<void>): Promise<number> {
  const before = (await host.report()).busyMs;
  await work();
  return (await host.report()).busyMs - before;
}

async function peer(): Promise<Peer> {
  const dialled = await dialSocket(parseTcpAddress(host.tcp));
  await dialled.shake();
  return dialled;
}

/** Returns a line with a part repeated up to just below the longest line. */
const filled = (head: string, part: string | ((at: number) => string), tail: string): string => {
  const parts: string[] = [];
  let length = head.length + tail.length;
  for (let at = 0; ; at++) {
    const one = typeof part === 'string' ? part : part(at);
    length += one.length;
    if (length > MIB) break;
    parts.push(one);
  }
  return `${head}${parts.join('')}${tail}`;
};

const call = (args: string): string => `{"type":"tool/call/req","id":"evil","tool_name":"echo","arguments":${args}}`;
const evil: Record<string, string> = {
  'many keys': filled(
    '{"type":"tool/call/req","id":"evil","tool_name":"echo","arguments":{"":0',
    (at) => `,"k${at}":0`,
    '}}',
  ),
  'many empty lists': filled(
    '{"type":"tool/call/req","id":"evil","tool_name":"echo","arguments":{"a":[0',
    ',[]',
    ']}}',
  ),
  'many small objects': filled(
    '{"type":"tool/call/req","id":"evil","tool_name":"echo","arguments":{"a":[0',
    ',{"a":{}}',
    ']}}',
  ),
  'open brackets': '['.repeat(MIB - 8),
  'brackets in a string': call(`{"text":"${'[{'.repeat(MIB / 2 - 64)}"}`),
  'quotes and backslashes': call(`{"text":"${'\\"\\\\[{'.repeat(MIB / 6 - 64)}"}`),
  'one number of a million digits': call(`{"n":${'9'.repeat(MIB - 128)}}`),
  'characters of three bytes': call(`{"text":"${'漢'.repeat(MIB / 3 - 64)}"}`),
  'equal keys': filled('{"type":"tool/call/req","id":"evil","tool_name":"echo","arguments":{"":0', ',"k":0', '}}'),
  'a long type': `{"type":"${'/'.repeat(MIB - 64)}","id":"evil"}`,
  'a long version': `{"type":"tool/list/req","id":"evil","a2e":"${'1.'.repeat(MIB / 2 - 64)}x"}`,
  'a long id': `{"type":"ping","id":"${'x'.repeat(MIB - 64)}"}`,
  'many wrong fields': filled('{"type":"tool/list/req","id":"evil","filter_tags":[0', ',0', ']}'),
  'many tags': filled('{"type":"tool/list/req","id":"evil","filter_tags":["a"', ',"a"', ']}'),
  'a query of many words': filled('{"type":"tool/list/req","id":"evil","query":"', (at) => `${at.toString(36)} `, '"}'),
  'a million blank lines': '\n'.repeat(MIB),
};

describe('F-13: one line cannot hold the neighbours up', () => {
  for (const [what, line] of Object.entries(evil)) {
    test(what, async (t) => {
      assert.ok(Buffer.byteLength(line) <= MIB);
      const [bad, neighbour] = [await peer(), await peer()];
      let worst = 0;
      for (let round = 0; round < 3; round++) {
        const took = await busyMs(async () => {
          bad.write(`${line}\n`);
          await Promise.all([neighbour.ping(`n${round}`), bad.ping(`after ${round}`)]);
        });
        worst = Math.max(worst, took);
      }
      t.diagnostic(`the host was busy for ${worst.toFixed(0)} ms at most`);
      assert.ok(worst < MAX_BUSY_MS, `the host was busy for ${worst.toFixed(0)} ms`);
      bad.cut();
      neighbour.cut();
    });
  }
});

test('F-02: a line of 64 MiB is skipped, not kept', async (t) => {
  const bad = await peer();
  const flood = async (mebibytes: number): Promise<number> => {
    const piece = Buffer.alloc(MIB, 'x');
    let peak = 0;
    for (let at = 0; at < mebibytes; at++) {
      bad.write(piece);
      // Both sides of the loopback live from the same two cores: let the other one read.
      while ((bad.carrier.pending?.() ?? 0) > 0) await turn();
      peak = Math.max(peak, host.rssBytes());
    }
    bad.write('\n');
    const told = await bad.next();
    assert.deepEqual([told.code, told.detail.reason, told.req_id], ['invalid_message', 'too_large', '']);
    await bad.ping();
    return Math.max(peak, host.rssBytes());
  };
  // The process keeps the memory that the first one makes it allocate.
  await flood(8);
  await host.report();
  const before = host.rssBytes();
  const peak = await flood(64);
  t.diagnostic(`the host grew by ${((peak - before) / MIB).toFixed(1)} MiB`);
  assert.ok(peak - before <= MAX_GROWTH_BYTES, `the host grew by ${((peak - before) / MIB).toFixed(1)} MiB`);
  assert.deepEqual(bad.rest, []);
});

test('F-10: two hundred thousand tiny writes cost time in proportion, and others little', async (t) => {
  const [drip, neighbour] = [await peer(), await peer()];
  const line = Buffer.from(`{"type":"ping","id":"${'x'.repeat(200_000)}"}\n`);
  const took = await busyMs(async () => {
    for (let at = 0; at < line.length; at += 2) {
      drip.write(line.subarray(at, at + 2));
      if (at % 20_000 === 0) await neighbour.ping();
    }
    assert.equal((await drip.next()).req_id.length, 200_000);
  });
  t.diagnostic(`the host was busy for ${took.toFixed(0)} ms`);
  assert.ok(took < MAX_BUSY_MS, `the host was busy for ${took.toFixed(0)} ms`);
});

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { dialSocket } from '../support/carriers.ts';
import { feel, floods } from '../support/floods.ts';
import { type ServerChild, startServer } from '../support/serve-child.ts';

/** The goal is 250 ms, which `bench/fairness.ts` measures; this bound only catches waits that no slow machine explains. */
const MAX_WAIT_MS = 2_500;
/** Longest duration of a flood. Without bounds on the read input, the neighbours waited for all of it. */
const FLOOD_MS = 1_500;
/** Four times the flood of the fault's row. */
const TIMES = 4;

let server: ServerChild;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** The cases with different readers; the bench runs all. */
const names = [
  'tcp: x before the handshake',
  'tcp: x',
  'tcp: {}',
  'tcp: pings',
  'tcp: requests',
  'tcp: x, session RPC',
  'tcp: x ended by returns, session RPC',
  'unix: requests',
  'websocket: x',
  'websocket: a frame for each x',
  'http: {}',
  'http: pipelined requests',
];

describe('F-99: when one client sends without end, its neighbours have their turns', () => {
  for (const name of names) {
    test(name, async (t) => {
      const flood = floods(server.token, TIMES).find((one) => one.name === name);
      assert.ok(flood !== undefined);
      const felt = await feel(server, flood, FLOOD_MS);
      t.diagnostic(`${felt.worstMs.toFixed(0)} ms at most in ${felt.pings} round trips`);
      assert.ok(felt.worstMs < MAX_WAIT_MS, `a neighbour waited ${felt.worstMs.toFixed(0)} ms`);
      // Garbage is answered a thousand times at once and then a thousand times a second, with some 250 bytes each.
      const garbage = /: (x|\{\}|a frame)/.test(name);
      if (garbage) assert.ok(felt.repliedBytes < 4_000_000, `${felt.repliedBytes} bytes in reply to garbage`);
    });
  }
});

test('F-99: a client that sent garbage has every refusal, in order, and its connection stays usable', async () => {
  const peer = await dialSocket(parseTcpAddress(server.tcp));
  await peer.shake({ auth_token: server.token });
  peer.write('x\n'.repeat(3_000));
  for (let n = 0; n < 3_000; n++) assert.equal((await peer.next()).code, 'parse_error');
  await peer.ping();
  peer.cut();
});

/**
 * Links that swallow everything without an end, on every transport: the agent's end notices within its bound, the
 * host's end does if its peer is known to reply, and calls survive by the rules of resume. A relay swallows on sockets;
 * a host process on pipes is stopped.
 *
 * Also: an HTTP host that refuses connections is lost at once.
 */
import assert from 'node:assert/strict';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { connect } from '../../src/connect.ts';
import type { StateChange } from '../../src/connection/reconnect.ts';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { parseTcpAddress, parseUnixAddress } from '../../src/transport/socket.ts';
import { within } from '../contract/recorder.ts';
import { stand } from '../control/client/stand.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { type Relay, startRelay } from '../support/relay.ts';
import { doorOf } from '../support/sites.ts';
import { echo, gated } from '../support/tools.ts';

const LIVENESS_TIMEOUT_MS = 600;
const NEVER_MS = 3_600_000;

interface Site {
  readonly host: Host;
  readonly relay: Relay;
  readonly address: string;
  readonly gate: ReturnType<typeof gated>;
}

/** Returns a host behind a relay. `hostMs`: the bound of its own end. */
async function site(t: TestContext, transport: 'tcp' | 'unix' | 'websocket' | 'http', hostMs: number): Promise<Site> {
  const gate = gated();
  const host = createHost({
    plugins: [toolsPlugin({ tools: [echo, gate.tool] })],
    journal: memoryJournal(),
    limits: { livenessTimeoutMs: hostMs },
  });
  await host.start();
  const door = await doorOf(transport, host, {}, ['127.0.0.1']);
  const address = door.address as string;
  let relay: Relay;
  let relayed: string;
  if (transport === 'unix') {
    relayed = `unix://${join(temporaryFolder(t), 'relay')}`;
    relay = await startRelay({ path: parseUnixAddress(address) }, undefined, parseUnixAddress(relayed));
  } else {
    const { hostname, port } = new URL(address);
    relay = await startRelay(transport === 'tcp' ? parseTcpAddress(address) : { host: hostname, port: Number(port) });
    relayed = address.replace(`:${port}`, `:${relay.port}`);
  }
  t.after(async () => {
    await relay.close();
    await door.close();
    await host.close();
  });
  return { host, relay, address: relayed, gate };
}

/** Returns the changes as they occur, and a wait for one. */
function watched() {
  const changes: StateChange[] = [];
  const waiting = new Set<() => void>();
  return {
    changes,
    onState: (change: StateChange): void => {
      changes.push(change);
      for (const check of [...waiting]) check();
    },
    until: (state: StateChange['state']): Promise<void> =>
      within(
        new Promise<void>((resolve) => {
          const check = (): void => {
            if (changes.at(-1)?.state === state) resolve();
          };
          waiting.add(check);
          check();
        }),
        `the state ${state}`,
        60_000,
      ),
  };
}

for (const transport of ['tcp', 'unix', 'websocket', 'http'] as const) {
  describe(`over ${transport}`, { timeout: 120_000 }, () => {
    test('the agent loses a link that swallows everything, and a call under way is answered after resuming', async (t) => {
      const { relay, address, gate } = await site(t, transport, 0);
      const { changes, onState, until } = watched();
      const reconnect = { livenessTimeoutMs: LIVENESS_TIMEOUT_MS };
      const agent = await connect(address, { capabilities: ['tools'], reconnect, onState });
      t.after(() => agent.close());
      const call = agent.tools.call('gated', { name: 'one' });
      while (gate.started.length === 0) await new Promise(setImmediate);
      relay.swallowing = true;
      await until('lost');
      const [, lost] = changes;
      assert.ok(lost?.state === 'lost' && /silent for 600 ms/.test(lost.reason.message), JSON.stringify(lost));
      gate.open('one');
      relay.swallowing = false;
      relay.cut();
      await until('resumed');
      assert.deepEqual((await within(call, 'the answer')).data, { name: 'one' });
      assert.deepEqual(gate.started, ['one'], 'the call was not run again');
    });

    test('the host loses it too, and the session waits for its agent', async (t) => {
      const { host, relay, address } = await site(t, transport, LIVENESS_TIMEOUT_MS);
      const reconnect = { livenessTimeoutMs: 0 };
      const agent = await connect(address, { capabilities: ['tools'], reconnect });
      t.after(() => agent.close());
      await agent.tools.call('echo', { n: 1 });
      relay.swallowing = true;
      const [session] = host.sessions;
      await within(
        (async () => {
          while (session?.state !== 'detached') await new Promise((resolve) => setTimeout(resolve, 20));
        })(),
        'the session to be detached',
        60_000,
      );
    });
  });
}

test('F-105: a host process on pipes that stands still is lost within the bound', { timeout: 60_000 }, async (t) => {
  const child = join(import.meta.dirname, '../support/stdio-host.ts');
  const { onState, until, changes } = watched();
  const pids = Promise.withResolvers<number>();
  const agent = await connect(
    `stdio:"${process.execPath}" -C handfast-source --import "data:text/javascript,console.error('pid '+process.pid)" "${child}" open`,
    {
      capabilities: ['tools'],
      reconnect: { livenessTimeoutMs: LIVENESS_TIMEOUT_MS },
      connectTimeoutMs: 30_000,
      onState,
      onStderr(line) {
        const pid = /^pid (\d+)$/.exec(line)?.[1];
        if (pid !== undefined) pids.resolve(Number(pid));
      },
    },
  );
  t.after(() => agent.close());
  const pid = await pids.promise;
  const call = agent.ping({ timeoutMs: NEVER_MS });
  await call;
  process.kill(pid, 'SIGSTOP');
  const waiting = agent.ping({ timeoutMs: NEVER_MS });
  const failed = assert.rejects(waiting, { code: 'connection_lost' });
  await until('closed');
  await failed;
  const end = changes.at(-1);
  assert.ok(end?.state === 'closed' && /silent for 600 ms/.test(end.error?.message ?? ''), JSON.stringify(end));
});

describe('an HTTP host that refuses connections', { timeout: 60_000 }, () => {
  for (const what of ['its event stream', 'a message'] as const) {
    test(`is lost as soon as ${what} meets the refusal`, async (t) => {
      const { relay, address } = await site(t, 'http', 0);
      const { changes, onState, until } = watched();
      // Only the refusal can end this link.
      const agent = await connect(address, { capabilities: ['tools'], reconnect: { livenessTimeoutMs: 0 }, onState });
      t.after(() => agent.close());
      await agent.tools.call('echo', { n: 1 });
      await relay.refuse();
      if (what === 'its event stream') relay.cut();
      else {
        // The event stream stays; the connections for messages are cut.
        let connection = 0;
        relay.cut(() => ++connection > 1);
        agent.tools.call('echo', { n: 2 }).catch(() => {});
      }
      await until('lost');
      const lost = changes.find((change) => change.state === 'lost');
      assert.ok(lost?.state === 'lost' && /refuses connections/.test(lost.reason.message), JSON.stringify(lost));
    });
  }
});

test('F-105: a server of sessions loses a client whose link swallows everything, and keeps one that need not answer', {
  timeout: 60_000,
}, async (t) => {
  const { server, tcp, relay } = await stand(t, { rpcLimits: { livenessTimeoutMs: LIVENESS_TIMEOUT_MS } });
  const { relay: between, address } = await relay();
  const control = await connectControl(address, { reconnect: { livenessTimeoutMs: 0, maxMs: 0 } });
  t.after(() => control.close());
  // A client of another implementation that does not announce pings, and falls silent.
  const silent = connectSocket(parseTcpAddress(tcp));
  t.after(() => silent.destroy());
  silent.write('{"jsonrpc":"2.0","id":1,"method":"system.ping"}\n');
  await within(new Promise((resolve) => silent.once('data', resolve)), 'its pong');
  assert.equal(server.rpc.size, 2);
  // Pings keep a forwarding link alive.
  await new Promise((resolve) => setTimeout(resolve, 2 * LIVENESS_TIMEOUT_MS));
  assert.equal(server.rpc.size, 2);
  between.swallowing = true;
  await within(
    (async () => {
      while (server.rpc.size > 1) await new Promise((resolve) => setTimeout(resolve, 20));
    })(),
    'the server to drop the link',
  );
  await new Promise((resolve) => setTimeout(resolve, 2 * LIVENESS_TIMEOUT_MS));
  assert.equal(server.rpc.size, 1);
});

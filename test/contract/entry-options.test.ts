/**
 * The options that mean the same for every kind of dialling program: an agent, a client of sessions, a worker that
 * joins.
 */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { join } from '../../src/bridge/join-fleet.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { connect } from '../../src/connect.ts';
import type { ReconnectSettings, StateChange } from '../../src/connection/reconnect.ts';
import type { Token } from '../../src/connection/token.ts';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { streamBus } from '../../src/fleet/bus/stream/stream-bus.ts';
import { createHost } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { stand, TOKEN } from '../control/client/stand.ts';
import { PeerRecorder } from '../fleet/support/peer-recorder.ts';
import { ScriptedWorker } from '../fleet/support/scripted-worker.ts';
import { quiet } from '../fleet/support/stream-links.ts';
import { startRelay } from '../support/relay.ts';
import { echo } from '../support/tools.ts';
import { within } from './recorder.ts';

/** The options that every entry point has. */
interface Options {
  readonly token?: Token;
  readonly signal?: AbortSignal;
  readonly onState?: (change: StateChange) => void;
  readonly reconnect?: ReconnectSettings;
}

interface Connected {
  readonly state: string;
  readonly closed: Promise<unknown>;
  close(): Promise<unknown>;
}

interface Entry {
  readonly name: string;
  /** Starts a server that demands `TOKEN`; returns its TCP address. */
  accept(t: TestContext): Promise<string>;
  dial(address: string, options: Options): Promise<Connected>;
}

const auth = () => createAuthenticator([{ principal: { name: 'ann', admin: true }, digests: [tokenDigest(TOKEN)] }]);

const entries: readonly Entry[] = [
  {
    name: 'connect of handfast',
    async accept(t) {
      const host = createHost({
        plugins: [toolsPlugin({ tools: [echo] })],
        journal: memoryJournal(),
        auth: auth(),
      });
      await host.start();
      const listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
      t.after(async () => {
        await listener.close();
        await host.close();
      });
      return listener.address;
    },
    dial: (address, options) => connect(address, { ...options, capabilities: ['tools'] }),
  },
  {
    name: 'connect of handfast/control',
    accept: async (t) => (await stand(t, { guarded: true })).tcp,
    dial: (address, options) => connectControl(address, options),
  },
  {
    name: 'join of handfast/fleet',
    async accept(t) {
      const bus = streamBus({ name: 'orchestrator', log: quiet, auth: auth() });
      await bus.start(new PeerRecorder());
      const listener = await listenTcp({ port: 0 }, (link) => bus.accept(link));
      t.after(async () => {
        await listener.close();
        await bus.close();
      });
      return listener.address;
    },
    async dial(address, options) {
      const joined = join(new ScriptedWorker(), address, options);
      await joined.accepted.catch(async (error) => {
        await joined.closed;
        throw error;
      });
      return joined;
    },
  },
];

for (const { name, accept, dial } of entries) {
  describe(name, { timeout: 120_000 }, () => {
    const reconnect = { backoff: { firstDelayMs: 10, maxDelayMs: 50 } };

    test('a token is a text, or a function that is called again for each link', async (t) => {
      const address = await accept(t);
      const once = await dial(address, { token: TOKEN });
      assert.equal(once.state, 'open');
      await once.close();

      const relay = await startRelay(parseTcpAddress(address));
      const resumed = Promise.withResolvers<void>();
      let read = 0;
      const connected = await dial(`tcp://127.0.0.1:${relay.port}`, {
        token: async () => {
          read += 1;
          return TOKEN;
        },
        reconnect,
        onState: ({ state }) => state === 'resumed' && resumed.resolve(),
      });
      t.after(async () => {
        await connected.close();
        await relay.close();
      });
      assert.equal(read, 1);
      relay.cut();
      await within(resumed.promise, 'the next link');
      assert.equal(read, 2);
    });

    test('a signal cancels connecting, also one that was aborted before, and does nothing afterwards', async (t) => {
      const address = await accept(t);
      const aborted = dial(address, { token: TOKEN, signal: AbortSignal.abort() });
      await assert.rejects(within(aborted, 'the refusal'), { code: 'cancelled' });

      const [asked, control] = [Promise.withResolvers<void>(), new AbortController()];
      const waiting = dial(address, {
        token: () => {
          asked.resolve();
          return new Promise(() => {});
        },
        signal: control.signal,
      });
      await asked.promise;
      control.abort();
      await assert.rejects(within(waiting, 'the end of connecting'), { code: 'cancelled' });

      const later = new AbortController();
      const connected = await dial(address, { token: TOKEN, signal: later.signal });
      later.abort();
      await new Promise(setImmediate);
      assert.equal(connected.state, 'open');
      await connected.close();
      assert.equal(await connected.closed, undefined);
    });
  });
}

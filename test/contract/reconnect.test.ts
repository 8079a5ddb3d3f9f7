/**
 * One reconnect for every edge: the same behaviour, over real sockets, of an agent, a client of sessions and a worker.
 * A relay between both ends cuts, refuses or swallows.
 *
 * No time is measured: delays are read from the events that announce them, and bounds only have to be respected.
 */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { connect } from '../../src/connect.ts';
import type { ReconnectSettings, StateChange } from '../../src/connection/reconnect.ts';
import { connect as connectControl } from '../../src/control-client/connect.ts';
import { joinOverLink } from '../../src/fleet/bus/stream/join.ts';
import { streamBus } from '../../src/fleet/bus/stream/stream-bus.ts';
import { createHost } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { connectTcp, listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';
import { stand } from '../control/client/stand.ts';
import { aDispatch } from '../fleet/bus-contract.ts';
import { PeerRecorder } from '../fleet/support/peer-recorder.ts';
import { ScriptedWorker } from '../fleet/support/scripted-worker.ts';
import { quiet } from '../fleet/support/stream-links.ts';
import { type Relay, startRelay } from '../support/relay.ts';
import { echo } from '../support/tools.ts';
import { within } from './recorder.ts';

/** The dialling side, on one edge. */
interface Dialling {
  readonly state: string;
  /** Makes a round trip between both ends. Rejects, or waits, while the link is lost. */
  work(): Promise<unknown>;
  close(): Promise<unknown>;
}

interface Edge {
  readonly name: string;
  /** Starts the accepting end; gives its TCP address. */
  accept(t: TestContext): Promise<string>;
  dial(address: string, reconnect: ReconnectSettings, onState: (change: StateChange) => void): Promise<Dialling>;
}

/** Time for which a link may be silent in these tests: enough for a busy machine to reply to a ping. */
const LIVENESS_TIMEOUT_MS = 600;

const agent: Edge = {
  name: 'an agent',
  async accept(t) {
    const host = createHost({ plugins: [toolsPlugin({ tools: [echo] })], journal: memoryJournal() });
    await host.start();
    const listener = await listenTcp({ port: 0 }, (link) => host.accept(link));
    t.after(async () => {
      await listener.close();
      await host.close();
    });
    return listener.address;
  },
  async dial(address, reconnect, onState) {
    const connected = await connect(address, { capabilities: ['tools'], reconnect, onState });
    return {
      get state() {
        return connected.state;
      },
      work: () => connected.tools.call('echo', { n: 1 }),
      close: () => connected.close(),
    };
  },
};

const control: Edge = {
  name: 'a client of sessions',
  accept: async (t) => (await stand(t)).tcp,
  async dial(address, reconnect, onState) {
    const connected = await connectControl(address, { reconnect, onState });
    return {
      get state() {
        return connected.state;
      },
      work: () => connected.rpc.ping(),
      close: () => connected.close(),
    };
  },
};

/** The bus of the newest `accept`, for the round trips of the worker. */
const buses = new Map<string, PeerRecorder>();

const worker: Edge = {
  name: 'a worker',
  async accept(t) {
    const events = new PeerRecorder();
    const bus = streamBus({ name: 'orchestrator', log: quiet, heartbeatS: LIVENESS_TIMEOUT_MS / 3_000 });
    await bus.start(events);
    const listener = await listenTcp({ port: 0 }, (link) => bus.accept(link));
    t.after(async () => {
      await listener.close();
      await bus.close();
    });
    buses.set('newest', events);
    return listener.address;
  },
  async dial(address, reconnect, onState) {
    const events = buses.get('newest') as PeerRecorder;
    const scripted = new ScriptedWorker();
    const joined = joinOverLink(scripted, (signal) => connectTcp(address, { signal }), {
      log: quiet,
      reconnect,
      onState,
    });
    await joined.accepted;
    let tasks = 0;
    return {
      get state() {
        return joined.state;
      },
      async work() {
        const task = `t-${++tasks}`;
        const peer = await events.peer('worker-1');
        await peer.send(aDispatch(task), { mode: 'structured' });
        await events.until(() => events.results(task).length > 0, 'the result');
      },
      close: () => joined.close(),
    };
  },
};

interface Started {
  readonly relay: Relay;
  readonly dialling: Dialling;
  readonly changes: StateChange[];
  until(condition: () => boolean, what: string): Promise<void>;
}

for (const edge of [agent, control, worker]) {
  describe(edge.name, { timeout: 120_000 }, () => {
    async function start(t: TestContext, settings: ReconnectSettings = {}): Promise<Started> {
      const relay = await startRelay(parseTcpAddress(await edge.accept(t)));
      const changes: StateChange[] = [];
      const waiting = new Set<() => void>();
      const backoff = { firstDelayMs: 20, maxDelayMs: 100, jitter: 0 };
      const reconnect = { backoff, livenessTimeoutMs: LIVENESS_TIMEOUT_MS, ...settings };
      const dialling = await edge.dial(`tcp://127.0.0.1:${relay.port}`, reconnect, (change) => {
        changes.push(change);
        for (const check of [...waiting]) check();
      });
      t.after(async () => {
        relay.swallowing = false;
        await dialling.close();
        await relay.close();
      });
      const until = (condition: () => boolean, what: string): Promise<void> =>
        within(
          new Promise<void>((resolve) => {
            const check = (): void => {
              if (condition()) resolve();
            };
            waiting.add(check);
            check();
          }),
          what,
          60_000,
        );
      await until(() => changes.length > 0, 'the first state');
      return { relay, dialling, changes, until };
    }

    /** Returns the states, consecutive equal ones as one. */
    const course = (changes: readonly StateChange[]): string[] =>
      changes.map(({ state }) => state).filter((state, at, all) => state !== all[at - 1]);
    const last = (changes: readonly StateChange[]): string | undefined => changes.at(-1)?.state;
    const losses = (changes: readonly StateChange[]) => changes.filter((change) => change.state === 'lost');

    test('a cut link is lost with its reason, and resumed', async (t) => {
      const { relay, dialling, changes, until } = await start(t);
      await dialling.work();
      assert.equal(dialling.state, 'open');
      relay.cut();
      await until(() => last(changes) === 'resumed', 'the link to be back');
      assert.equal(dialling.state, 'open');
      assert.deepEqual(course(changes), ['open', 'lost', 'resumed']);
      assert.equal(losses(changes)[0]?.reason.code, 'connection_lost');
      await dialling.work();
    });

    test('while connections are refused, every attempt is announced with a delay that doubles to its bound', async (t) => {
      const { relay, dialling, changes, until } = await start(t);
      await relay.refuse();
      relay.cut();
      await until(() => losses(changes).length >= 7, 'seven attempts');
      assert.equal(dialling.state, 'lost');
      const told = losses(changes).slice(0, 7);
      const delays = told.map(({ retryInMs }) => retryInMs).filter((delay) => delay > 0);
      assert.deepEqual(delays.slice(0, 6), [20, 40, 80, 100, 100, 100].slice(0, delays.length));
      assert.deepEqual(
        told.map(({ attempt }) => attempt - (told[0]?.attempt ?? 0)),
        [0, 1, 2, 3, 4, 5, 6],
      );
      assert.ok(told.slice(1).every(({ reason }) => reason.code === 'unreachable'));
      await relay.listen();
      await until(() => last(changes) === 'resumed', 'the link to be back');
      await dialling.work();
    });

    test('a link that swallows everything is lost, and resumed once it passes again', async (t) => {
      const { relay, dialling, changes, until } = await start(t);
      await dialling.work();
      relay.swallowing = true;
      await until(() => losses(changes).length > 0, 'the silence to be noticed');
      assert.match(String(losses(changes)[0]?.reason.message), /silent for \d+ ms/);
      relay.swallowing = false;
      relay.cut();
      await until(() => last(changes) === 'resumed', 'the link to be back');
      await dialling.work();
    });

    test('a quiet link is pinged and stays', async (t) => {
      const { relay, dialling, changes } = await start(t);
      const before = relay.connections;
      // Three times the bound.
      await new Promise((resolve) => setTimeout(resolve, 3 * LIVENESS_TIMEOUT_MS));
      await dialling.work();
      assert.deepEqual([course(changes), relay.connections], [['open'], before]);
    });

    test('when the bound is reached it is closed with the reason of the loss', async (t) => {
      const { relay, dialling, changes, until } = await start(t, { maxMs: 300 });
      await relay.refuse();
      relay.cut();
      // Five attempts fit into the bound; without one it would dial for ever.
      await until(() => last(changes) === 'closed' || losses(changes).length > 20, 'the end');
      const end = changes.at(-1);
      assert.ok(end?.state === 'closed' && end.error?.code === 'connection_lost', JSON.stringify(end));
      assert.equal(dialling.state, 'closed');
    });

    test('closing while the link is lost ends it without an error, and nothing dials again', async (t) => {
      const { relay, dialling, changes, until } = await start(t);
      await relay.refuse();
      relay.cut();
      await until(() => losses(changes).length >= 2, 'an attempt');
      await dialling.close();
      await until(() => last(changes) === 'closed', 'the end');
      assert.deepEqual(changes.at(-1), { state: 'closed' });
      const before = relay.connections;
      await relay.listen();
      await new Promise((resolve) => setTimeout(resolve, 150));
      assert.equal(relay.connections, before);
    });
  });
}

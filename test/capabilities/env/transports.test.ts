/**
 * The env capability over every transport: equal requests get equal replies; a step that is aborted, late or cut in the middle
 * is neither lost nor made twice; pushes are replayed without a gap or a duplicate.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { type Agent, connect } from '../../../src/connect.ts';
import type { Host } from '../../../src/host/host.ts';
import { parseTcpAddress, parseUnixAddress } from '../../../src/transport/socket.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { type Relay, startRelay } from '../../support/relay.ts';
import { allTransports, doorOf, type TransportName } from '../../support/sites.ts';
import { wireHost } from './wire-host.ts';

const PROGRAM = join(import.meta.dirname, 'wire-host.ts');
const asked = { capabilities: ['env'], agentId: 'one' } as const;

async function hostFor(t: TestContext, resumable = true): Promise<Host> {
  const host = await wireHost(resumable);
  t.after(() => host.close());
  return host;
}

/** Connects an agent over the transport, to a separate host unless one is given. */
async function agentOver(t: TestContext, transport: TransportName, given?: Host): Promise<Agent<'env'>> {
  const open = async (): Promise<Agent<'env'>> => {
    if (transport === 'stdio') {
      const words = [process.execPath, '-C', 'handfast-source', PROGRAM].map((word) => `'${word}'`);
      return connect(`stdio:${words.join(' ')}`, { ...asked, env: process.env as Record<string, string> });
    }
    const host = given ?? (await hostFor(t));
    if (transport === 'memory') return connect(host, asked);
    const door = await doorOf(transport, host);
    t.after(() => door.close());
    return connect(door.address ?? '', asked);
  };
  const agent = await open();
  t.after(() => agent.close());
  return agent;
}

const outcome = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'none',
    ({ code, message, retryable, detail }: HandfastError) => [code, message, retryable, detail],
  );

/** Returns the replies to a fixed series of requests; ids left out. */
async function story(agent: Agent<'env'>): Promise<unknown[]> {
  const names = (await agent.env.list()).map(({ id }) => id);
  const spaces = await agent.env.spaces('CartPole-v1');
  const pole = await agent.env.reset<number[], number>('CartPole-v1', { seed: 42, options: { low: -0.1 } });
  const steps = [await pole.step(1), await pole.step(0), await pole.observe()];
  const drawn = await agent.env.reset('Counter-v0', { seed: 1 });
  const pictures = [await pole.render('text'), await pole.render('screenshot'), await drawn.render('rgb_array')];
  const odd = await agent.env.reset<unknown[], unknown[]>('Odd-v0');
  const first = odd.observation;
  const numbers = await odd.step(['-Infinity', 'Infinity']);
  const lake = await agent.env.vector<number, number>('FrozenLake-v1', 3, { seed: 1, make: { is_slippery: false } });
  const batches = [await lake.step([1, 2, 1]), await lake.step([2, 2, 2]), await lake.step([2, 1, 2])];
  const counter = await agent.env.reset('Counter-v0', { seed: 3, make: { target: 99 } });
  for (let step = 0; step < 8; step++) await counter.step(1);
  const stored = [];
  for await (const { index, reward, next_state } of counter.transitions()) stored.push([index, reward, next_state]);
  const box = { type: 'Box', low: '-Infinity', high: 0, shape: [1], dtype: 'float64' };
  const nameless = (error: unknown) => JSON.parse(JSON.stringify(error).replaceAll(pole.id, 'ID'));
  const failures = [
    await outcome(agent.env.reset('Nonesuch-v0')),
    await outcome(agent.env.reset('CartPole-v1', { seed: -1 })),
    await outcome(agent.env.reset('CartPole-v1', { make: { length: 2 } })),
    await outcome(agent.env.reset('CartPole-v1', { options: { low: 'x' } })),
    await outcome(agent.env.reset('CartPole-v1', { autoreset: 'soon' as 'disabled' })),
    await outcome(pole.step(2)),
    await outcome(pole.render('human' as 'text')),
    await outcome(lake.step([0, 9, 0])),
  ];
  await pole.close();
  await pole.close();
  failures.push(nameless(await outcome(pole.step(1))));
  return [
    ...[names, spaces, steps, pictures, first, numbers, batches, stored, counter.latest],
    ...[await agent.env.contains(box, ['-Infinity'], [-1]), await agent.env.contains(box, ['Infinity'])],
    ...[await agent.env.contains(box, ['NaN']), await agent.env.sample(box, { seed: 4, n: 3 })],
    failures,
  ];
}

describe('the env capability', () => {
  let expected: string | undefined;

  for (const transport of allTransports) {
    test(`says the same over ${transport}`, { timeout: 120_000 }, async (t) => {
      const told = await story(await agentOver(t, transport));
      const [, spaces, , pictures, first, numbers, , stored] = told as [
        ...[unknown, { state_schema: { space: { high: unknown[] } } }, unknown, [string, { base64: string }]],
        ...[unknown, { observation: unknown; reward: unknown }, unknown, unknown[][]],
      ];
      assert.deepEqual([spaces.state_schema.space.high[1], first], ['Infinity', ['Infinity', 0.10000000149011612]]);
      assert.deepEqual([numbers.observation, numbers.reward], [['NaN', '-Infinity'], Number.NaN]);
      const png = Buffer.from(pictures[1].base64, 'base64');
      assert.deepEqual(
        [png.toString('hex', 0, 8), png.readUInt32BE(16), png.readUInt32BE(20)],
        ['89504e470d0a1a0a', 600, 400],
      );
      assert.deepEqual(
        stored.map(([index]) => index),
        [4, 5, 6, 7, 8],
        'the newest five',
      );
      const text = JSON.stringify(told);
      expected ??= text;
      assert.equal(text, expected, 'as over the transport before');
    });

    test(`ends steps that are aborted or late over ${transport}`, { timeout: 120_000 }, async (t) => {
      const agent = await agentOver(t, transport);
      // It obeys: the step did not happen, and the episode continues.
      const episode = await agent.env.reset<number, number>('Slow-v0');
      const abort = new AbortController();
      const aborted = episode.step(2, { signal: abort.signal });
      await agent.ping();
      abort.abort();
      await assert.rejects(aborted, { code: 'cancelled' });
      await assert.rejects(episode.step(2, { timeoutMs: 20 }), { code: 'timeout' });
      assert.deepEqual([(await episode.step(0)).step, (await episode.observe()).observation], [1, 1]);
      // It does not obey: the step continues without a reply, and a step that was aborted while it waited is not made.
      const deaf = await agent.env.reset<number, number>('Slow-v0');
      const [running, waiting] = [new AbortController(), new AbortController()];
      const calls = [deaf.step(3, { signal: running.signal }), deaf.step(0, { signal: waiting.signal })];
      await agent.ping();
      running.abort();
      waiting.abort();
      for (const { reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
        assert.equal(reason.code, 'cancelled');
      }
      assert.equal((await deaf.step(0)).step, 2);
    });
  }
});

/** Starts a relay in front of a host on a transport, and agents that dial it. */
async function relayed(t: TestContext, transport: 'tcp' | 'unix' | 'websocket' | 'http', host: Host) {
  const door = await doorOf(transport, host, {}, ['127.0.0.1']);
  t.after(() => door.close());
  const address = door.address ?? '';
  let relay: Relay;
  let target: string;
  if (transport === 'unix') {
    const path = `${parseUnixAddress(address)}-relay`;
    relay = await startRelay({ path: parseUnixAddress(address) }, undefined, path);
    target = `unix://${path}`;
  } else {
    const { hostname, port } = new URL(address);
    relay = await startRelay(transport === 'tcp' ? parseTcpAddress(address) : { host: hostname, port: Number(port) });
    target = address.replace(`:${port}`, `:${relay.port}`);
  }
  t.after(() => relay.close());
  const dial = async (options: { readonly agentId?: string } = {}): Promise<Agent<'env'>> => {
    const agent = await connect(target, { ...asked, ...options, reconnect: { maxMs: 60_000 } });
    t.after(() => agent.close());
    return agent;
  };
  return { relay, dial };
}

for (const transport of ['tcp', 'unix', 'websocket', 'http'] as const) {
  describe(`a link over ${transport} that is cut`, () => {
    test('in the middle of a step loses none and makes none twice', { timeout: 120_000 }, async (t) => {
      const { relay, dial } = await relayed(t, transport, await hostFor(t));
      const agent = await dial();
      const episode = await agent.env.reset<number, number>('Slow-v0');
      for (let round = 1; round <= 3; round++) {
        const step = episode.step(1);
        await agent.ping();
        relay.cut();
        assert.deepEqual([(await step).observation, (await episode.observe()).step], [round, round]);
      }
      // Many steps, cut anywhere: before the request, after it, in the reply.
      const counter = await agent.env.reset<number, number>('Counter-v0', {
        make: { target: 999, max_episode_steps: 900 },
      });
      const start = counter.observation;
      for (let step = 1; step <= 60; step++) {
        const made = counter.step(1);
        if (step % 10 === 5) setImmediate(() => relay.cut());
        assert.deepEqual([(await made).step, (await made).observation], [step, start + step]);
      }
      assert.ok(relay.cuts >= 3);
    });

    test('without a session that outlives it does not leave the step in doubt', { timeout: 120_000 }, async (t) => {
      const { relay, dial } = await relayed(t, transport, await hostFor(t, false));
      const agent = await dial();
      const episode = await agent.env.reset<number, number>('Slow-v0');
      const step = episode.step(1);
      await agent.ping();
      relay.cut();
      // There the connections are no part of the link, which is opened again.
      if (transport === 'http') return assert.equal((await step).step, 1);
      await assert.rejects(step, ({ code, detail }: HandfastError) => {
        assert.equal(detail.may_have_run, true, code);
        return true;
      });
    });

    test('replays pushes without a hole or a double', { timeout: 120_000 }, async (t) => {
      const host = await hostFor(t);
      const player = await agentOver(t, 'memory', host);
      const { relay, dial } = await relayed(t, transport, host);
      const watcher = await dial();
      const seen: number[] = [];
      const all = Promise.withResolvers<void>();
      watcher.env.onEvent(({ step_id, event_type, delta, terminal }) => {
        seen.push(step_id);
        assert.deepEqual([event_type, delta, terminal], ['Observation', { observation: step_id + 2 }, false]);
        if (step_id === 59) all.resolve();
      });
      await watcher.ping();
      const make = { target: 999, max_episode_steps: 900 };
      const episode = await player.env.reset('Counter-v0', { make, options: { start: 1 }, durability: 'step' });
      for (let step = 0; step < 60; step++) {
        // Some are lost on their way, others are made while there is no link.
        if (step % 15 === 7) relay.cut();
        await episode.step(1);
      }
      await all.promise;
      assert.deepEqual(
        seen,
        Array.from({ length: 60 }, (_, step) => step),
      );
      assert.ok(relay.cuts > 0);
    });
  });
}

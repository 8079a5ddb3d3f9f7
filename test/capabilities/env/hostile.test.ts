/** Requests of a hostile agent: more than fits into memory, names of prototypes, endless work. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { EnvironmentKind } from '../../../src/capabilities/env/environment.ts';
import { type EnvPluginOptions, envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { environmentKinds } from '../../../src/capabilities/env/registry.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import { counterKind } from './counter.ts';

async function agentOf(t: TestContext, options: EnvPluginOptions = {}) {
  const host = createHost({ plugins: [envPlugin(options)] });
  await host.start();
  t.after(() => host.close());
  const agent = await connect(host, { capabilities: ['env'] });
  t.after(() => agent.close());
  return agent;
}

test('stacks of stacks do not multiply beyond what one stack may have', async (t) => {
  const agent = await agentOf(t);
  const stack = { name: 'frame_stack', stack_size: 64 };
  for (const wrappers of [
    [stack, stack, stack, stack],
    [stack, { ...stack, stack_size: 2 }],
  ]) {
    await assert.rejects(agent.env.reset('FrozenLake-v1', { make: { wrappers } }), {
      code: 'env.invalid_options',
      message: /all stacks together have at most 64 frames/,
    });
  }
  const eight = { ...stack, stack_size: 8 };
  const episode = await agent.env.reset<unknown[][]>('FrozenLake-v1', { make: { wrappers: [eight, eight] } });
  assert.deepEqual([episode.observation.length, episode.observation[0]?.length], [8, 8]);
  await assert.rejects(agent.env.reset('FrozenLake-v1', { make: { wrappers: [{ ...stack, stack_size: 1e8 }] } }), {
    code: 'env.invalid_options',
    message: /\/wrappers\/0\/stack_size must be <= 64/,
  });
});

test('samples stop where they would not fit into a message', async (t) => {
  const agent = await agentOf(t);
  const space = { type: 'Box', low: 0, high: 1, shape: [1000] };
  await assert.rejects(agent.env.sample(space, { n: 10_000 }), { code: 'schema_violation', message: /lower n/ });
  assert.equal((await agent.env.sample(space, { n: 20 })).length, 20);
});

test('what a reset stores is bounded', async (t) => {
  const agent = await agentOf(t, { environments: [counterKind] });
  for (const wrong of [{ instance: 'x'.repeat(257) }, { options: { junk: 'x'.repeat(70_000) } }]) {
    await assert.rejects(agent.env.reset('Counter-v0', wrong), { code: 'env.invalid_options' });
  }
  const names = JSON.parse('{"__proto__":{"start":9},"constructor":{"start":9}}') as object;
  assert.ok(((await agent.env.reset('Counter-v0', { options: { ...names } })).observation as number) < 9);
  for (const make of ['{"__proto__":{"target":9}}', '{"constructor":1}']) {
    await assert.rejects(agent.env.reset('Counter-v0', { make: JSON.parse(make) }), { code: 'env.invalid_options' });
  }
  assert.equal(({} as { start?: number }).start, undefined);
});

test('checks of one principal run one after the other, and end with their request', async (t) => {
  let running = 0;
  let most = 0;
  let asked = 0;
  const first = Promise.withResolvers<void>();
  const slow: EnvironmentKind = {
    ...counterKind,
    async check(_, { signal }) {
      running += 1;
      asked += 1;
      most = Math.max(most, running);
      first.resolve();
      await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }));
      running -= 1;
      signal?.throwIfAborted();
      return { findings: [] };
    },
  };
  const agent = await agentOf(t, { environments: [slow] });
  const stop = new AbortController();
  const checks = Array.from({ length: 3 }, () => agent.env.check('Counter-v0', {}, { signal: stop.signal }));
  // None of them holds up other requests.
  assert.equal((await agent.env.reset('Counter-v0', { options: { start: 2 } })).observation, 2);
  await first.promise;
  stop.abort();
  for (const check of await Promise.allSettled(checks)) assert.equal(check.status, 'rejected');
  await agent.ping();
  assert.deepEqual([most, running], [1, 0]);
  assert.ok(asked <= 2);
});

test('an action is an element of the space, or refused by name', async (t) => {
  const agent = await agentOf(t, { environments: environmentKinds });
  const episode = await agent.env.reset('CartPole-v1', { seed: 1 });
  const hostile = ['NaN', 'Infinity', 1e308, [0], {}, '0', true, null, Array(10_000).fill(0)];
  for (const action of hostile) await assert.rejects(episode.step(action), { code: 'unknown_action' });
  for (const payload of ['{"__proto__":{"action":0}}', '{"constructor":0}', '[]']) {
    const action = { action_type: 'step', payload: JSON.parse(payload) as unknown };
    await assert.rejects(agent.request('env/step/req', { episode_id: episode.id, action }), { code: 'unknown_action' });
  }
  assert.equal((await episode.step(0)).step, 1);
});

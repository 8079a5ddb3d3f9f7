/** Environments of a real Python through the bridge: the contract, failures, timeouts, and remaining processes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { gymKinds } from '../../../src/capabilities/env/bridge/gym-environment.ts';
import { envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import { setVariable } from '../../support/variable.ts';
import { gymPython, skip } from './gym-python.ts';

const FIXTURES = join(import.meta.dirname, 'fixtures');

async function agentWith(
  t: TestContext,
  names: readonly string[],
  limits: { maxProcesses?: number; replyMs?: number } = {},
) {
  setVariable(t, 'PYTHONPATH', FIXTURES);
  const environments = names.map((name) => ({
    name,
    python: gymPython(),
    ...(name.startsWith('Odd') && { module: 'odd_environments' }),
  }));
  const kinds = gymKinds(environments, { maxProcesses: 8, replyMs: 60_000, ...limits });
  const host = createHost({ plugins: [envPlugin({ environments: kinds })] });
  await host.start();
  t.after(() => host.close());
  const agent = await connect(host, { capabilities: ['env'] });
  t.after(() => agent.close());
  return agent;
}

/** Returns the number of processes of the bridge that run below this one. */
const bridges = (): number => {
  const list = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8').trim().split(' ');
  return list.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('gym_bridge.py');
    } catch {
      return false;
    }
  }).length;
};

describe('an environment of Python', { skip }, () => {
  test('has the contract of all environments, and the generator of its seed', async (t) => {
    const agent = await agentWith(t, ['CartPole-v1']);
    assert.deepEqual(
      (await agent.env.list()).map(({ id, runs_code }) => [id, runs_code]),
      [['gym/CartPole-v1', true]],
    );
    const { action_space, state_schema } = await agent.env.spaces('gym/CartPole-v1');
    assert.deepEqual(action_space, { type: 'Discrete', n: 2, start: 0 });
    assert.deepEqual((state_schema.space as { high: unknown[] }).high[1], 'Infinity');
    const episode = await agent.env.reset<number[], number>('gym/CartPole-v1', { seed: 42 });
    // The figures are Gymnasium's own for this seed.
    assert.deepEqual(
      episode.observation,
      [0.02739560417830944, -0.006112155970185995, 0.03585979342460632, 0.019736802205443382],
    );
    assert.deepEqual(
      (await episode.step(1)).observation,
      [0.02727336250245571, 0.18847766518592834, 0.036254528909921646, -0.26141977310180664],
    );
    await assert.rejects(episode.step(2), { code: 'unknown_action' });
    assert.equal(episode.latest.step, 1);
    let steps = 0;
    for await (const _ of episode.play(() => 1)) steps += 1;
    assert.ok(steps > 3 && episode.latest.terminated);
    // A null seed continues, as in Gymnasium after the first reset of seed 42.
    const second = await agent.env.reset<number[]>('gym/CartPole-v1');
    const again = await agent.env.reset<number[]>('gym/CartPole-v1', { seed: 42, instance: 'again' });
    await again.close();
    assert.deepEqual((await agent.env.reset('gym/CartPole-v1', { instance: 'again' })).observation, second.observation);
    await agent.close();
    for (let tries = 0; bridges() > 0 && tries < 500; tries++) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(bridges(), 0);
  });

  test('that raises, prints, or hangs ends with a reason, and the host continues', async (t) => {
    const agent = await agentWith(t, ['OddRaises-v0', 'OddPrints-v0', 'OddHangs-v0', 'OddExits-v0', 'Nonesuch-v0'], {
      replyMs: 4000,
    });
    const raises = await agent.env.reset('gym/OddRaises-v0');
    await assert.rejects(raises.step(0), { code: 'runtime_error', message: /RuntimeError: the wheel came off/ });
    const prints = await agent.env.reset('gym/OddPrints-v0');
    assert.equal((await prints.step(1)).observation, 1);
    const hangs = await agent.env.reset('gym/OddHangs-v0');
    await assert.rejects(
      hangs.step(0),
      (error: { detail: { reason: string } }) => error.detail.reason === 'environment_timeout',
    );
    await assert.rejects(hangs.step(0), { code: 'runtime_error' });
    const exits = await agent.env.reset('gym/OddExits-v0');
    await assert.rejects(exits.step(0), { code: 'runtime_error', message: /exited with code 3/ });
    await assert.rejects(agent.env.reset('gym/Nonesuch-v0'), { code: 'runtime_error', message: /Nonesuch/ });
    assert.equal((await prints.step(1)).observation, 2);
  });

  test('has as many processes as allowed', async (t) => {
    const agent = await agentWith(t, ['OddPrints-v0'], { maxProcesses: 2 });
    const first = await agent.env.reset('gym/OddPrints-v0', { instance: 'a' });
    await agent.env.reset('gym/OddPrints-v0', { instance: 'b' });
    await assert.rejects(agent.env.reset('gym/OddPrints-v0', { instance: 'c' }), { code: 'reset_denied' });
    assert.equal(bridges(), 2);
    assert.equal((await first.step(0)).step, 1);
  });

  test('says what to do where the Python or gymnasium is missing', async (t) => {
    const kinds = gymKinds([{ name: 'CartPole-v1', python: '/nonexistent/python' }], {
      maxProcesses: 2,
      replyMs: 5000,
    });
    const host = createHost({ plugins: [envPlugin({ environments: kinds })] });
    await host.start();
    t.after(() => host.close());
    const agent = await connect(host, { capabilities: ['env'] });
    t.after(() => agent.close());
    await assert.rejects(agent.env.reset('gym/CartPole-v1'), {
      code: 'runtime_error',
      message: /name the Python that has gymnasium/,
    });
  });
});

test('a request opens no window on the host, unless its configuration lets the environment', async (t) => {
  const python = '/nonexistent/python';
  const environments = [
    { name: 'CartPole-v1', python },
    { name: 'CartPole-v1', id: 'shown', make: { render_mode: 'human' }, python },
  ];
  const kinds = gymKinds(environments, { maxProcesses: 2, replyMs: 5000 });
  const host = createHost({ plugins: [envPlugin({ environments: kinds })] });
  await host.start();
  t.after(() => host.close());
  const agent = await connect(host, { capabilities: ['env'] });
  t.after(() => agent.close());
  const make = { render_mode: 'human' };
  const refused = {
    code: 'env.invalid_options',
    detail: { path: '/render_mode', row: 'schema_violation' },
    message:
      'render_mode "human" would open a window on the machine of the host; use "rgb_array" or "ansi", or let its configuration make gym/CartPole-v1 with render_mode: human',
  };
  await assert.rejects(agent.env.reset('gym/CartPole-v1', { make }), refused);
  await assert.rejects(agent.env.spaces('gym/CartPole-v1', { make }), refused);
  await assert.rejects(agent.env.check('gym/CartPole-v1', { make }), refused);
  // These are allowed, and fail at the start of Python.
  const started = { code: 'runtime_error', message: /name the Python that has gymnasium/ };
  await assert.rejects(agent.env.reset('gym/CartPole-v1', { make: { render_mode: 'ansi' } }), started);
  await assert.rejects(agent.env.reset('shown', { make }), started);
});

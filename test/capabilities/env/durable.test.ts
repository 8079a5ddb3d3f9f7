/** The data of an episode that outlives its session and its host, by mode; hosts are killed in the middle of steps. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, type TestContext, test } from 'node:test';
import type { Environment, EnvironmentKind } from '../../../src/capabilities/env/environment.ts';
import { type EnvPluginOptions, envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { User } from '../../cli/command.ts';
import { ownPort } from '../../support/own-port.ts';
import { counterKind } from './counter.ts';

interface Stored {
  readonly file: string;
  host(options?: EnvPluginOptions): Promise<{
    agent: Awaited<ReturnType<typeof agentOf>>;
    other: Awaited<ReturnType<typeof agentOf>>;
    stop(): Promise<void>;
  }>;
}

const agentOf = (host: ReturnType<typeof createHost>, name: string, agentId = 'player') =>
  connect(host, { capabilities: ['env'], agentId, token: `token of ${name}` });

/** Starts hosts one after the other on one file. */
function stored(t: TestContext): Stored {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-env-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'state.sqlite');
  const auth = () =>
    createAuthenticator(
      ['ada', 'bob'].map((name) => ({
        principal: { name, capabilities: ['env'] },
        digests: [tokenDigest(`token of ${name}`)],
      })),
    );
  return {
    file,
    async host(options = {}) {
      const host = createHost({
        plugins: [envPlugin({ environments: [counterKind], durability: 'none', ...options })],
        auth: auth(),
        stateFile: file,
      });
      await host.start();
      t.after(() => host.close());
      const [agent, other] = [await agentOf(host, 'ada'), await agentOf(host, 'bob')];
      return {
        agent,
        other,
        async stop() {
          await Promise.all([agent.close(), other.close()]);
          await host.close();
        },
      };
    },
  };
}

const late = { make: { late: true, target: 99 } };

describe('an episode', () => {
  for (const make of [{ target: 99 }, { late: true, target: 99 }]) {
    test(`of durability step continues after a restart ${'late' in make ? 'with' : 'without'} promises, for its agent alone`, async (t) => {
      const files = stored(t);
      const first = await files.host({ durability: 'step' });
      await first.agent.env.reset('Counter-v0', { make, seed: 5 });
      // A null seed continues the generator: the replay must restore its former state.
      const episode = await first.agent.env.reset<number, number>('Counter-v0', { make, options: { start: 3 } });
      for (const action of [1, 1, 0, 1]) await episode.step(action);
      const { id, latest } = episode;
      await first.stop();
      const next = await files.host();
      await assert.rejects(next.other.env.episode(id), { code: 'runtime_error', message: /^no episode/ });
      const again = await next.agent.env.episode<number, number>(id);
      assert.deepEqual(again.latest, latest);
      assert.equal((await again.step(1)).observation, (latest.observation as number) + 1);
      assert.deepEqual(
        (await Array.fromAsync(again.transitions())).map(({ action }) => action),
        [1, 1, 0, 1, 1],
      );
      assert.equal((await next.agent.env.experience()).length, 2, 'both episodes are listed');
      await again.close();
      await assert.rejects(again.observe(), { code: 'runtime_error' });
      await next.stop();
      const last = await files.host();
      await assert.rejects(last.agent.env.episode(id), { code: 'runtime_error' });
    });
  }

  test('whose replay leads elsewhere says at which step', async (t) => {
    const files = stored(t);
    const first = await files.host({ durability: 'step' });
    const episode = await first.agent.env.reset<number, number>('Counter-v0', { ...late, options: { start: 3 } });
    for (const action of [1, 1, 1]) await episode.step(action);
    await first.stop();
    const changed: EnvironmentKind = {
      ...counterKind,
      async make(options) {
        const inner = (await counterKind.make(options)) as Environment<number, number>;
        let steps = 0;
        return {
          ...inner,
          async step(action: number) {
            steps += 1;
            return inner.step(steps === 2 ? 0 : action);
          },
        } as Environment;
      },
    };
    const next = await files.host({ environments: [changed] });
    await assert.rejects(
      next.agent.env.episode(episode.id),
      (error: { code: string; message: string; detail: { step: number } }) => {
        assert.equal(error.code, 'runtime_error');
        assert.match(error.message, /diverges at step 2: the observation was .*5.*, now .*3/);
        return error.detail.step === 2;
      },
    );
  });

  test('of durability episode is stored when it has ended; one that ran is reported as interrupted', async (t) => {
    const files = stored(t);
    const first = await files.host({ durability: 'episode' });
    const play = async (actions: readonly number[]) => {
      const episode = await first.agent.env.reset<number, number>('Counter-v0', { options: { start: 1 } });
      for (const action of actions) await episode.step(action);
      return episode;
    };
    const [ended, running] = [await play([0, 1, 1, 1]), await play([1])];
    await first.stop();
    const next = await files.host();
    const again = await next.agent.env.episode<number, number>(ended.id);
    assert.deepEqual(again.latest, ended.latest);
    assert.deepEqual(
      (await Array.fromAsync(again.transitions())).map(({ action }) => action),
      [0, 1, 1, 1],
    );
    await assert.rejects(again.step(1), { code: 'runtime_error', message: /has ended/ });
    await assert.rejects(
      next.agent.env.episode(running.id),
      (error: { detail: { reason: string } }) => error.detail.reason === 'episode_interrupted',
    );
  });

  test('of durability none leaves nothing, also where the host stores episodes', async (t) => {
    const files = stored(t);
    const first = await files.host();
    const episode = await first.agent.env.reset<number, number>('Counter-v0');
    await first.stop();
    const next = await files.host();
    await assert.rejects(next.agent.env.episode(episode.id), { code: 'runtime_error' });
    const rows = new DatabaseSync(files.file, { readOnly: true }).prepare('SELECT count(*) AS n FROM entry').get();
    assert.equal((rows as { n: number }).n, 0);
  });

  for (const autoreset of ['next_step', 'same_step'] as const) {
    test(`of durability step with autoreset ${autoreset} continues in the middle, in batches too`, async (t) => {
      const files = stored(t);
      const actions = [1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0];
      const options = { make: { late: true }, seed: 3, autoreset };
      const first = await files.host({ durability: 'step' });
      const never = await first.agent.env.reset<number, number>('Counter-v0', { ...options, durability: 'none' });
      const expected: unknown[] = [];
      for (const action of actions) expected.push(await never.step(action));
      await never.close();
      const vector = await first.agent.env.vector<number, number>('Counter-v0', 2, options);
      const [left, right] = vector.episodes;
      assert.ok(left && right);
      const got: unknown[] = [];
      let beside: unknown;
      for (const action of actions.slice(0, 7)) {
        const [one, other] = await vector.step([action, 1]);
        got.push(one);
        beside = other;
      }
      await first.stop();
      const next = await files.host();
      const again = await next.agent.env.episode<number, number>(left.id);
      assert.deepEqual(again.latest, got.at(-1));
      assert.deepEqual((await next.agent.env.episode(right.id)).latest, beside);
      for (const action of actions.slice(7)) got.push(await again.step(action));
      assert.deepEqual(got, expected);
      assert.ok(got.some((step) => (step as { done: boolean }).done));
      assert.deepEqual(
        (await Array.fromAsync(again.transitions())).map(({ index }) => index),
        (await Array.fromAsync(again.transitions())).map((_, at) => at + 1),
      );
    });
  }

  test('of durability episode with autoreset stores each that has ended, and nothing follows it after a restart', async (t) => {
    const files = stored(t);
    const first = await files.host({ durability: 'episode' });
    const episode = await first.agent.env.reset<number, number>('Counter-v0', {
      options: { start: 1 },
      autoreset: 'next_step',
    });
    // Two episodes of two steps each, resets between and after them, and a step of the third.
    for (let step = 0; step < 7; step++) await episode.step(1);
    await first.stop();
    const next = await files.host();
    const again = await next.agent.env.episode<number, number>(episode.id);
    assert.deepEqual(
      (await Array.fromAsync(again.transitions())).map(({ index, step }) => [index, step]),
      [
        [1, 1],
        [2, 2],
        [3, 1],
        [4, 2],
      ],
    );
    await assert.rejects(again.step(1), { code: 'runtime_error', message: /has ended/ });
  });

  test('that is durable has a known mode, and a bounded number of neighbours', async (t) => {
    const files = stored(t);
    const { agent } = await files.host({ durability: 'step', maxStoredEpisodes: 2 });
    await assert.rejects(agent.env.reset('Counter-v0', { durability: 'always' as never }), {
      code: 'env.invalid_options',
    });
    const start = () => agent.env.reset<number, number>('Counter-v0', { options: { start: 2 } });
    const [first] = [await start(), await start()];
    await assert.rejects(start(), { code: 'reset_denied' });
    await first.step(1);
    await start();
    await assert.rejects(agent.env.episode(first.id), { code: 'runtime_error' });
  });

  test('that another session of the agent steps is pushed', async (t) => {
    const host = createHost({ plugins: [envPlugin({ environments: [counterKind], durability: 'step' })] });
    await host.start();
    t.after(() => host.close());
    const [one, two, stranger] = await Promise.all(
      ['player', 'player', 'stranger'].map((agentId) => connect(host, { capabilities: ['env'], agentId })),
    );
    t.after(() => Promise.all([one?.close(), two?.close(), stranger?.close()]));
    const heard: unknown[] = [];
    two?.env.onEvent((event) => heard.push(event));
    stranger?.env.onEvent(() => assert.fail('the episode of another agent'));
    const episode = await one!.env.reset<number, number>('Counter-v0', { options: { start: 1 } });
    await episode.step(1);
    await (await two!.env.episode<number, number>(episode.id)).observe();
    await stranger?.ping();
    const { step_id, event_type, delta, reward, terminal } = heard[0] as Record<string, unknown>;
    assert.deepEqual(
      { step_id, event_type, delta, reward, terminal },
      { step_id: 0, event_type: 'Observation', delta: { observation: 2 }, reward: 1, terminal: false },
    );
    assert.equal(heard.length, 1);
  });
});

test('every acknowledged step survives kill -9 of the host, and the episode ends as one that was never interrupted', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const port = await ownPort();
  const address = `tcp://127.0.0.1:${port}`;
  user.write('handfast.yaml', `listen: ['${address}']\nplugins: [{ use: env, options: { durability: step } }]\n`);
  const up = async () => {
    const command = user.start(['up', '--config', 'handfast.yaml', '--json']);
    await command.says('\n');
    const { token_file } = JSON.parse(command.stdout) as { token_file: string };
    const agent = await connect(address, {
      capabilities: ['env'],
      agentId: 'player',
      resume: false,
      token: readFileSync(token_file, 'utf8').trim(),
    });
    return { command, agent };
  };
  let { command, agent } = await up();
  const reset = { seed: 20, options: {} };
  const { id } = await agent.env.reset('FrozenLake-v1', reset);
  const actions = Array.from({ length: 60 }, (_, at) => (at * 7) % 4);
  let acknowledged = 0;
  for (let kills = 0; kills < 4; kills++) {
    const episode = await agent.env.episode<number, number>(id);
    assert.ok(episode.latest.step >= acknowledged, `${episode.latest.step} of ${acknowledged} steps`);
    acknowledged = episode.latest.step;
    if (episode.done) break;
    const steps = (async () => {
      while (!episode.done) acknowledged = (await episode.step(actions[episode.latest.step] as number)).step;
    })();
    await new Promise((resolve) => setTimeout(resolve, 3 + kills * 4));
    command.child.kill('SIGKILL');
    await steps.catch(() => {});
    await agent.close();
    ({ command, agent } = await up());
  }
  const episode = await agent.env.episode<number, number>(id);
  while (!episode.done) await episode.step(actions[episode.latest.step] as number);
  const whole = await agent.env.reset<number, number>('FrozenLake-v1', { ...reset, durability: 'none' });
  while (!whole.done) await whole.step(actions[whole.latest.step] as number);
  assert.deepEqual(episode.latest, whole.latest);
  await agent.close();
});

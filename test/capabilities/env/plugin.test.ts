/** The env capability on the wire: the effect of each message, the owners of episodes, and refusals. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import * as checks from '../../../src/capabilities/env/env.generated.ts';
import * as replyChecks from '../../../src/capabilities/env/env.replies.generated.ts';
import { type EnvPluginOptions, envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';
import type { Check } from '../../../src/wire/check.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { type Message, rawAgent } from '../../support/raw-agent.ts';
import { counterKind, open, programKind } from './counter.ts';

async function hostOf(
  t: TestContext,
  options: EnvPluginOptions = {},
  principals: readonly Principal[] = [],
): Promise<Host> {
  const auth = createAuthenticator(
    principals.map((principal) => ({ principal, digests: [tokenDigest(`token of ${principal.name}`)] })),
  );
  const plugins = [envPlugin({ environments: [counterKind, programKind], ...options })];
  const host = createHost({ plugins, ...(principals.length > 0 && { auth }) });
  await host.start();
  t.after(() => host.close());
  return host;
}

const agentOf = async (t: TestContext, host: Host, name?: string) => {
  const agent = await connect(host, {
    capabilities: ['env'],
    ...(name !== undefined && { token: `token of ${name}` }),
  });
  t.after(() => agent.close());
  return agent;
};

const up = { action_type: 'step', payload: { action: 1 } };

/** Opens a raw session: requests by type, with the whole reply. */
async function rawSession(host: Host) {
  const raw = rawAgent(host);
  await raw.shake({ agent_caps: ['env'] });
  let count = 0;
  return async (type: string, body: Message): Promise<Message> => {
    const id = `r${count++}`;
    raw.send({ type, id, ...body });
    return raw.answer(id);
  };
}

describe('an episode', () => {
  test('starts, steps, is observed, ends and is closed, twice', async (t) => {
    const host = await hostOf(t);
    const ask = await rawSession(host);
    const reset = await ask('env/reset/req', { env_name: 'Counter-v0', seed: 7, options: { start: 1 } });
    assert.equal(reset.type, 'env/reset/resp');
    const { episode_id, created_at, metadata, ...first } = reset.obs as Message;
    assert.match(episode_id as string, /^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    assert.equal(typeof created_at, 'number');
    assert.deepEqual(first, { step_num: 0, state: { observation: 1 }, done: false, truncated: false, reward: 0 });
    assert.deepEqual(metadata, { terminated: false, truncated: false, info: { drawn: 7 } });
    const step = await ask('env/step/req', { episode_id, action: up });
    assert.deepEqual((step.obs as Message).state, { observation: 2 });
    assert.equal((step.obs as Message).reward, 1);
    assert.equal((step.obs as Message).step_num, 1);
    const seen = await ask('env/observe/req', { episode_id });
    assert.equal(seen.type, 'env/observe/resp');
    assert.deepEqual(seen.obs, step.obs);
    const last = await ask('env/step/req', { episode_id, action: { action_type: 'step', payload: { value: 1 } } });
    assert.equal((last.obs as Message).done, true);
    assert.equal((last.obs as Message).truncated, false);
    assert.deepEqual(((last.obs as Message).metadata as Message).terminated, true);
    const refused = await ask('env/step/req', { episode_id, action: up });
    assert.equal(refused.code, 'runtime_error');
    assert.equal((refused.detail as Message).reason, 'finished_episode');
    for (const _ of [1, 2]) {
      const closed = await ask('env/close/req', { episode_id });
      assert.deepEqual([closed.type, closed.closed], ['env/close/resp', true]);
    }
    assert.equal((await ask('env/observe/req', { episode_id })).code, 'runtime_error');
  });

  test('is cut off by the time limit, and says so exactly', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const episode = await agent.env.reset<number, number>('Counter-v0', { options: { start: 0 } });
    let steps = 0;
    for await (const { done } of episode.play(() => 0)) {
      steps += 1;
      assert.equal(done, steps === 20);
    }
    assert.deepEqual([steps, episode.latest.truncated, episode.latest.terminated], [20, true, false]);
  });

  test('does not count a step that is refused, nor move the generator', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const left = await agent.env.reset<number, number>('Counter-v0', { seed: 3, options: { start: 0 } });
    const right = await agent.env.reset<number, number>('Counter-v0', { seed: 3, options: { start: 0 } });
    for (const action of [2, -1, 0.5, '1', null, [], {}]) {
      await assert.rejects(right.step(action as number), { code: 'unknown_action' });
    }
    await assert.rejects(agent.request('env/step/req', { episode_id: right.id, action: { action_type: 'up' } }), {
      code: 'unknown_action',
      message: /no payload\.action/,
    });
    await assert.rejects(agent.request('env/step/req', { episode_id: right.id, action: 'up' }), {
      code: 'schema_violation',
    });
    assert.deepEqual((await left.step(1)).info, (await right.step(1)).info);
    assert.equal(right.latest.step, 1);
  });

  test('with a null seed continues the generator of its environment, arguments and instance', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const drawn = async (options: object): Promise<unknown> => {
      const episode = await agent.env.reset('Counter-v0', options);
      return episode.latest.info.drawn;
    };
    const first = await drawn({ seed: 11 });
    const [second, third] = [await drawn({}), await drawn({})];
    assert.equal(new Set([first, second, third]).size, 3);
    // Repeated with episodes closed in between, and with another instance and other arguments beside it.
    assert.equal(await drawn({ seed: 11 }), first);
    await drawn({ seed: 1, instance: 'other' });
    await drawn({ seed: 2, make: { target: 5 } });
    assert.equal(await drawn({}), second);
    const running = await agent.env.reset('Counter-v0', {});
    assert.equal(running.latest.info.drawn, third);
    await running.step(1);
    const moved = running.latest.info.draw;
    await running.close();
    assert.notEqual(await drawn({}), moved);
  });

  test('of another session is unknown, and ends with its session', async (t) => {
    const host = await hostOf(t);
    const [mine, other] = [await agentOf(t, host), await agentOf(t, host)];
    const before = open.size;
    const episode = await mine.env.reset('Counter-v0');
    for (const type of ['env/step/req', 'env/observe/req', 'env/render/req', 'env/plan/req', 'env/exp/list/req']) {
      const unknown = { code: 'runtime_error', message: /^no episode/ };
      await assert.rejects(other.request(type, { episode_id: episode.id, action: up }), unknown);
      await assert.rejects(other.request(type, { episode_id: 'no such episode', action: up }), unknown);
    }
    // Closing an episode of another agent and a missing one gets one reply, and ends neither.
    await other.request('env/close/req', { episode_id: episode.id });
    await episode.step(1);
    assert.equal(open.size, before + 1);
    await mine.close();
    await other.request('env/list/req');
    assert.equal(open.size, before);
  });

  test('that fails inside ends with a reason; the session continues', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const episode = await agent.env.reset('Counter-v0', { make: { breaksAt: 2 } });
    await episode.step(0);
    for (const _ of [1, 2]) {
      await assert.rejects(episode.step(0), { code: 'runtime_error', message: 'Counter-v0 failed: the counter broke' });
    }
    assert.equal((await agent.env.reset('Counter-v0')).done, false);
  });

  test('keeps the order of steps that are sent without waiting, also where results come late', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    for (const late of [false, true]) {
      const episode = await agent.env.reset<number, number>('Counter-v0', {
        make: { late, target: 99 },
        options: { start: 5 },
      });
      const steps = await Promise.all([1, 1, 0, 1, 0, 0].map((action) => episode.step(action)));
      assert.deepEqual(
        steps.map(({ observation }) => observation),
        [6, 7, 6, 7, 6, 5],
      );
      assert.deepEqual(
        steps.map(({ step }) => step),
        [1, 2, 3, 4, 5, 6],
      );
    }
  });
});

describe('the env capability', () => {
  test('describes spaces under both spellings of the request', async (t) => {
    const ask = await rawSession(await hostOf(t));
    for (const spelling of ['space', 'spaces']) {
      const reply = await ask(`env/${spelling}/req`, { env_name: 'Counter-v0' });
      assert.equal(reply.type, `env/${spelling}/resp`);
      assert.deepEqual(reply.action_space, { type: 'Discrete', n: 2, start: 0 });
      const schema = reply.state_schema as Message;
      assert.deepEqual(schema.space, { type: 'Discrete', n: 1000, start: 0 });
      assert.deepEqual((schema.json_schema as Message).required, ['observation']);
    }
    const unknown = await ask('env/space/req', { env_name: 'Conter-v0' });
    assert.match(unknown.message as string, /did you mean "Counter-v0"\?/);
    assert.equal((await ask('env/reset/req', { env_name: 'nonesuch' })).code, 'runtime_error');
  });

  test('draws: a text, pixels, a PNG', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const episode = await agent.env.reset('Counter-v0', { options: { start: 2 } });
    assert.equal(await episode.render('text'), 'count 2');
    assert.equal(await episode.render('ansi'), 'count 2');
    assert.deepEqual(await episode.render('rgb_array'), [
      [
        [255, 0, 0],
        [0, 0, 255],
      ],
    ]);
    const { mime, base64 } = (await episode.render()) as { mime: string; base64: string };
    assert.equal(mime, 'image/png');
    assert.equal(Buffer.from(base64, 'base64').subarray(1, 4).toString(), 'PNG');
    await assert.rejects(agent.request('env/render/req', { episode_id: episode.id, mode: 'smell' }), {
      code: 'schema_violation',
      message: /it knows text, ansi, rgb_array, screenshot, png/,
    });
  });

  test('suggests actions, also where the request has the type of its reply', async (t) => {
    const ask = await rawSession(await hostOf(t));
    const reset = await ask('env/reset/req', { env_name: 'Counter-v0' });
    const { episode_id } = reset.obs as Message;
    const suggested = [{ action_type: 'step', payload: { action: 1 }, metadata: { label: 'count up' } }];
    for (const type of ['env/plan/req', 'env/plan/resp']) {
      const reply = await ask(type, { episode_id, state: null });
      assert.equal(reply.type, 'env/plan/resp');
      assert.deepEqual(reply.suggested_actions, suggested);
    }
    assert.deepEqual((await ask('env/plan/resp', { episode_id: null })).suggested_actions, []);
    assert.equal((await ask('env/plan/resp', { episode_id: 7 })).code, 'schema_violation');
  });

  test('steps several episodes; what is refused is an error in its place', async (t) => {
    const ask = await rawSession(await hostOf(t));
    const start = async () =>
      ((await ask('env/reset/req', { env_name: 'Counter-v0', options: { start: 2 } })).obs as Message).episode_id;
    const [a, b] = [await start(), await start()];
    const reply = await ask('env/batch_step/req', {
      episode_ids: [a, 'none', b, a, b],
      actions: [up, up, { payload: {} }, up, up],
    });
    assert.equal(reply.type, 'env/batch_step/resp');
    const results = reply.results as Message[];
    assert.deepEqual(
      results.map(({ error }) => (error as Message | undefined)?.code),
      [undefined, 'runtime_error', 'unknown_action', 'runtime_error', undefined],
    );
    // Clients of A2E 1.0 read every element as an env/step/resp with an observation.
    for (const result of results) {
      assert.ok(replyChecks.EnvStepResp(result), JSON.stringify(result));
      assert.equal(result.req_id, reply.req_id);
    }
    const observations = results.map(({ obs }) => obs as Message);
    assert.deepEqual(
      observations.map(({ episode_id }) => episode_id),
      [a, 'none', b, a, b],
    );
    // A refused step changes nothing: the observation is the one before it, without its reward.
    assert.deepEqual(
      observations.map(({ step_num, reward, done }) => [step_num, reward, done]),
      [
        [1, observations[0]?.reward, true],
        [0, 0, true],
        [0, 0, false],
        [1, 0, true],
        [1, observations[4]?.reward, true],
      ],
    );
    assert.deepEqual(observations[3]?.state, observations[0]?.state);
    assert.equal((await ask('env/batch_step/req', { episode_ids: [a], actions: [] })).code, 'schema_violation');
    assert.deepEqual((await ask('env/batch_step/req', { episode_ids: [], actions: [] })).results, []);
  });

  test('starts the next episode by itself in the modes of Gymnasium', async (t) => {
    for (const late of [false, true]) {
      const agent = await agentOf(t, await hostOf(t));
      const make = { late };
      const next = await agent.env.vector<number, number>('Counter-v0', 2, { seed: 1, options: { start: 2 }, make });
      const [ended] = await next.step([1, 0]);
      assert.deepEqual([ended?.observation, ended?.done, ended?.final], [3, true, undefined]);
      const [started, continued] = await next.step([1, 0]);
      assert.deepEqual([started?.observation, started?.reward, started?.done, started?.step], [2, 0, false, 0]);
      assert.deepEqual([continued?.observation, continued?.step], [0, 2]);

      const same = await agent.env.vector<number, number>('Counter-v0', 1, {
        autoreset: 'same_step',
        options: { start: 2 },
        make,
      });
      const [turned] = await same.step([1]);
      assert.deepEqual([turned?.observation, turned?.reward, turned?.done, turned?.step], [2, 1.5, true, 0]);
      assert.equal(turned?.final?.observation, 3);
      assert.equal(typeof turned?.final?.info.draw, 'number');
      assert.deepEqual(
        (await same.step([0])).map(({ observation, step }) => [observation, step]),
        [[1, 1]],
      );

      const disabled = await agent.env.vector<number, number>('Counter-v0', 2, {
        autoreset: 'disabled',
        options: { start: 2 },
        make,
      });
      await disabled.step([1, 0]);
      const outcomes = await disabled.stepEach([1, 0]);
      assert.equal((outcomes[0] as { code?: string }).code, 'runtime_error');
      await assert.rejects(disabled.step([1, 0]), (error: { detail: Message }) => error.detail.at === 0);
    }
  });

  test('lists the newest transitions, and all of an episode a page at a time', async (t) => {
    const agent = await agentOf(t, await hostOf(t, { storedSteps: 8 }));
    const episode = await agent.env.reset<number, number>('Counter-v0', {
      options: { start: 1 },
      make: { target: 99 },
    });
    for (let at = 0; at < 10; at++) await episode.step(at % 2);
    const [stored] = await agent.env.experience(3);
    assert.deepEqual(
      stored?.transitions.map(({ index }) => index),
      [8, 9, 10],
    );
    assert.deepEqual(stored?.transitions.at(-1), {
      index: 10,
      step: 10,
      state: { observation: 0 },
      action: 1,
      reward: 0.5,
      next_state: { observation: 1 },
      done: false,
      terminated: false,
      truncated: false,
      info: stored?.transitions.at(-1)?.info,
    });
    const all = await Array.fromAsync(episode.transitions());
    assert.deepEqual(
      all.map(({ index }) => index),
      [3, 4, 5, 6, 7, 8, 9, 10],
      'the oldest two were dropped',
    );
    assert.deepEqual((await agent.env.experience(0))[0]?.transitions, []);
  });

  test('checks and draws elements of spaces', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    const space = { environment: 'Counter-v0', of: 'action' } as const;
    assert.equal(await agent.env.contains(space, 0, 1), true);
    assert.equal(await agent.env.contains(space, 0, 2), false);
    const samples = await agent.env.sample(space, { seed: 4, n: 20 });
    assert.deepEqual(samples, await agent.env.sample(space, { seed: 4, n: 20 }));
    assert.equal(await agent.env.contains(space, ...samples), true);
    await assert.rejects(agent.env.sample(space, { n: 10_001 }), { code: 'schema_violation' });
    const ask = await rawSession(await hostOf(t));
    const { code, detail } = await ask('env/contains/req', { space: 'action', env_name: 'Counter-v0' });
    assert.deepEqual([code, (detail as Message).path], ['schema_violation', '/value']);
  });

  test('refuses seeds, options and names that do not fit', async (t) => {
    const agent = await agentOf(t, await hostOf(t));
    for (const seed of [-1, 0.5, 2 ** 53, '1']) {
      await assert.rejects(agent.env.reset('Counter-v0', { seed: seed as number }), { code: 'schema_violation' });
    }
    await assert.rejects(agent.env.reset('Counter-v0', { make: { taget: 3 } }), { code: 'env.invalid_options' });
    await assert.rejects(agent.env.reset('Counter-v0', { make: 7 as never }), { code: 'env.invalid_options' });
    for (const [name, options] of [
      ['autoreset', { autoreset: 'soon' as never }],
      ['instance', { instance: 1 as never }],
      ['durability', { durability: 'step' as const }],
      ['start', { options: { start: 'x' } }],
    ] as const) {
      await assert.rejects(agent.env.reset('Counter-v0', options), ({ code, detail }: HandfastError) => {
        assert.deepEqual([code, detail.path], ['env.invalid_options', `/${name}`]);
        return true;
      });
    }
  });

  test('gives each principal what it is granted, and code only by name', async (t) => {
    const host = await hostOf(t, {}, [
      { name: 'admin', admin: true },
      { name: 'plain', capabilities: ['env'] },
      { name: 'star', grants: { env: { environments: ['*'] } } },
      { name: 'named', grants: { env: { environments: ['Program-v0'] } } },
    ]);
    const may = async (name: string) => {
      const agent = await agentOf(t, host, name);
      const listed = (await agent.env.list()).map(({ id }) => id);
      for (const id of ['Counter-v0', 'Program-v0']) {
        if (listed.includes(id)) await (await agent.env.reset(id)).close();
        else await assert.rejects(agent.env.reset(id), { code: 'reset_denied' });
      }
      return listed;
    };
    assert.deepEqual(await may('admin'), ['Counter-v0', 'Program-v0']);
    assert.deepEqual(await may('plain'), ['Counter-v0']);
    assert.deepEqual(await may('star'), ['Counter-v0']);
    assert.deepEqual(await may('named'), ['Program-v0']);
  });

  test('has as many episodes as its limits, and drops those that have ended first', async (t) => {
    const host = await hostOf(t, { maxEpisodes: 3, maxPrincipalEpisodes: 4 });
    const [agent, other] = [await agentOf(t, host), await agentOf(t, host)];
    const start = () => agent.env.reset('Counter-v0', { options: { start: 2 } });
    const [first] = [await start(), await start(), await start()];
    await assert.rejects(start(), { code: 'reset_denied', retryable: true });
    await first.step(1);
    const next = await start();
    await assert.rejects(first.observe(), { code: 'runtime_error' });
    await other.env.reset('Counter-v0');
    await assert.rejects(other.env.reset('Counter-v0'), { code: 'reset_denied' });
    await next.close();
    await other.env.reset('Counter-v0');
  });
});

describe('the golden lines', () => {
  const root = join(import.meta.dirname, '../../..');
  const lines = readFileSync(join(root, 'test/vectors/a2e/env.ndjson'), 'utf8').trim().split('\n');
  const all = { ...checks, ...replyChecks } as unknown as Record<string, Check>;
  const schema = JSON.parse(readFileSync(join(root, 'schema/env.json'), 'utf8')) as {
    $defs: Record<string, { properties: { type?: { const?: string } } }>;
  };
  const byType = new Map(
    Object.entries(schema.$defs).map(([name, { properties }]) => [properties.type?.const, all[name]] as const),
  );

  test('all fit the schemas, and each request has a reply of its form', async (t) => {
    const host = await hostOf(t);
    const raw = rawAgent(host);
    await raw.shake({ agent_caps: ['env'] });
    for (const line of lines) {
      const message = JSON.parse(line) as Message;
      const { type, id } = message;
      const check = byType.get(type);
      assert.ok(check?.(message), `${line}: ${JSON.stringify(check?.errors)}`);
      const isPlan = type === 'env/plan/resp' && message.suggested_actions === undefined;
      if (!type.endsWith('/req') && !isPlan) continue;
      raw.send(message);
      const reply = await raw.answer(id as string);
      assert.ok(reply.type === 'error' || byType.get(reply.type)?.(reply), JSON.stringify(reply));
      if (reply.type === 'error') assert.equal(reply.code, 'runtime_error', line);
    }
  });
});

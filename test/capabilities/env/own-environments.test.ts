/**
 * Environments of users: declared with `handfast/env`, named in a configuration or given to a host, beside the built-in ones
 * and those of other packages.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { guess, plugin } from '../../../examples/environment.ts';
import { definePlugin, type Plugin } from '../../../src/capability.ts';
import { connect } from '../../../src/connect.ts';
import {
  Box,
  builtinEnvironments,
  checkEnvironment,
  clipReward,
  Discrete,
  defineEnvironment,
  type Environment,
  type EnvironmentDefinition,
  envPlugin,
  episodeStatistics,
  frameStack,
  record,
  timeLimit,
} from '../../../src/env.ts';
import { createHost } from '../../../src/host.ts';
import { PRINT_IMPORTS, User } from '../../cli/command.ts';
import { root } from '../../rules/scan.ts';

async function agentOf(t: TestContext, plugins: readonly Plugin[], stateFile?: string) {
  const host = createHost({ plugins, ...(stateFile !== undefined && { stateFile }) });
  await host.start();
  t.after(() => host.close());
  const agent = await connect(host, { capabilities: ['env'] });
  t.after(() => agent.close());
  return agent;
}

/** Counts its steps. */
const counting = (parts: Partial<Environment> = {}): Environment => {
  let steps = 0;
  return {
    actionSpace: new Discrete(2),
    observationSpace: new Box(0, 100),
    reset() {
      steps = 0;
      return { observation: [0], info: {} };
    },
    step() {
      steps += 1;
      return { observation: [steps], reward: 5, terminated: false, truncated: false, info: {} };
    },
    ...parts,
  };
};
const countingKind = (id: string, parts: Partial<Environment> = {}) =>
  defineEnvironment({ id, about: 'Counts its steps', make: () => counting(parts) });

test('an environment of a package is listed, checked, run and played beside those that come with Handfast', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const example = join(root, 'examples', 'environment.ts');
  // A second package, installed as npm installs it.
  const installed = join(user.cwd, 'node_modules', 'counting');
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(installed, 'package.json'), '{"name":"counting","type":"module","exports":"./index.js"}');
  writeFileSync(
    join(installed, 'index.js'),
    `import { Discrete, defineEnvironment, envPlugin } from 'handfast/env';
     const make = () => ({
       actionSpace: new Discrete(2),
       observationSpace: new Discrete(2),
       reset: () => ({ observation: 0, info: {} }),
       step: (action) => ({ observation: action, reward: 1, terminated: false, truncated: false, info: {} }),
     });
     const echo = defineEnvironment({ id: 'counting/Echo-v0', about: 'Shows the action', maxEpisodeSteps: 3, make });
     export const plugin = envPlugin({ environments: [echo] });`,
  );
  user.write('handfast.yaml', `listen: tcp://127.0.0.1:0\nplugins: [counting, env, ${example}]\n`);
  await user.up(['--config', 'handfast.yaml']);
  const ids = (await user.json(['env', 'ls'])).map(({ id }: { id: string }) => id);
  assert.deepEqual(ids, ['counting/Echo-v0', ...builtinEnvironments.map(({ id }) => id), 'example/Guess-v0']);
  const checked = await user.run(['env', 'check', 'example/Guess-v0']);
  assert.deepEqual([checked.code, checked.stdout], [0, 'example/Guess-v0 keeps the contract\n']);
  for (const [id, steps] of [
    ['counting/Echo-v0', 3],
    ['example/Guess-v0', 20],
  ] as const) {
    const [row] = await user.json(['env', 'run', id, '--policy', '1', '--seed', '7']);
    assert.deepEqual([row.steps, row.ended], [steps, 'truncated'], id);
  }
  assert.equal((await user.json(['env', 'run', 'CartPole-v1', '--seed', '1']))[0].ended, 'terminated');
  assert.match((await user.failure(['env', 'run', 'example/Gues-v0'])).message, /did you mean "example\/Guess-v0"\?/);
});

test('importing handfast/env loads no package and none of the heavy modules of Node', async () => {
  const program = `import ${JSON.stringify(join(root, 'src/env.ts'))}`;
  const { stderr } = await promisify(execFile)(process.execPath, [
    ...PRINT_IMPORTS,
    '--input-type=module',
    '--eval',
    program,
  ]);
  const loaded = new Set(stderr.split('\n').map((line) => line.split(' imports ')[1] ?? ''));
  assert.ok(loaded.size > 30, `${loaded.size} modules`);
  const light = /\/src\/(?!connection|transport|journal|server|cli|config|agent)|^node:(?:util|crypto|path)$/;
  assert.deepEqual(
    [...loaded].filter((url) => !light.test(url)),
    [],
  );
});

test('a mistake in a definition is named where it is made', () => {
  const make = () => counting();
  const define = (definition: unknown) => () => defineEnvironment(definition as EnvironmentDefinition);
  for (const [definition, message] of [
    [undefined, /^defineEnvironment expects \{ id, about, make \}, got undefined/],
    [{ about: 'x', make }, /^an environment needs an id, got undefined/],
    [{ id: 'a', make }, /^the environment "a": about must be a sentence/],
    [{ id: 'a', about: 'x', make: counting() }, /^the environment "a": make must be a function that returns/],
    [{ id: 'a', about: 'x', make, maxEpisodeSteps: 0 }, /maxEpisodeSteps must be a whole number above 0/],
    [{ id: 'a', about: 'x', make, makeOptions: true }, /makeOptions must be a JSON Schema/],
  ] as const) {
    assert.throws(define(definition), { code: 'config_invalid', message });
  }
  const twice = { environments: [countingKind('a'), countingKind('a')] };
  assert.throws(() => envPlugin(twice), { code: 'config_invalid', message: /two environments have the id "a"/ });
});

test('an environment that lacks a part, or breaks, fails with what is wrong, and the host serves on', async (t) => {
  const incomplete = defineEnvironment({
    id: 'Incomplete',
    about: 'x',
    make: () => ({ actionSpace: new Discrete(2) }) as unknown as Environment,
  });
  const breaks = countingKind('Breaks', {
    reset() {
      throw new Error('no cheese');
    },
  });
  const agent = await agentOf(t, [envPlugin({ environments: [incomplete, breaks, countingKind('Counts')] })]);
  await assert.rejects(agent.env.reset('Incomplete'), {
    code: 'runtime_error',
    message: 'make of Incomplete returned an environment without observationSpace, reset, step',
  });
  await assert.rejects(agent.env.reset('Breaks'), { code: 'runtime_error', message: 'Breaks failed: no cheese' });
  const episode = await agent.env.reset('Counts');
  await assert.rejects(episode.render('text'), { code: 'schema_violation', message: /it draws nothing/ });
  assert.deepEqual((await episode.step(1)).observation, [1]);
  // Its wrapped form draws nothing, either.
  const limited = await agent.env.reset('Counts', { make: { max_episode_steps: 1 } });
  await assert.rejects(limited.render('text'), { message: /it draws nothing/ });
  assert.equal((await limited.step(1)).truncated, true);
});

test('wrappers are put around an environment in code', async () => {
  const seen: unknown[] = [];
  const inner = counting();
  const watched = record(inner, {
    started: ({ observation }) => void seen.push(observation),
    stepped: (action) => void seen.push(action),
  });
  const wrapped = episodeStatistics(timeLimit(frameStack(clipReward(watched, { max: 2 }), { size: 2 }), 2), {
    now: () => 0,
  });
  await wrapped.reset();
  await wrapped.step(1);
  const last = await wrapped.step(0);
  assert.deepEqual(last.observation, [[1], [2]]);
  assert.deepEqual([last.reward, last.truncated, last.info], [2, true, { episode: { r: 4, l: 2, t: 0 } }]);
  assert.deepEqual(seen, [[0], 1, 0]);
  const { findings } = await checkEnvironment(
    defineEnvironment({ id: 'Wrapped', about: 'x', make: () => timeLimit(counting(), 4) }),
  );
  assert.deepEqual(findings, []);
});

test('a durable episode of an environment without snapshots continues, also one without a seed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-own-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const options = { environments: [guess], durability: 'step' } as const;
  const before: [id: string, latest: unknown][] = [];
  await t.test('before', async (first) => {
    const agent = await agentOf(first, [envPlugin(options)], join(folder, 'state.sqlite'));
    // The second continues the environment of the first, which was closed.
    await (await agent.env.reset('example/Guess-v0', { durability: 'none' })).close();
    for (let count = 0; count < 2; count += 1) {
      const episode = await agent.env.reset<number, number>('example/Guess-v0');
      for (let at = 0; at < 15; at += 1) if (!episode.done) await episode.step(at * 6);
      before.push([episode.id, episode.latest]);
    }
  });
  const agent = await agentOf(t, [envPlugin(options)], join(folder, 'state.sqlite'));
  for (const [id, latest] of before) assert.deepEqual((await agent.env.episode(id)).latest, latest);
});

test('several plugins of env in one host are one: a batch, a list and a limit reach over all of them', async (t) => {
  const other = envPlugin({ environments: [countingKind('Counts')] });
  const agent = await agentOf(t, [plugin, other, envPlugin({ maxEpisodes: 3 })]);
  const pole = await agent.env.reset('CartPole-v1', { seed: 1 });
  const count = await agent.env.reset('Counts');
  const number = await agent.env.reset('example/Guess-v0', { seed: 1 });
  await assert.rejects(agent.env.reset('Counts'), { code: 'reset_denied', message: /too many episodes/ });
  for (const episode of [pole, count, number]) await episode.step(1);
  const stored = await agent.env.experience();
  assert.deepEqual(
    stored.map(({ env_name, transitions }) => [env_name, transitions.length]),
    [
      ['CartPole-v1', 1],
      ['Counts', 1],
      ['example/Guess-v0', 1],
    ],
  );
  assert.equal(agent.capabilities.get('env')?.metadata.environments, builtinEnvironments.length + 2);
});

test('plugins of env that do not fit together stop the host with what is wrong', async () => {
  const same = envPlugin({ environments: [countingKind('CartPole-v1')] });
  await assert.rejects(createHost({ plugins: [envPlugin(), same] }).start(), {
    code: 'config_invalid',
    message: 'two environments have the id "CartPole-v1"; rename one',
  });
  const [short, long] = [1, 2].map((maxBatch) => envPlugin({ environments: [], maxBatch }));
  await assert.rejects(createHost({ plugins: [short!, long!] }).start(), {
    code: 'config_invalid',
    message: 'two plugins of env set maxBatch; only one may',
  });
});

test('the joined plugin has the highest priority of its parts, and an exclusive one serves alone', async (t) => {
  const exclusive = await agentOf(t, [envPlugin(), { ...plugin, name: 'alone', exclusive: true }]);
  assert.deepEqual(
    (await exclusive.env.list()).map(({ id }) => id),
    ['example/Guess-v0'],
  );
  // A plugin of the same type that cannot be joined stays beside them.
  const beside = definePlugin({ name: 'beside', type: 'env', priority: 1, metadata: { beside: true }, methods: [] });
  const agent = await agentOf(t, [beside, plugin, { ...envPlugin(), priority: 2 }]);
  assert.equal(agent.capabilities.get('env')?.metadata.priority, 2);
  assert.equal((await agent.env.list()).length, builtinEnvironments.length + 1);
});

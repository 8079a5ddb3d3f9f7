/**
 * The env API of the A2E Python SDK against Handfast's host over stdio and HTTP, and `agent.env` against a host of the
 * SDK. If a model of the SDK has no `req_id`, its client never gets the reply; the same request with a model that has
 * it shows that the reply exists.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/connect.ts';
import { User } from '../cli/command.ts';
import { commandOf, environment, skip, start } from './python-sdk.ts';

const endless = fileURLToPath(new URL('../capabilities/env/fixtures/endless.ts', import.meta.url));

for (const kind of ['stdio', 'http'] as const) {
  describe(`the env API of the Python SDK over ${kind}`, { skip }, () => {
    // biome-ignore lint/suspicious/noExplicitAny: plain JSON, as the SDK decoded it
    let results: Record<string, any> = {};
    const user = new User();

    before(async () => {
      const config = user.write(
        'handfast.yaml',
        `listen: ["http://127.0.0.1:0"]\nplugins: [{ use: env, options: { durability: none } }, ${endless}]\n`,
      );
      const target =
        kind === 'stdio' ? ['stdio', ...user.line(['stdio', '--config', config])] : await httpTarget(config);
      process.env.HANDFAST_HOME = user.home;
      const agent = start(commandOf('python-env.py', JSON.stringify(target)), user.cwd);
      const lines = await agent.rest();
      assert.equal(agent.child.exitCode, 0, agent.stderr());
      results = JSON.parse(lines.at(-1) as string);
    });
    after(() => user.leave());

    const httpTarget = async (config: string): Promise<string[]> => {
      const command = user.start(['up', '--config', config, '--json']);
      await command.says('\n');
      const { url, token_file } = JSON.parse(command.stdout) as { url: string; token_file: string };
      return ['http', url, readFileSync(token_file, 'utf8').trim()];
    };

    test('resets, steps and observes, several episodes at once', () => {
      const { reset, step, observe } = results;
      assert.deepEqual([reset.obs.step_num, reset.obs.state, reset.obs.done], [0, { observation: 0 }, false]);
      assert.deepEqual([step.obs.step_num, step.obs.state, step.obs.reward], [1, { observation: 1 }, 0]);
      assert.deepEqual(observe, { ...step.obs, created_at: observe.created_at });
      assert.deepEqual(results.goal, [
        [2, 0, false, false],
        [6, 0, false, false],
        [10, 0, false, false],
        [14, 0, false, false],
        [15, 1, true, true],
      ]);
      assert.deepEqual(results['at once'], [1, 1, 2, 2]);
      assert.deepEqual(results['infinite rewards'], ['Infinity', '-Infinity']);
      const [{ transitions }] = results.experience;
      assert.deepEqual(
        transitions.map(({ index, action, reward, done }: Record<string, unknown>) => [index, action, reward, done]),
        [
          [5, 1, 0, false],
          [6, 2, 1, true],
        ],
      );
    });

    test('gets errors with their codes', () => {
      const codes = (name: string) => [results[name].failed, results[name].code];
      assert.deepEqual(codes('not an action'), ['A2EClientError', 'unknown_action']);
      assert.deepEqual(codes('its own form of an action'), ['A2EClientError', 'unknown_action']);
      assert.deepEqual(codes('no such episode'), ['A2EClientError', 'runtime_error']);
      assert.deepEqual(codes('no such environment'), ['A2EClientError', 'runtime_error']);
      assert.deepEqual(codes('a wrong option'), ['A2EClientError', 'env.invalid_options']);
      assert.deepEqual(codes('a step behind the end'), ['A2EClientError', 'runtime_error']);
    });

    test('does not get replies whose models have no req_id, and gets them with models that have it', () => {
      assert.equal(results.close.failed, 'TimeoutError');
      assert.equal(results.spaces.failed, 'TimeoutError');
      assert.equal(results['close with id'].closed, true);
      const { action_space, state_schema } = results['spaces with id'];
      assert.deepEqual(action_space, { type: 'Discrete', n: 2, start: 0 });
      assert.deepEqual(state_schema.space.high[1], 'Infinity');
      const { render } = results['render with id'];
      assert.equal(render.mime, 'image/png');
      const png = Buffer.from(render.base64, 'base64');
      assert.deepEqual([png.toString('hex', 0, 8), png.readUInt32BE(16) > 0], ['89504e470d0a1a0a', true]);
      assert.equal(results['plan with id'].suggested_actions.length, 2);
      const { results: steps } = results['batch with id'];
      assert.deepEqual(
        steps.map(({ obs }: { obs: { step_num: number } }) => obs.step_num),
        [3, 1],
      );
      // The refused step has the observation before it; the other one was made.
      assert.deepEqual(
        results['refused batch with id'].results.map(({ obs }: { obs: { step_num: number; reward: number } }) => [
          obs.step_num,
          obs.reward,
        ]),
        [
          [4, 1],
          [1, 0],
        ],
      );
    });

    test('gets a push for a step of another session under the name by which its client looks', {
      skip: kind === 'stdio',
    }, () => {
      const [push] = results.push;
      assert.deepEqual(
        [push.type, push.step_id, push.delta, push.terminal],
        ['env/state/push', 0, { observation: 4 }, false],
      );
    });
  });
}

describe('a host of the Python SDK with an env plugin', { skip }, () => {
  test('is played by agent.env; what it does not serve fails at once', async () => {
    const address = `stdio:${commandOf('python-env-host.py')
      .map((word) => `'${word}'`)
      .join(' ')}`;
    await using agent = await connect(address, { capabilities: ['env'], env: environment() });
    const episode = await agent.env.reset<number, number>('corridor', { seed: 1 });
    assert.deepEqual([episode.observation, episode.done], [0, false]);
    assert.equal((await episode.step(1)).observation, 1);
    assert.equal((await episode.observe()).step, 1);
    await assert.rejects(episode.step(7), { code: 'runtime_error', message: 'no such way' });
    const steps = await Array.fromAsync(episode.play(() => 1));
    assert.deepEqual(
      steps.map(({ observation, reward, terminated }) => [observation, reward, terminated]),
      [
        [2, 0, false],
        [3, 0, false],
        [4, 1, true],
      ],
    );
    await assert.rejects(episode.step(1), { code: 'runtime_error' });
    for (const unserved of [
      () => agent.env.spaces('corridor'),
      () => episode.render('text'),
      () => episode.suggestions(),
      () => agent.env.list(),
      () => agent.env.experience(5),
    ]) {
      await assert.rejects(unserved, ({ code }: { code: string }) => /^(invalid_message|parse_error)$/.test(code));
    }
    // Its reply has no req_id, and is the only one of its kind that is awaited.
    await episode.close();
    await assert.rejects(episode.step(1), { code: 'runtime_error' });
  });
});

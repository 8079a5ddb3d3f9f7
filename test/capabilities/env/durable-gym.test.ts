/** Durable episodes of a real Python: the host or the Python is killed in the middle, and the replay is compared. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { Durability } from '../../../src/capabilities/env/durable.ts';
import { connect } from '../../../src/connect.ts';
import { User } from '../../cli/command.ts';
import { ownPort } from '../../support/own-port.ts';
import { gymPython, skip } from './gym-python.ts';

/** Returns a host with environments of Python that can be killed and restarted. */
async function mortalHost(t: TestContext, env: Record<string, string> = {}) {
  const user = new User();
  t.after(() => user.leave());
  const address = `tcp://127.0.0.1:${await ownPort()}`;
  const python = gymPython();
  user.write(
    'handfast.yaml',
    `listen: ['${address}']
plugins:
  - use: env
    options:
      durability: step
      gym:
        - { name: Taxi-v4, python: ${python}, make: { is_rainy: true } }
        - { name: OddWind-v0, module: odd_environments, python: ${python}, inherits: [ODD_WIND] }
`,
  );
  const start = async (more: Record<string, string> = {}) => {
    const command = user.start(['up', '--config', 'handfast.yaml', '--json'], {
      env: { PYTHONPATH: join(import.meta.dirname, 'fixtures'), ...env, ...more },
    });
    await command.says('\n');
    const { token_file } = JSON.parse(command.stdout) as { token_file: string };
    const agent = await connect(address, {
      capabilities: ['env'],
      agentId: 'driver',
      resume: false,
      token: readFileSync(token_file, 'utf8').trim(),
    });
    const pid = command.child.pid as number;
    return {
      agent,
      pid,
      async kill() {
        command.child.kill('SIGKILL');
        await command.ended();
        await agent.close();
      },
    };
  };
  return { start };
}

/** Returns the processes of the bridge whose parent is the host. */
const bridgesOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const [, ppid] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
        return Number(ppid) === parent && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('gym_bridge.py');
      } catch {
        return false;
      }
    })
    .map(Number);

const actions = Array.from({ length: 40 }, (_, at) => (at * 5) % 6);

describe('a durable episode of Python', { skip }, () => {
  test('continues where kill -9 of the host, then of its Python, stopped it, as if neither had happened', async (t) => {
    const { start } = await mortalHost(t);
    let host = await start();
    const { id } = await host.agent.env.reset('gym/Taxi-v4', { seed: 11 });
    let acknowledged = 0;
    const play = async (until: number) => {
      const episode = await host.agent.env.episode<number, number>(id);
      assert.ok(episode.latest.step >= acknowledged, `${episode.latest.step} of ${acknowledged} steps`);
      acknowledged = episode.latest.step;
      while (acknowledged < until && !episode.done) {
        acknowledged = (await episode.step(actions[acknowledged] as number)).step;
      }
      return episode.latest;
    };
    await play(12);
    const interrupted = play(actions.length).catch(() => undefined);
    await host.kill();
    await interrupted;
    host = await start();
    await play(20);
    for (const pid of bridgesOf(host.pid)) process.kill(pid, 'SIGKILL');
    // The step that meets the dead process is refused; the next request continues from the stored steps.
    await assert.rejects(
      async () => {
        const episode = await host.agent.env.episode<number, number>(id);
        await episode.step(0);
      },
      (error: { code: string; detail: { reason: string } }) =>
        error.code === 'runtime_error' && error.detail.reason === 'environment_crashed',
    );
    const last = await play(actions.length);
    const whole = await host.agent.env.reset<number, number>('gym/Taxi-v4', { seed: 11, durability: 'none' });
    while (whole.latest.step < last.step) await whole.step(actions[whole.latest.step] as number);
    assert.deepEqual(last, whole.latest);
    assert.equal(last.step, actions.length);
    await host.kill();
  });

  test('that leads elsewhere after a restart is refused, with the step', async (t) => {
    const { start } = await mortalHost(t);
    const first = await start();
    const episode = await first.agent.env.reset<number, number>('gym/OddWind-v0', { seed: 1 });
    for (const action of [0, 1, 1]) await episode.step(action);
    await first.kill();
    const windy = await start({ ODD_WIND: '1' });
    await assert.rejects(
      windy.agent.env.episode(episode.id),
      (error: { code: string; detail: { reason: string; step: number } }) => {
        assert.deepEqual([error.code, error.detail.reason, error.detail.step], ['runtime_error', 'diverged', 1]);
        return true;
      },
    );
    await windy.kill();
    // It is still stored: in the old wind it continues.
    const calm = await start();
    assert.equal((await calm.agent.env.episode(episode.id)).latest.step, 3);
    await calm.kill();
  });

  test('of durability none or episode does not pretend to continue', async (t) => {
    const { start } = await mortalHost(t);
    const first = await start();
    const reset = async (durability: Durability) =>
      (await first.agent.env.reset<number, number>('gym/OddWind-v0', { seed: 1, durability, instance: durability })).id;
    const [none, episode] = [await reset('none'), await reset('episode')];
    await first.kill();
    const next = await start();
    const reasonOf = async (id: string) => {
      const error = await next.agent.env.episode(id).catch((thrown: unknown) => thrown);
      return (error as { detail?: { reason?: string } }).detail?.reason;
    };
    assert.deepEqual([await reasonOf(none), await reasonOf(episode)], ['unknown_episode', 'episode_interrupted']);
    await next.kill();
  });
});

/**
 * A server with its fleet is killed, or stopped, while a task of a chain runs at a worker in a separate process: the continued
 * chain finds the task again, running or ended. A file beside the stores has the worker's effects.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '../../../src/connect.ts';
import { asError } from '../../../src/wire/errors.ts';
import { type Command, type Json, User } from '../../cli/command.ts';
import { until } from '../multi_agent/support.ts';

const ready = async (command: Command): Promise<Json> => {
  await command.says('"ready":true');
  return JSON.parse(command.stdout.slice(0, command.stdout.indexOf('\n')));
};

const CONFIG = `plugins:
  - chains
  - use: multi_agent
    options:
      kinds:
        - { name: fleet, fleet: {} }
        - { name: helper, executor: { kind: rehearsal } }
`;

test('a chain whose server was killed, or stopped, finds the task of its node again, and asks what becomes of an agent', {
  timeout: 300_000,
}, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const repo = join(user.cwd, 'repo');
  mkdirSync(repo);
  const effects = (file: string, folder = repo): string[] => {
    try {
      return readFileSync(join(folder, file), 'utf8').split('\n').filter(Boolean);
    } catch {
      return [];
    }
  };
  const config = user.write('handfast.yaml', CONFIG);
  const fleet = user.write(
    'fleet.yaml',
    'name: kill\nlisten: unix://fleet.sock\nlease_ttl_s: 60\nrouting: { min_lead_s: 0 }\n',
  );
  const start = async () => {
    const server = user.start(['fleet', 'up', fleet, '--config', config, '--json']);
    const { url, token_file } = await ready(server);
    const token = readFileSync(token_file, 'utf8').trim();
    const agent = await connect(url, { capabilities: ['chains'], agentId: 'ana', token, reconnect: { maxMs: 1 } });
    return { server, url, agent };
  };
  let { server, url, agent } = await start();
  const kill = async (signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL') => {
    server.child.kill(signal);
    await server.ended();
  };
  const file = user.write(
    'worker.yaml',
    `id: w\nexecutor: rehearsal\nrepo: ${repo}\noverhead_tokens: 0\nmin_lead_s: 0\n`,
  );
  await ready(user.start(['worker', file, '--join', url, '--json']));

  for (const round of ['running', 'ended', 'stopped']) {
    const nodes = [
      {
        node_id: 'work',
        kind: 'task' as const,
        name: 'fleet',
        after: [],
        input: { task: `append "${round}\\n" to begun.log; wait 3000 ms; append "${round}\\n" to ended.log` },
      },
      {
        node_id: 'ask',
        kind: 'agent' as const,
        name: 'helper',
        after: [],
        input: { task: `append "${round}\\n" to asked.log; wait 1000 ms` },
      },
      { node_id: 'both', kind: 'gather' as const, after: ['work', 'ask'] },
    ];
    const run = agent.chains.run({ nodes }, {}, { chainId: round });
    run.catch(() => {});
    await until(() => effects('begun.log').includes(round) && effects('asked.log', user.cwd).includes(round));
    await kill(round === 'stopped' ? 'SIGTERM' : 'SIGKILL');
    await assert.rejects(run);
    if (round === 'ended') await until(() => effects('ended.log').includes(round));
    ({ server, agent } = await start());
    const uncertain = asError(await agent.chains.resume(round).catch((thrown: unknown) => thrown));
    assert.deepEqual([uncertain.code, uncertain.detail.nodes], ['chains.uncertain', ['ask']]);
    const { success, outputs, error } = await agent.chains.resume(round, { skip: ['ask'] });
    assert.equal(success, true, JSON.stringify(error));
    const { status, worker } = outputs.work as { status: string; worker: string };
    assert.deepEqual([status, worker, outputs.ask], ['done', 'w', undefined]);
  }
  assert.deepEqual(effects('begun.log'), ['running', 'ended', 'stopped']);
  assert.deepEqual(effects('ended.log'), ['running', 'ended', 'stopped']);
  await agent.close();
  await kill();
});

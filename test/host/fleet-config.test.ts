/** `fleet.yaml`, the file of a worker, and batch files: what they may say, and what is told when they say it wrongly. */
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadFleetConfig, loadWorkerConfig, workerConfig } from '../../src/host/fleet-config.ts';
import { loadTaskBatch } from '../../src/host/task-batch.ts';
import { timeOf } from '../../src/host/time-of.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-fleet-config-')));
after(() => rmSync(folder, { recursive: true }));
const env = { HANDFAST_HOME: join(folder, 'home') };

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return name;
}

const load = (text: string) => loadFleetConfig(file('fleet.yaml', text), { env, cwd: folder });

test('a fleet without a file is an orchestrator that workers join', async () => {
  const config = await loadFleetConfig(undefined, { env, cwd: folder });
  assert.deepEqual([config.name, config.natsServers, config.workers], ['fleet', [], []]);
  assert.deepEqual(config.listen, ['http://127.0.0.1:9219']);
  assert.equal(config.data, join(env.HANDFAST_HOME, 'fleet', 'fleet'));
});

test('workers are read with their paths absolute and their defaults filled in', async () => {
  const config = await load(`
name: demo
bus: nats://127.0.0.1:4222
workers:
  - id: claude-1
    executor: claude
    mcp_servers: [{ name: context-mode, command: ctx, args: [serve], env: { A: "1" } }]
  - { id: other, executor: { kind: command, command: ./run.sh, output: json_lines }, repo: ., max_concurrent: 1 }
routing: { tiers: { gemini-flash: 1 }, hooks: [{ when: 'task.priority == "low"', then: prefer, score: 10 }] }
blocked_policy: { table: { dirty_repo: [retry, alert] } }
`);
  assert.deepEqual(config.natsServers, ['nats://127.0.0.1:4222']);
  const [claude, other] = config.workers;
  assert.deepEqual(
    [claude?.executor?.kind, claude?.repo, claude?.data, claude?.maxConcurrent, claude?.tools],
    ['claude', folder, join(env.HANDFAST_HOME, 'fleet', 'demo', 'workers', 'claude-1'), 3, ['terminal', 'file']],
  );
  assert.deepEqual([...(claude?.mcpServers[0]?.env ?? [])], [['A', '1']]);
  assert.deepEqual([other?.executor?.output, other?.maxConcurrent], ['json_lines', 1]);
  assert.deepEqual([...config.routing.tiers], [['gemini-flash', 1]]);
  assert.deepEqual([...config.blockedPolicy.table], [['dirty_repo', ['retry', 'alert']]]);
});

test('everything that is wrong is told at once, with its line', async () => {
  await assert.rejects(
    load(`
name: Bad Name
bus: [in-process, nats://127.0.0.1:4222]
workers:
  - { id: a, executor: claud }
  - { id: a, executor: command }
  - { id: b, executor: a2a, repo: nowhere }
  - { id: c, executor: rehearsal, mcp_servers: [{ name: x }] }
`),
    (error: Error & { code: string }) => {
      assert.equal(error.code, 'config_invalid');
      for (const part of [
        'fleet.yaml:2:7: at name: expected a name of lower-case letters',
        'at bus: expected in-process or addresses, got both',
        'did you mean "claude"?',
        'expected a name of its own, got "a" again',
        'expected command for an executor of kind command, got nothing',
        'expected url for an executor of kind a2a, got nothing',
        'at workers[2].repo: expected a folder',
        'expected command or url, and not both',
      ]) {
        assert.ok(error.message.includes(part), `${part} not in:\n${error.message}`);
      }
      return true;
    },
  );
});

test('the file of a worker can be overruled word by word', async () => {
  const name = file('worker.yaml', 'id: one\nexecutor: rehearsal\ntier: haiku\n');
  const { config } = await loadWorkerConfig(name, { env, cwd: folder, instead: { id: 'two', max_concurrent: 5 } });
  assert.deepEqual([config.id, config.tier, config.maxConcurrent], ['two', 'haiku', 5]);
  await assert.rejects(loadWorkerConfig(name, { env, cwd: folder, instead: { id: 'two words' } }), {
    code: 'usage',
    message: /^--id: expected a name/,
  });
});

test('a worker needs no file', async () => {
  const config = await workerConfig({ id: 'w', executor: 'rehearsal', tools: ['terminal'] }, { env, cwd: folder });
  assert.deepEqual(
    [config.id, config.executor?.kind, config.repo, config.tools],
    ['w', 'rehearsal', folder, ['terminal']],
  );
  await assert.rejects(workerConfig({ id: 'w' }, { env, cwd: folder }), { code: 'usage', message: /--executor/ });
});

test('a batch becomes tasks in the words of the wire', async () => {
  const now = Date.parse('2026-06-01T12:00:00Z');
  const name = file(
    'release.yaml',
    `
tasks:
  - { id: build, brief: build it, budget: 5000, deadline: 30m, require_mcp: context-mode }
  - { brief: ship it, after: [build], priority: high, reply: json, answer_schema: { type: object } }
`,
  );
  assert.deepEqual(await loadTaskBatch(name, now, folder), [
    {
      task_id: 'build',
      token_budget: 5000,
      deadline: '2026-06-01T12:30:00.000Z',
      required_mcp: ['context-mode'],
      brief: 'build it',
      batch: 'release',
    },
    {
      priority: 'high',
      reply_schema: 'json',
      answer_schema: { type: 'object' },
      after: ['build'],
      brief: 'ship it',
      batch: 'release',
    },
  ]);
});

test('a batch with a wrong task is refused whole', async () => {
  const name = file('wrong.yaml', 'tasks:\n  - { brief: x, deadline: soon, priority: now }\n  - { id: y }\n');
  await assert.rejects(loadTaskBatch(name, 0, folder), (error: Error) => {
    assert.match(error.message, /wrong\.yaml:2:\d+: at tasks\[0\]\.deadline: "soon" is no time/);
    assert.match(error.message, /priority: expected low, normal, high or urgent/);
    assert.match(error.message, /tasks\[1\]\.brief: expected a text, got nothing/);
    return true;
  });
});

test('times are spans from now or points with an offset', () => {
  const now = Date.parse('2026-06-01T12:00:00Z');
  assert.equal(timeOf('90s', now), '2026-06-01T12:01:30.000Z');
  assert.equal(timeOf('1h30m', now), '2026-06-01T13:30:00.000Z');
  assert.equal(timeOf('2d', now), '2026-06-03T12:00:00.000Z');
  assert.equal(timeOf('2026-06-01T14:00:00+02:00', now), '2026-06-01T12:00:00.000Z');
  for (const wrong of ['', '5', 'm', '2026-06-01', '2026-06-01T14:00:00', '1h x']) {
    assert.throws(() => timeOf(wrong, now), { code: 'usage' }, wrong);
  }
});

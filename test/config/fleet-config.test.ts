/**
 * `fleet.yaml`, the file of a worker, and batch files: their permitted content, and the reports of their problems.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { loadFleetConfig, loadWorkerConfig, workerConfig } from '../../src/config/fleet-config.ts';
import { parseDeadline } from '../../src/config/parse-deadline.ts';
import { loadTaskBatch } from '../../src/config/task-batch.ts';

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
  assert.equal(config.dataDir, join(env.HANDFAST_HOME, 'fleet', 'fleet'));
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
    [claude?.executor?.kind, claude?.repo, claude?.dataDir, claude?.maxConcurrent, claude?.tools],
    ['claude', folder, join(env.HANDFAST_HOME, 'fleet', 'demo', 'workers', 'claude-1'), 3, ['terminal', 'file']],
  );
  assert.deepEqual([...(claude?.mcpServers[0]?.env ?? [])], [['A', '1']]);
  assert.deepEqual([other?.executor?.output, other?.maxConcurrent], ['json_lines', 1]);
  assert.deepEqual([...config.routing.tiers], [['gemini-flash', 1]]);
  assert.deepEqual([...config.blockedPolicy.table], [['dirty_repo', ['retry', 'alert']]]);
});

test('every problem is reported at once, with its line', async () => {
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

/** Asserts each part of the report, and nothing else. */
async function toldOf(loading: Promise<unknown>, parts: readonly string[]): Promise<void> {
  await assert.rejects(loading, (error: Error & { code: string; detail: { problems?: readonly unknown[] } }) => {
    assert.equal(error.code, 'config_invalid');
    for (const part of parts) assert.ok(error.message.includes(part), `${part} not in:\n${error.message}`);
    assert.equal(error.detail.problems?.length, parts.length, error.message);
    return true;
  });
}

test('a setting that an executor ignores is reported, with its line', async () => {
  await toldOf(
    load(`
workers:
  - { id: a, executor: { kind: codex, sandbox: true } }
  - { id: b, executor: { kind: agy, sandbox: read-only } }
  - { id: c, executor: { kind: codex, sandbox: readonly } }
  - { id: d, executor: { kind: claude, permissions: allow, mcp_config: ./servers.json } }
  - { id: e, executor: { kind: rehearsal, model: sonnet } }
  - { id: f, executor: { kind: acp, command: x, timeout_s: 9, mcp_servers: [{ name: m, command: m, url: 'http://m' }] } }
  - { id: g, executor: { kind: a2a, url: 'http://x', token_env: A, token_file: b } }
`),
    [
      'fleet.yaml:3:48: at workers[0].executor.sandbox: expected read-only, workspace-write, danger-full-access for an executor of kind codex, got true',
      'at workers[1].executor.sandbox: expected true or false for an executor of kind agy, got read-only',
      'at workers[2].executor.sandbox: expected read-only, workspace-write or danger-full-access, got "readonly" (did you mean "read-only"?)',
      'at workers[3].executor.permissions: expected command, args, env, timeout_s, model, role, mcp_config for an executor of kind claude',
      'at workers[4].executor.model: expected no other setting for an executor of kind rehearsal',
      'at workers[5].executor.timeout_s: expected',
      'at workers[5].executor.mcp_servers[0]: expected command or url, and not both',
      'at workers[6].executor: expected token_env or token_file, got both',
    ],
  );
});

test('senders of a receiver have tokens and names of their own', async () => {
  await toldOf(
    load(`
workers:
  - id: a
    executor: rehearsal
    receiver:
      host: everywhere
      callback: { url: 'http://127.0.0.1:9219' }
      senders:
        - { name: lead }
        - { name: lead, token_env: LEAD, callback: { url: lead.example } }
        - { name: sender, token_env: OTHER }
`),
    [
      'at workers[0].receiver.host: expected an IP address, got "everywhere"',
      'at workers[0].receiver.callback: expected token_env or token_file beside it where senders have tokens',
      'at workers[0].receiver.senders[0]: expected token_env or token_file, got neither',
      'at workers[0].receiver.senders[1].name: expected a name of its own, got "lead" again',
      'at workers[0].receiver.senders[1].callback.url: expected an http address, got "lead.example"',
      'at workers[0].receiver.senders[2].name: expected a name of its own, got "sender" again',
    ],
  );
});

test('how NATS is reached is read with its paths absolute, and its contradictions are reported', async () => {
  const { nats, natsServers } = await load(`
bus: [nats://a:4222, nats://b:4222, tls://c:4222]
nats: { user: fleet, password_file: ./pw, tls: { ca_file: ca.pem, cert_file: c.pem, key_file: /k.pem }, store_tasks: true }
`);
  assert.deepEqual(
    [natsServers.length, nats.user, nats.passwordFile, nats.storeTasks],
    [3, 'fleet', join(folder, 'pw'), true],
  );
  assert.deepEqual(nats.tls, {
    caFile: join(folder, 'ca.pem'),
    certFile: join(folder, 'c.pem'),
    keyFile: '/k.pem',
    handshakeFirst: false,
  });
  await toldOf(
    load(`
bus: nats://127.0.0.1:4222
nats: { credentials_file: a, nkey_file: b, user: c, tls: { cert_file: d } }
`),
    [
      'fleet.yaml:3:41: at nats.nkey_file: expected one way to sign in, got credentials_file and nkey_file and user',
      'at nats.user: expected password_env or password_file with a user, got neither',
      'at nats.tls: expected cert_file and key_file together, got one of them',
    ],
  );
  const accounts = await load(`
bus: nats://127.0.0.1:4222
nats: { accounts: [ { workers: [one, two], user: u, password_file: ./pw }, { workers: [three], nkey_file: k } ] }
`);
  assert.deepEqual(
    accounts.nats.accounts?.map(({ workers, passwordFile }) => [workers, passwordFile?.endsWith('/pw')]),
    [
      [['one', 'two'], true],
      [['three'], undefined],
    ],
  );
  await toldOf(
    load(`
bus: nats://127.0.0.1:4222
workers: [ { id: here, executor: rehearsal } ]
nats: { accounts: [ { user: u }, { workers: [one, here] }, { workers: [one], nkey_file: k } ] }
`),
    [
      'at nats.accounts[0].user: expected password_env or password_file with a user, got neither',
      'at nats.accounts[0].workers: expected the workers of the account, got none',
      'at nats.accounts[1]: expected a way to sign in to the account, got none',
      'at nats.accounts[1].workers[1]: expected a worker of one account, got here again',
      'at nats.accounts[2].workers[0]: expected a worker of one account, got one again',
    ],
  );
  await toldOf(load('nats: { store_tasks: true, password_env: P }\n'), [
    'at nats.store_tasks: expected nats:// addresses in bus, got none',
    'at nats: expected user with a password, got none',
  ]);
  const { warnings } = await load('nats: { replicas: 3 }\n');
  assert.match(warnings[0]?.message ?? '', /these settings do nothing/);
});

test('a password in an address is refused, and not repeated', async () => {
  await assert.rejects(load('bus: [nats://a:4222, nats://fleet:open-sesame@b:4222]\n'), (error: Error) => {
    assert.match(error.message, /fleet\.yaml:1:22: at bus\[1\]: expected an address without user and password/);
    assert.ok(!error.message.includes('open-sesame'));
    return true;
  });
});

test('the file of a worker says how it joins over NATS', async () => {
  const name = file('worker.yaml', 'id: one\nexecutor: rehearsal\nnats: { nkey_file: one.nk }\n');
  const { config, nats } = await loadWorkerConfig(name, { env, cwd: folder });
  assert.equal(nats.nkeyFile, join(folder, 'one.nk'));
  assert.equal('nats' in config, false);
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
    assert.match(error.message, /wrong\.yaml:2:\d+: at tasks\[0\]\.deadline: "soon" is not a valid time/);
    assert.match(error.message, /priority: expected low, normal, high or urgent/);
    assert.match(error.message, /tasks\[1\]\.brief: expected a text, got nothing/);
    return true;
  });
  await assert.rejects(loadTaskBatch(file('empty.yaml', 'name: b\ntasks: # none yet\n'), 0, folder), {
    message: 'empty.yaml:2:8: at tasks: expected a map, or a list of such, got nothing',
  });
});

test('times are spans from now or points with an offset', () => {
  const now = Date.parse('2026-06-01T12:00:00Z');
  assert.equal(parseDeadline('90s', now), '2026-06-01T12:01:30.000Z');
  assert.equal(parseDeadline('1h30m', now), '2026-06-01T13:30:00.000Z');
  assert.equal(parseDeadline('2d', now), '2026-06-03T12:00:00.000Z');
  assert.equal(parseDeadline('2026-06-01T14:00:00+02:00', now), '2026-06-01T12:00:00.000Z');
  for (const wrong of ['', '5', 'm', '2026-06-01', '2026-06-01T14:00:00', '1h x']) {
    assert.throws(() => parseDeadline(wrong, now), { code: 'usage' }, wrong);
  }
});

test('keys and words of earlier versions are unknown, and the present ones are suggested', async () => {
  await toldOf(
    load(
      'data: d\nsettle_s: 1\nplain_turn_s: 2\nnats: { tasks: true }\npeers: [{ id: p, url: http://p, kind: upstream }]\n',
    ),
    [
      'at data: expected one of name, bus, nats, listen, data_dir,',
      '(did you mean "join_grace_s"?)',
      '(did you mean "plain_peer_timeout_s"?)',
      '(did you mean "store_tasks"?)',
      'at peers[0].kind: expected receiver or a2a, got "upstream" (did you mean "receiver"?)',
    ],
  );
});

test('a key that would change a prototype is refused where keys are free', async () => {
  await toldOf(load('labels:\n  a: 1\n  __proto__: { b: 2 }\n'), [
    'fleet.yaml:3:3: at labels.__proto__: expected another key, got __proto__',
  ]);
});

test('every value of a wrong kind is a problem with its line, never a crash', async () => {
  await toldOf(load('workers:\n  - 3\n  - { id: a, executor: [] }\npeers: x\n'), [
    'fleet.yaml:2:5: at workers[0]: expected a map, got the number 3',
    'fleet.yaml:3:24: at workers[1].executor: expected a map, got a list',
    'fleet.yaml:4:8: at peers: expected a map, got "x"',
  ]);
});

test('the JSON Schemas of fleet.yaml and of a worker agree with the loader', async () => {
  const { parse } = await import('yaml');
  const schemaOf = (name: string) =>
    new Ajv2020({ strict: false }).compile(
      JSON.parse(readFileSync(new URL(`../../schema/${name}.json`, import.meta.url), 'utf8')),
    );
  const validate = schemaOf('fleet-config');
  const right = [
    'workers: { id: a, executor: rehearsal }\n',
    'workers: [{ id: a, executor: { kind: acp, command: x, mcp_servers: { name: m, url: http://m } } }]\n',
    'routing: { tiers: { a: 1 } }\nnats:\nbus: [nats://a:1, nats://b:2]\n',
  ];
  for (const yaml of right) {
    await load(yaml);
    assert.ok(validate(parse(yaml)), `${yaml}: ${JSON.stringify(validate.errors)}`);
  }
  const wrong = [
    'workers: { id: a }\n',
    'workers: [{ id: a, executor: rehearsal, mcp_servers: [{ name: m }] }]\n',
    'workers: [{ id: a, executor: rehearsal, mcp_servers: [{ name: m, url: http://m, command: m }] }]\n',
    'peers: [{ id: a, url: http://a, token_env: A, token_file: a }]\n',
    'nats: { tls: { cert_file: a } }\n',
    'routing: { tiers: { "!": 1 } }\n',
    'data: x\n',
  ];
  for (const yaml of wrong) {
    await assert.rejects(load(yaml), { code: 'config_invalid' }, yaml);
    assert.ok(!validate(parse(yaml)), yaml);
  }
  assert.ok(schemaOf('worker-config')(parse('id: one\nexecutor: rehearsal\nnats: { nkey_file: one.nk }\n')));
});

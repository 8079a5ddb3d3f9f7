/**
 * A sync fails under a running host: no store acknowledges a later write as stored, and the host reports the failure
 * in `/health`, `/readyz`, the log, `handfast doctor`, and the error with its cause and remedy.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { connect as connectAgent } from '../../src/connect.ts';
import { connect } from '../../src/control-client/connect.ts';
import { asError } from '../../src/wire/errors.ts';
import { User } from '../cli/command.ts';
import { within } from '../contract/recorder.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };
const probe = spawnSync('strace', ['-f', '-qq', '-o', '/dev/null', 'true']);
const skip = probe.status === 0 ? false : 'strace is missing or not allowed to trace';

/** Makes each later sync of the process fail; returns the function that ends this. */
async function failSyncs(t: TestContext, pid: number): Promise<() => Promise<void>> {
  const inject = 'inject=fsync,fdatasync:error=EIO';
  const strace = spawn(
    'strace',
    ['-f', '-p', String(pid), '-o', '/dev/null', '-e', 'trace=fsync,fdatasync', '-e', inject],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let said = '';
  const attached = Promise.withResolvers<void>();
  strace.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    if (/attached/.test(said)) attached.resolve();
  });
  const ended = once(strace, 'close').then(() => attached.reject(new Error(said)));
  ended.catch(() => {});
  const detach = async (): Promise<void> => {
    strace.kill('SIGINT');
    await ended;
  };
  t.after(() => void strace.kill('SIGKILL'));
  await within(attached.promise, 'strace', 20_000);
  return detach;
}

async function site(t: TestContext, yaml: string) {
  const user = new User();
  t.after(() => user.leave());
  const config = user.write('handfast.yaml', yaml);
  const { command, ready } = await user.up(['--config', config, '--port', String(await ownPort())], { env: ENV });
  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const page = async (path: string) => {
    const response = await fetch(new URL(path, ready.url));
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { user, command, address: ready.url as string, token, page };
}

const CAUSE = /could not be synced to disk \(EIO\).*restart the host/;

test('sessions: the prompt fails with the cause, and the host says so everywhere', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const { user, command, address, token, page } = await site(t, 'plugins:\n  - tools\n');
  assert.deepEqual(await page('/readyz'), { status: 200, body: { status: 'ready' } });
  await using control = await connect(address, { token });
  const session = await control.create({ cwd: user.cwd });
  await (await session.prompt('say "one"')).result();
  const turn = await session.prompt('wait 1500 ms then say "two"');
  const detach = await failSyncs(t, command.child.pid as number);
  const { stopReason, error } = await within(turn.result(), 'the end of the turn', 30_000);
  assert.equal(stopReason, 'error');
  assert.match(error?.message ?? '', CAUSE);
  await detach();

  // The sync works again: that proves nothing, and nothing is acknowledged.
  for (const work of [() => session.prompt('say "three"'), () => control.create({ cwd: user.cwd })]) {
    await assert.rejects(within<unknown>(work(), 'a refusal', 30_000), (thrown) => {
      const { code, message, retryable } = asError(thrown);
      assert.deepEqual([code, retryable], ['runtime_error', false]);
      assert.match(message, CAUSE);
      return true;
    });
  }
  const health = await page('/health');
  assert.deepEqual([health.status, health.body.status], [503, 'failing']);
  const ready = await page('/readyz');
  assert.equal(ready.status, 503);
  assert.match(JSON.stringify(ready.body), CAUSE);
  assert.match(command.stderr, /a store cannot store/);
  const doctor = await user.run(['doctor'], { env: ENV });
  assert.notEqual(doctor.code, 0);
  assert.match(doctor.stdout, CAUSE);
});

for (const [name, change] of [
  ['memory', (agent: Agent) => agent.memory.open({ namespace: 'n' }).then((m) => m.store({ key: 'k', content: 'c' }))],
  ['planning', (agent: Agent) => agent.planning.createPlan('p')],
  [
    'chains',
    (agent: Agent) => agent.chains.put('c', { nodes: [{ node_id: 'a', kind: 'tool', name: 'read_file', input: {} }] }),
  ],
  ['tools', (agent: Agent) => agent.tools.call('read_file', { path: 'handfast.yaml' })],
] as const) {
  test(`${name}: a change that could not be synced is an error with its cause, then and later`, {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const { command, address, token, page } = await site(
      t,
      'journal:\n  kind: sqlite\n  durable: replies\nplugins:\n  - tools\n  - memory\n  - planning\n  - chains\n',
    );
    const agent = await agentOf(address, token);
    t.after(() => agent.close());
    await agent.tools.call('read_file', { path: 'handfast.yaml' });
    const detach = await failSyncs(t, command.child.pid as number);
    await assert.rejects(within<unknown>(change(agent), 'a change', 30_000), { message: CAUSE });
    await detach();
    await assert.rejects(within<unknown>(change(agent), 'a later change', 30_000), { message: CAUSE });
    assert.equal((await page('/readyz')).status, 503);
    assert.equal((await page('/health')).status, 503);
  });
}

const agentOf = (address: string, token: string) =>
  connectAgent(address, { token, capabilities: ['tools', 'memory', 'planning', 'chains'] });

type Agent = Awaited<ReturnType<typeof agentOf>>;

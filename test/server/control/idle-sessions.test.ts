/** The place that a control session has at its host: given back while the session is idle, taken again when it is used. */
import assert from 'node:assert/strict';
import { realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { loadConfig } from '../../../src/config/config.ts';
import { Environments } from '../../../src/control/rounds/environments.ts';
import type { Toolbox } from '../../../src/control/rounds/toolbox.ts';
import { hostSlots } from '../../../src/host/host-limits.ts';
import { OwnHost } from '../../../src/server/control/own-host.ts';
import { sessionEnvironments } from '../../../src/server/control/session-environments.ts';
import { LOCAL_PRINCIPAL } from '../../../src/session/auth.ts';
import { FakeTurn } from '../../control/support/fake-turn.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const log = { debug() {}, info() {}, warn() {}, error() {} };
const never = new AbortController().signal;

async function stand(t: TestContext, { idleMs = 50, more = '' } = {}) {
  const folder = realpathSync(temporaryFolder(t));
  writeFileSync(join(folder, 'handfast.yaml'), `listen: ["tcp://127.0.0.1:0"]\n${more}\n`);
  const config = await loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const own = new OwnHost(config, { log, slots: hostSlots(config.limits) });
  const running = await own.use();
  const environments = new Environments({
    open: sessionEnvironments({ config, log, workspaceHost: async () => running }),
    idleMs,
  });
  t.after(async () => {
    await environments.stop();
    await own.leave();
  });
  const toolbox = (session: string) => environments.for(session, { cwd: config.workspace, principal: LOCAL_PRINCIPAL });
  const places = (): number => running.host.health().sessions;
  const becomes = async (wanted: number): Promise<void> => {
    for (let left = 400; places() !== wanted && left > 0; left -= 1) await delay(20);
    assert.equal(places(), wanted);
  };
  return { environments, toolbox, places, becomes, config };
}

async function call(toolbox: Toolbox, name: string, input: object = {}) {
  const made = { name, input: input as Record<string, unknown>, providerToolName: name, callId: 'c' };
  const done = await toolbox.call(made, never, () => {});
  assert.equal(done.ok, true, JSON.stringify(done));
  return done.result as Record<string, unknown>;
}

/** Waits longer than the sessions of these tests may be idle. */
const longIdle = (): Promise<void> => delay(300);

test('an idle session has no place at its host, and takes one again with its next call', async (t) => {
  const { toolbox, places, becomes, config } = await stand(t);
  writeFileSync(join(config.workspace, 'a.txt'), 'one');
  const first = toolbox('s1');
  await first.list();
  await toolbox('s2').list();
  assert.equal(places(), 2);
  await becomes(0);
  // A toolbox that was made before serves on, and a further one is of the same session.
  assert.equal((await call(first, 'read_file', { path: 'a.txt' })).content, 'one');
  assert.equal((await call(toolbox('s1'), 'read_file', { path: 'a.txt' })).content, 'one');
  assert.equal(places(), 1);
  await becomes(0);
});

test('a session keeps its place while a turn runs, and gives it back after the turn', async (t) => {
  const { environments, places, becomes, config } = await stand(t);
  const turn = new FakeTurn({ cwd: config.workspace, principal: LOCAL_PRINCIPAL });
  const { id } = turn.log.record;
  await environments.for(id, { cwd: config.workspace, principal: LOCAL_PRINCIPAL }, turn).list();
  await longIdle();
  assert.equal(places(), 1);
  turn.interrupt();
  await becomes(0);
});

test('an episode that was not closed keeps the place', async (t) => {
  const { toolbox, places, becomes } = await stand(t);
  const tools = toolbox('s');
  await tools.list();
  const { episode_id } = await call(tools, 'env_reset', { name: 'FrozenLake-v1', seed: 1 });
  await longIdle();
  assert.equal(places(), 1);
  await call(tools, 'env_step', { episode_id, action: 1 });
  await call(tools, 'env_close', { episode_id });
  await becomes(0);
});

test('a process keeps the place until it has ended and its output was read', async (t) => {
  const { toolbox, places, becomes } = await stand(t, {
    more: 'plugins: [tools, { use: proc, options: { programs: [cat] } }]',
  });
  const tools = toolbox('s');
  await tools.list();
  const { proc_id } = await call(tools, 'proc_run', { argv: ['cat'], interactive: true, wait_seconds: 0 });
  await longIdle();
  // Two sessions at the host: one for work that outlives turns, and one for the tools.
  assert.equal(places(), 2);
  const { output } = await call(tools, 'proc_write', { proc_id, text: 'here\n', wait_seconds: 5 });
  assert.equal(output, 'here\n');
  await call(tools, 'proc_stop', { proc_id });
  await becomes(0);
});

test('a host without room takes the places of idle sessions first, and then names its limit', async (t) => {
  const { environments, toolbox, places, config } = await stand(t, {
    idleMs: 60_000,
    more: 'limits: { max_sessions: 2 }',
  });
  await toolbox('s1').list();
  await toolbox('s2').list();
  await toolbox('s3').list();
  assert.ok(places() <= 2);
  for (const id of ['busy1', 'busy2']) {
    const turn = new FakeTurn({ cwd: config.workspace, principal: LOCAL_PRINCIPAL });
    await environments.for(id, { cwd: config.workspace, principal: LOCAL_PRINCIPAL }, turn).list();
  }
  await assert.rejects(toolbox('s4').list(), ({ message, detail }: { message: string; detail: object }) => {
    assert.match(message, /2 sessions, its limit.*limits\.max_sessions/);
    assert.equal((detail as { session_limit: number }).session_limit, 2);
    return true;
  });
});

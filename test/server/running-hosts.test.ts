/**
 * The search of commands for the hosts of their user: announced, found and removed records.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { dialable, findRunning, type RunningHost, registerRunningHost } from '../../src/server/running-hosts.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const record = (pid: number, started_at: number): RunningHost => ({
  pid,
  host_id: 'box',
  url: 'http://127.0.0.1:4700',
  listeners: ['http://127.0.0.1:4700'],
  socket: null,
  http_socket: null,
  workspace: '/somewhere',
  fleet: null,
  sessions: true,
  token_file: null,
  started_at,
});

test('a host is found from its announcement until it withdraws it', async (t) => {
  const home = temporaryFolder(t);
  assert.deepEqual(await findRunning(home), []);
  const mine = record(process.pid, 1);
  const withdraw = await registerRunningHost(home, mine);
  assert.deepEqual(await findRunning(home), [mine]);
  assert.equal(statSync(join(home, 'running', `box-${process.pid}.json`)).mode & 0o777, 0o600);
  await withdraw();
  await withdraw();
  assert.deepEqual(await findRunning(home), []);
});

test('of several the newest comes first, and those whose process is gone are cleared away', async (t) => {
  const home = temporaryFolder(t);
  for (const [pid, started] of [
    [11, 1],
    [12, 3],
    [13, 2],
  ] as const)
    await registerRunningHost(home, record(pid, started));
  const found = await findRunning(home, (pid) => pid !== 12);
  assert.deepEqual(
    found.map(({ pid }) => pid),
    [13, 11],
  );
  assert.deepEqual(readdirSync(join(home, 'running')).sort(), ['box-11.json', 'box-13.json']);
});

test('what is no announcement is cleared away, and drafts are left alone', async (t) => {
  const home = temporaryFolder(t);
  const folder = join(home, 'running');
  mkdirSync(folder);
  writeFileSync(join(folder, 'half.json'), '{"pid":');
  writeFileSync(join(folder, 'odd.json'), JSON.stringify({ ...record(process.pid, 1), listeners: 'none' }));
  writeFileSync(join(folder, 'zero.json'), JSON.stringify(record(0, 1)));
  writeFileSync(join(folder, 'box-1.json.0f0f.new'), '{');
  assert.deepEqual(await findRunning(home), []);
  assert.deepEqual(readdirSync(folder), ['box-1.json.0f0f.new']);
});

test('an address of every interface is dialled as one of this machine', () => {
  assert.equal(dialable('http://0.0.0.0:4700'), 'http://127.0.0.1:4700');
  assert.equal(dialable('tcp://[::]:4700'), 'tcp://[::1]:4700');
  for (const address of ['http://10.0.0.0:4700', 'unix:///0.0.0.0:1', 'tcp://[::1]:4700']) {
    assert.equal(dialable(address), address);
  }
});

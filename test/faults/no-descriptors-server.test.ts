/**
 * F-122: a server has no descriptor left for new connections, which the system then closes before the server sees them. The
 * server reports this in its log and to the connected clients, until it has descriptors again.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { User } from '../cli/command.ts';
import { ownPort } from '../support/own-port.ts';

const probe = spawnSync('prlimit', ['--version']);
const skip = probe.status === 0 ? false : 'prlimit is missing: install util-linux';

test('a server that can accept no connection reports it until it can', { skip, timeout: 120_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const { command, ready } = await user.up(['--port', String(await ownPort())], { env: { HANDFAST_KEYRING: 'off' } });
  const pid = command.child.pid as number;
  const connection = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => connection.destroy());
  const readyz = (agent: Agent | false = connection): Promise<{ status: number; body: string }> =>
    new Promise((resolve, reject) => {
      get(new URL('/readyz', ready.url as string), { agent }, (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (text: string) => (body += text));
        response.once('end', () => resolve({ status: response.statusCode as number, body }));
      }).once('error', reject);
    });
  const until = async (status: number) => {
    for (;;) {
      const found = await readyz();
      if (found.status === status) return found.body;
      await setTimeout(100);
    }
  };
  await until(200);
  const limit = (value: string): void => {
    const { status, stderr } = spawnSync('prlimit', [`--nofile=${value}`, '--pid', String(pid)], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  };
  const before = /Soft|(\d+)/.exec(
    spawnSync('prlimit', ['--nofile', '-o', 'SOFT', '--noheadings', '--pid', String(pid)], { encoding: 'utf8' }).stdout,
  )?.[1];
  const highest = Math.max(...readdirSync(`/proc/${pid}/fd`).map(Number));
  // Lower numbers may be free: the next descriptors take them.
  limit(`${Math.min(highest, readdirSync(`/proc/${pid}/fd`).length) + 1}:`);
  const held: Agent[] = [];
  t.after(() => {
    for (const agent of held) agent.destroy();
  });
  // Takes the rest.
  for (let refused = false; !refused; ) {
    const agent = new Agent({ keepAlive: true });
    held.push(agent);
    refused = await readyz(agent).then(
      () => false,
      () => true,
    );
  }
  const body = await until(503);
  assert.match(body, /no file descriptor left; raise its limit \(ulimit -n\)/);
  await command.says('new connections are closed unanswered', 'stderr');
  limit(`${before}:`);
  await until(200);
  assert.equal((await readyz(false)).status, 200);
});

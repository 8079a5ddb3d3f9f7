/** Workers that connect by themselves: the kit listens, and each case takes the next connection of a real worker. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { User } from '../cli/command.ts';
import { newRepository } from '../cli/fleet-bench.ts';

const user = new User();
after(() => user.leave());

test('a worker that connects passes every case of workers', { timeout: 300_000 }, async () => {
  const repo = newRepository(join(user.cwd, 'repo'));
  const kit = user.start([
    ...['conformance', 'fleet', '--listen', 'tcp://127.0.0.1:0', '--brief', 'say "x"', '--timeout', '30', '--json'],
  ]);
  await kit.says('\n', 'stderr');
  const [address = ''] = /tcp:\S+/.exec(kit.stderr) ?? [];
  const worker = user.start(['worker', '--join', address, '--id', 'w', '--executor', 'rehearsal', '--repo', repo]);
  const { code, stdout, stderr } = await kit.ended();
  worker.child.kill('SIGINT');
  await worker.ended();
  assert.equal(code, 0, stdout + stderr);
  const { target, passed, failed, skipped, cases } = JSON.parse(stdout);
  assert.deepEqual([target, failed, passed + skipped], [address, 0, cases.length]);
  const ofWorkers = cases.filter(({ id }: { id: string }) => /^FLT-(?:WK|WD|RW)-/.test(id));
  assert.ok(ofWorkers.length > 30 && ofWorkers.every(({ status }: { status: string }) => status === 'passed'));
});

test('an address of HTTP, two addresses, and a program that is no worker', async () => {
  assert.equal((await user.failure(['conformance', 'fleet', '--listen', 'http://127.0.0.1:0'])).code, 'usage');
  const both = ['--listen', 'tcp://127.0.0.1:0', '--target', 'tcp://127.0.0.1:1'];
  assert.equal((await user.failure(['conformance', 'fleet', ...both])).code, 'usage');
  assert.equal((await user.failure(['conformance', 'fleet', '--listen', 'tcp://0.0.0.0:0'])).code, 'config_invalid');
  const kit = user.start(['conformance', 'fleet', '--listen', 'tcp://127.0.0.1:0', '--timeout', '1']);
  await kit.says('\n', 'stderr');
  const socket = connect(Number(/:(\d+)\n/.exec(kit.stderr)?.[1]), '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  const { code, stderr } = await kit.ended();
  assert.equal(code, 7);
  assert.match(stderr, /expected SESSION_ANNOUNCE/);
  socket.destroy();
});

/** Children that another process starts: what they say and how they end is that of children of this one. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { Launcher } from '../../../src/base/children/launcher.ts';

const textOf = async (stream: Readable): Promise<string> => (await stream.setEncoding('utf8').toArray()).join('');

test('a launched child has its own output, channel, environment, directory, priority and exit', {
  timeout: 120_000,
  skip: process.platform === 'win32' ? 'this process starts them there' : false,
}, async (t) => {
  const launcher = new Launcher(3);
  t.after(() => launcher.close());
  const code = `
    const { Socket } = require('node:net');
    const channel = new Socket({ fd: 3 });
    channel.once('data', (bytes) => {
      channel.end('got ' + bytes + process.env.WORD + process.cwd());
      process.stdout.write('out'.repeat(100_000));
      process.stderr.write('err');
      process.exitCode = 7;
    });`;
  // Many at once, each with its own.
  await Promise.all(
    Array.from({ length: 4 }, async (_, at) => {
      const child = await launcher.launch({
        argv: [process.execPath, '-e', code],
        cwd: '/',
        env: { WORD: `word ${at} ` },
      });
      assert.equal(getPriority(child.pid), 3);
      const said = textOf(child.channel as Readable);
      const [out, err] = [textOf(child.stdout), textOf(child.stderr)];
      child.channel?.write(`bytes ${at} `);
      assert.deepEqual(await child.exited, { code: 7, signal: null });
      assert.deepEqual([await said, await err], [`got bytes ${at} word ${at} /`, 'err']);
      assert.equal((await out).length, 300_000);
    }),
  );
  // As of a child of this process.
  const killed = await launcher.launch({ argv: ['/bin/sh', '-c', 'sleep 60 & wait'], env: process.env });
  killed.signal('SIGKILL');
  assert.deepEqual([await killed.exited, killed.exit], [{ code: null, signal: 'SIGKILL' }, killed.exit]);
  const brief = await launcher.launch({ argv: ['/bin/sh', '-c', 'exit 5'], env: {} });
  assert.deepEqual(await brief.exited, { code: 5, signal: null });
  await assert.rejects(launcher.launch({ argv: ['/no/such/program'], env: {} }), { code: 'ENOENT' });
});

test('all that a launcher started ends with it, and it starts again', {
  timeout: 120_000,
  skip: process.platform === 'linux' ? false : 'needs /proc to find it',
}, async (t) => {
  const launcher = new Launcher();
  t.after(() => launcher.close());
  const sleeping = () => launcher.launch({ argv: ['/bin/sleep', '600'], env: {} });
  const first = await sleeping();
  const [, parent] = /\) \S (\d+) /.exec(readFileSync(`/proc/${first.pid}/stat`, 'latin1')) ?? [];
  assert.notEqual(Number(parent), process.pid);
  process.kill(Number(parent), 'SIGKILL');
  assert.deepEqual(await first.exited, { code: null, signal: 'SIGKILL' });
  const second = await sleeping();
  const closed = once(second.stdout.resume(), 'close');
  await launcher.close();
  await Promise.all([second.exited, closed]);
});

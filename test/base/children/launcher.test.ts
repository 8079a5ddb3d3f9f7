/**
 * Children that another process starts: their output and their ends are those of children of this one.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import type { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Launcher } from '../../../src/base/children/launcher.ts';

/** Tests that look for the process that starts children. */
const FINDS = { timeout: 120_000, skip: process.platform === 'linux' ? false : 'needs /proc to find it' };
/** Returns a launcher for a test, and a function that starts a child that does nothing. */
function sleepers(t: TestContext) {
  const launcher = new Launcher();
  t.after(() => launcher.close());
  return { launcher, sleeping: () => launcher.launch({ argv: ['/bin/sleep', '600'], env: {} }) };
}
const textOf = async (stream: Readable): Promise<string> => (await stream.setEncoding('utf8').toArray()).join('');
const parentOf = (pid: number): number => Number(/\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1]);

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

test('all that a launcher started ends with it, and it starts again', FINDS, async (t) => {
  const { launcher, sleeping } = sleepers(t);
  const first = await sleeping();
  const parent = parentOf(first.pid);
  assert.notEqual(parent, process.pid);
  process.kill(parent, 'SIGKILL');
  assert.deepEqual(await first.exited, { code: null, signal: 'SIGKILL' });
  const second = await sleeping();
  const closed = once(second.stdout.resume(), 'close');
  await launcher.close();
  await Promise.all([second.exited, closed]);
});

test(
  'a launcher that is killed while it starts children leaves no socket open, and every start settles',
  FINDS,
  async (t) => {
    const { sleeping } = sleepers(t);
    const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length;
    const before = sockets();
    // At another moment of the starts each time.
    for (let round = 0; round < 12; round++) {
      const first = await sleeping();
      const starts = Array.from({ length: 4 }, sleeping);
      await sleep(round);
      process.kill(parentOf(first.pid), 'SIGKILL');
      for (const start of await Promise.allSettled([first, ...starts])) {
        if (start.status === 'rejected') continue;
        const { value: child } = start;
        child.stdout.resume();
        child.stderr.resume();
        (child.channel as Readable).resume();
        assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' });
      }
    }
    for (let waited = 0; sockets() > before && waited < 30_000; waited += 10) await sleep(10);
    assert.ok(sockets() <= before);
  },
);

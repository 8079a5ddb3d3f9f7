/**
 * Peculiarities of links to child processes: starting, stopping, last words, and command lines.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { type SpawnLinkOptions, spawnLink, splitCommand } from '../../src/transport/subprocess.ts';
import { PATIENCE_MS, Recorder, within } from '../contract/recorder.ts';
import fc from '../support/properties.ts';

/** Starts a Node child that runs `script`. */
function node(script: string, options: Partial<SpawnLinkOptions> = {}) {
  return spawnLink({ command: process.execPath, args: ['-e', script], ...options });
}

/** Returns true while a process with this id runs. False for one that has ended but was not collected by its parent. */
function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' && process.platform !== 'linux';
  }
}

/** Resolves when a process has ended. */
async function gone(pid: number): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    const look = setInterval(() => {
      if (runs(pid)) return;
      clearInterval(look);
      resolve();
    }, 5);
  });
  await within(ended, `process ${pid} to be gone`);
}

const SAYS_HELLO = 'process.stdout.write(JSON.stringify({ pid: process.pid }) + "\\n");';

describe('a link to a child process', () => {
  test('a program that is not there is unreachable', async () => {
    await assert.rejects(spawnLink({ command: 'no-such-program-here' }), { code: 'unreachable', retryable: true });
    await assert.rejects(spawnLink({ command: process.execPath, cwd: '/no/such/folder' }), { code: 'unreachable' });
    await assert.rejects(spawnLink({ command: 'bad\0name' }), { code: 'unreachable' });
  });

  test('the child gets its arguments as they are, its folder and its environment on top of ours', async () => {
    const script = `
      const { argv, env } = process;
      console.log(JSON.stringify({ argv: argv.slice(1), cwd: process.cwd(), extra: env.EXTRA, path: env.PATH !== undefined }));
      process.stdin.resume();`;
    const args = ['-e', script, '--', '$HOME `x` "y" \\ *'];
    const link = await spawnLink({ command: process.execPath, args, cwd: tmpdir(), env: { EXTRA: 'set' } });
    const recorder = Recorder.on(link);
    await recorder.count(1);
    assert.deepEqual(recorder.messages[0], {
      argv: ['$HOME `x` "y" \\ *'],
      cwd: realpathSync(tmpdir()),
      extra: 'set',
      path: true,
    });
    // Arguments that may be secret are not in the name of the peer.
    assert.match(link.peer, /^stdio:.*node \(pid \d+\)$/);
    await link.close();
  });

  test('closing closes the input, and the exit code is reported', async () => {
    const link = await node('process.stdin.resume().on("end", () => process.exit(0))');
    const recorder = Recorder.on(link);
    await within(link.close('done', PATIENCE_MS), 'the close');
    assert.deepEqual(recorder.causes, [{ clean: true, reason: 'done', exitCode: 0 }]);
  });

  test('a child that fails by itself ends the link with its code and its last words', async () => {
    const lines: string[] = [];
    const script =
      'console.error("first\\n\\nno such plugin: x"); process.stdin.resume(); process.exitCode = 7; process.exit();';
    const link = await node(script, { onStderr: (line) => lines.push(line) });
    const recorder = Recorder.on(link);
    const cause = await recorder.end();
    assert.equal(cause.clean, false);
    assert.equal(cause.exitCode, 7);
    assert.match(cause.reason, /exited with code 7: no such plugin: x$/);
    assert.deepEqual(lines, ['first', 'no such plugin: x']);
  });

  test('output that comes right before the exit is not lost', async () => {
    const script =
      'process.stdout.write(JSON.stringify({ pad: "x".repeat(200000) }) + "\\n" + JSON.stringify({ last: true }))';
    const link = await node(script);
    const recorder = Recorder.on(link);
    const cause = await recorder.end();
    assert.deepEqual(recorder.messages.at(-1), { last: true });
    assert.equal(recorder.messages.length, 2);
    assert.equal(cause.exitCode, 0);
  });

  test('a flood on stderr is drained, its lines are cut', async () => {
    let longest = 0;
    let count = 0;
    const script = `
      const { writeSync } = require('node:fs');
      for (let n = 0; n < 64; n++) { try { writeSync(2, 'e'.repeat(65536)); } catch { n--; } }
      writeSync(2, '\\nend\\n');
      console.log('{"flooded":true}');`;
    const link = await node(script, {
      onStderr(line) {
        longest = Math.max(longest, line.length);
        count += 1;
      },
    });
    const recorder = Recorder.on(link);
    await recorder.count(1);
    await recorder.end();
    assert.equal(longest, 4096);
    assert.equal(count, 2);
  });

  test('a child that ignores the end of its input is terminated', async () => {
    const link = await node(`${SAYS_HELLO} setInterval(() => {}, 1000);`);
    const recorder = Recorder.on(link);
    await recorder.count(1);
    await within(link.close('enough', 50), 'the close');
    const cause = recorder.causes[0];
    assert.equal(cause?.clean, false);
    assert.match(cause?.reason ?? '', /within 50 ms; the program was ended by SIGTERM/);
    await gone(recorder.messages[0]?.pid as number);
  });

  test('a child that ignores SIGTERM too is killed', async () => {
    const link = await node(`process.on('SIGTERM', () => {}); ${SAYS_HELLO} setInterval(() => {}, 1000);`, {
      terminateMs: 50,
    });
    const recorder = Recorder.on(link);
    await recorder.count(1);
    await within(link.close('enough', 50), 'the close');
    assert.match(recorder.causes[0]?.reason ?? '', /ended by SIGKILL/);
    await gone(recorder.messages[0]?.pid as number);
  });

  /** A child that starts another child, which holds the same output and ignores signals. */
  const FAMILY = `
    const { spawn } = require('node:child_process');
    const script = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log(JSON.stringify({ pid: process.pid }));";
    spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'inherit', 'ignore'] });`;

  test('what the child started goes with it: when it is dropped', async () => {
    const link = await node(`${FAMILY} process.stdin.resume();`);
    const recorder = Recorder.on(link);
    await recorder.count(1);
    link.destroy('no more');
    const cause = await recorder.end();
    assert.match(cause.reason, /^no more; the program was ended by SIGKILL/);
    await gone(recorder.messages[0]?.pid as number);
  });

  test('what the child started goes with it: when it has exited and left its output open', async () => {
    const link = await node(`${FAMILY} process.stdin.resume().on('data', () => process.exit(3));`);
    const recorder = Recorder.on(link);
    await recorder.count(1);
    link.send('{"exit":true}');
    const cause = await recorder.end();
    assert.equal(cause.exitCode, 3);
    await gone(recorder.messages[0]?.pid as number);
  });

  test('a process that exits takes its children with it', async () => {
    const module = new URL('../../src/transport/subprocess.ts', import.meta.url).href;
    const script = `
      const { spawnLink } = await import(${JSON.stringify(module)});
      const child = ${JSON.stringify(`${SAYS_HELLO} process.on('SIGTERM', () => {}); setInterval(() => {}, 1000);`)};
      for (let n = 0; n < 12; n++) {
        const link = await spawnLink({ command: process.execPath, args: ['-e', child] });
        await new Promise((resolve) => link.open({
          message(text) { console.log(JSON.parse(text).pid); resolve(); }, malformed() {}, ended() {}, closed() {},
        }));
      }
      process.exit(0);`;
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    const { stdout, stderr } = await within(run, 'the process with children');
    const pids = stdout.trim().split('\n').map(Number);
    assert.equal(pids.length, 12);
    // A dozen listeners for the exit are no leak, and not warned about as one.
    assert.equal(stderr, '');
    for (const pid of pids) await gone(pid);
  });
});

describe('splitting a command line', () => {
  test('follows the quoting of a shell and expands nothing', () => {
    const cases: [string, string[]][] = [
      ['', []],
      ['  ', []],
      ['node server.js', ['node', 'server.js']],
      [' a\t b\n c ', ['a', 'b', 'c']],
      [`a 'b c' "d e"`, ['a', 'b c', 'd e']],
      [`a'b'"c"d`, ['abcd']],
      [`'' ""`, ['', '']],
      [`a\\ b`, ['a b']],
      [`"a\\"b\\\\c\\d"`, ['a"b\\c\\d']],
      [`'a\\b'`, ['a\\b']],
      [`\\'x\\'`, [`'x'`]],
      ['$HOME `id` $(id) * ~ | ; > &', ['$HOME', '`id`', '$(id)', '*', '~', '|', ';', '>', '&']],
    ];
    for (const [line, words] of cases) assert.deepEqual(splitCommand(line), words, line);
  });

  test('refuses what a shell would wait for', () => {
    for (const line of [`a "b`, `a 'b`, 'a\\', `'`]) assert.throws(() => splitCommand(line), { code: 'usage' }, line);
  });

  test('gives back any words that were quoted', () => {
    const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
    fc.assert(
      fc.property(fc.array(fc.string()), (words) => {
        assert.deepEqual(splitCommand(words.map(quote).join(' ')), words);
        const escaped = words.map((word) => `"${word.replace(/["\\]/g, '\\$&')}"`);
        assert.deepEqual(splitCommand(escaped.join('\t')), words);
      }),
    );
  });
});

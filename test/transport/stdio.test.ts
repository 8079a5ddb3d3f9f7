/**
 * Peculiarities of a process's own stdio: any kind of file, and prints of any code.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { within } from '../contract/recorder.ts';

const echo = fileURLToPath(new URL('./fixtures/stdio-echo.ts', import.meta.url));

function start(stdio: StdioOptions): ChildProcess {
  return spawn(process.execPath, [echo], { stdio });
}

async function textOf(stream: NodeJS.ReadableStream | null | undefined): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream ?? []) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Returns exit code, stdout and stderr. A child that does not end is killed, so that the test run does. */
async function outcome(child: ChildProcess): Promise<[number | null, string, string]> {
  const exit = new Promise<number | null>((resolve) => child.once('close', resolve));
  const all = Promise.all([exit, textOf(child.stdout), textOf(child.stderr)]);
  return within(all, 'the child to end').finally(() => child.kill('SIGKILL'));
}

describe('a stdio link', () => {
  let folder = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'handfast-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  test('keeps stdout for messages: everything printed goes to stderr', async () => {
    const child = start('pipe');
    child.stdin?.end('{"n":1}\n\n{"n":2}');
    const [code, stdout, stderr] = await outcome(child);
    assert.equal(stdout, '{"n":1}\n{"n":2}\n');
    for (const stray of ['log', 'captured log', 'info', 'table', 'write', 'between']) {
      assert.match(stderr, new RegExp(`stray ${stray}|'${stray}'`));
    }
    assert.match(stderr, /"clean":true,"reason":"input ended"/);
    assert.equal(code, 0);
  });

  test('reads from a file and writes to a file', async () => {
    const [from, to] = [join(folder, 'in'), join(folder, 'out')];
    const lines = Array.from({ length: 5000 }, (_, n) => `{"n":${n},"pad":"${'x'.repeat(50)}"}\n`).join('');
    writeFileSync(from, lines);
    const [input, output] = [openSync(from, 'r'), openSync(to, 'w')];
    const child = start([input, output, 'pipe']);
    closeSync(input);
    closeSync(output);
    const [code, , stderr] = await outcome(child);
    assert.equal(readFileSync(to, 'utf8') === lines, true);
    assert.match(stderr, /"clean":true/);
    assert.equal(code, 0);
  });

  test('ends at once when its input is empty', async () => {
    const child = start(['ignore', 'pipe', 'pipe']);
    const [code, stdout, stderr] = await outcome(child);
    assert.equal(stdout, '');
    assert.match(stderr, /"clean":true/);
    assert.equal(code, 0);
  });

  test('works over the pipes of a shell', async () => {
    const child = spawn('sh', [
      '-c',
      `printf '{"n":1}\\n{"n":2}\\n' | "$0" "$1" 2>/dev/null | cat`,
      process.execPath,
      echo,
    ]);
    const [code, stdout] = await outcome(child);
    assert.equal(stdout, '{"n":1}\n{"n":2}\n');
    assert.equal(code, 0);
  });

  test('ends when its output is no longer read', async () => {
    const child = start('pipe');
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
    child.stdout?.destroy();
    child.stdin?.on('error', () => {});
    const speak = setInterval(() => child.stdin?.write('{"n":1}\n'), 20);
    const ended = Promise.all([exit, textOf(child.stderr)]);
    const [code, stderr] = await within(ended, 'the child to end').finally(() => clearInterval(speak));
    assert.match(stderr, /"clean":false/);
    assert.equal(code, 0);
  });

  test('writes everything to a slow reader before it exits', async () => {
    const child = start('pipe');
    const line = `{"pad":"${'x'.repeat(500_000)}"}\n`;
    child.stdin?.end(line.repeat(4));
    child.stderr?.resume();
    await within(new Promise((resolve) => child.stdin?.once('finish', resolve)), 'the input to be written');
    const [code, stdout] = await outcome(child);
    assert.equal(stdout === line.repeat(4), true);
    assert.equal(code, 0);
  });
});

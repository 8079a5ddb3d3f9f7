/** Processes at a terminal: its size, its keys, its output to the last byte, its end, and that no other program has it open. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { runProgram } from '../../../src/base/program.ts';
import type { OutputPiece, RemoteProcess } from '../../../src/capabilities/proc/client.ts';
import { agentOf, isAlive, procHost, until } from './support.ts';

const pty = { cols: 100, rows: 30 };

async function textOf(child: RemoteProcess): Promise<string> {
  let text = '';
  for await (const piece of child.output()) {
    assert.equal(piece.stream, 'stdout');
    text += piece.text;
  }
  return text;
}

/** Reads on until a text has arrived; returns the text so far. */
async function says(output: AsyncGenerator<OutputPiece, unknown>, text: string): Promise<string> {
  let seen = '';
  while (!seen.includes(text)) {
    const { value, done } = await output.next();
    assert.ok(!done, `ended after ${JSON.stringify(seen)}`);
    seen += (value as OutputPiece).text;
  }
  return seen;
}

/** Returns the number of terminals that a process has open, without its own. */
function mastersOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((name) => /ptmx$/.test(readlinkSync(`/proc/${pid}/fd/${name}`))).length;
}

describe('a process at a terminal', { timeout: 120_000 }, () => {
  test('has it as its own, of the size and the type that were asked for', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(
      ['sh', '-c', 'tty; stty size; echo $TERM; echo oops >&2; ps -o tty= -p $$; exit 3'],
      {
        pty,
      },
    );
    const [path = '', size, type, oops, own = ''] = (await textOf(child)).split('\r\n');
    assert.match(path, /^\/dev\//);
    assert.deepEqual([size, type, oops], ['30 100', 'xterm-256color', 'oops']);
    assert.equal(`/dev/${own.trim()}`, path);
    assert.deepEqual(await child.wait(), { code: 3, signal: '', reason: 'exited' });
    assert.deepEqual((await child.info()).pty, pty);
    const plain = await proc.spawn(['sh', '-c', 'tty']);
    assert.equal((await plain.info()).pty, undefined);
    await plain.wait();
    await assert.rejects(plain.resize(pty), { code: 'proc_dead' });
    await using piped = await proc.spawn(['cat']);
    await assert.rejects(piped.resize(pty), { code: 'proc.invalid', message: 'the process has no terminal' });
  });

  test('gets what is typed, its keys as signals, and its size', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const shell = await proc.spawn(['sh'], { pty, env: { PS1: 'ready> ', TERM: 'dumb' } });
    const output = shell.output();
    await says(output, 'ready> ');
    await shell.write('sleep 600; echo "after $TERM"\r');
    await says(output, 'sleep 600');
    // A child of the shell that has not become the program yet may lose an interrupt.
    await until(
      () => readdirSync('/proc').some((pid) => parentOf(pid) === shell.pid && nameOf(pid) === 'sleep'),
      'the program',
    );
    await shell.write('\x03');
    await says(output, 'ready> ');
    await shell.resize({ cols: 77, rows: 33 });
    await shell.write('stty size\r');
    await says(output, '33 77\r\n');
    assert.deepEqual((await shell.info()).pty, { cols: 77, rows: 33 });
    await shell.eof();
    assert.equal((await shell.wait()).reason, 'exited');
    await assert.rejects(shell.write('late'), { code: 'proc_dead' });
  });

  test('reads the end of its input as Ctrl-D, also behind an open line', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'stty -echo; echo on; cat'], { pty });
    const output = child.output();
    await says(output, 'on');
    await child.write('one\ntwo', { eof: true });
    assert.match(await says(output, 'two'), /^one\r\ntwo$/);
    assert.equal((await child.wait()).code, 0);
  });

  test('waits while nothing reads its output, and loses nothing', async (t) => {
    const { proc } = await agentOf(t, await procHost(t, { proc: { ringBytes: 64 * 1024 } }));
    const lines = 100_000;
    const child = await proc.spawn(['sh', '-c', `i=0; while [ $i -lt ${lines} ]; do echo $i; i=$((i+1)); done`], {
      pty,
    });
    await until(async () => (await child.info()).output.paused, 'a pause');
    const { bytes } = (await child.info()).output;
    assert.ok(bytes < 512 * 1024, `${bytes} bytes were read ahead`);
    const all = (await textOf(child)).split('\r\n');
    assert.deepEqual([all.length, all[0], all.at(-2)], [lines + 1, '0', String(lines - 1)]);
  });

  test('does not hold up the host when it does not read what is typed', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'stty raw -echo; echo on; exec sleep 600'], { pty });
    await says(child.output(), 'on');
    const writing = child.write('x'.repeat(1024 * 1024));
    writing.catch(() => {});
    assert.equal((await child.info()).state, 'running');
    await assert.rejects(child.write('x'.repeat(4 * 1024 * 1024 - 1000)), { code: 'proc_limit' });
    await child.kill('SIGKILL');
    await assert.rejects(writing, { code: 'proc_dead' });
  });

  test('ends with its jobs, also those that ignore the hang-up', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    for (const how of ['kill', 'exit'] as const) {
      const shell = await proc.spawn(['sh'], { pty, env: { PS1: 'ready> ' } });
      const output = shell.output();
      await says(output, 'ready> ');
      // With `set -m` each job has a separate group.
      await shell.write('set -m; (trap "" HUP TERM; exec sleep 600) & echo "job=$!="\r');
      const [, job] = /job=(\d+)=/.exec(await says(output, '=\r\n')) ?? [];
      const pid = Number(job);
      assert.ok(isAlive(pid));
      if (how === 'kill') await shell.kill('SIGKILL');
      else await shell.write('exit\r');
      await until(() => !isAlive(pid), 'the end of the job');
      await shell.wait();
    }
  });

  test('is ended with its session at once: a shell does not wait for SIGKILL', async (t) => {
    const site = await procHost(t);
    const agent = await agentOf(t, site);
    const shell = await agent.proc.spawn(['sh'], { pty, env: { PS1: 'ready> ' } });
    await says(shell.output(), 'ready> ');
    await agent.close();
    await until(() => !isAlive(shell.pid), 'the end of the shell');
  });

  test('has no terminal of another one open, and neither has a program on pipes', async (t) => {
    if (process.platform !== 'linux') return t.skip('only Linux shows what others have open');
    const site = await procHost(t);
    const { proc } = await agentOf(t, site);
    const before = readdirSync('/proc/self/fd').length;
    const first = await proc.spawn(['sleep', '600'], { pty });
    const second = await proc.spawn(['sleep', '600'], { pty });
    const plain = await proc.spawn(['sleep', '600']);
    assert.deepEqual(
      [first, second, plain].map(({ pid }) => mastersOf(pid)),
      [0, 0, 0],
    );
    for (const child of [first, second, plain]) await child.kill('SIGKILL');
    await until(() => readdirSync('/proc/self/fd').length <= before + 1, 'closed descriptors');
  });

  test('is not started where the package is missing, and the error says what to install', async () => {
    const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}.ts`, import.meta.url).href);
    const script = `
      import { registerHooks } from 'node:module';
      registerHooks({ resolve(name, context, next) {
        if (name.startsWith('@lydell/')) throw Object.assign(new Error('none'), { code: 'MODULE_NOT_FOUND' });
        return next(name, context);
      } });
      const { procPlugin } = await import(${module('capabilities/proc/plugin')});
      const { createHost } = await import(${module('host/host')});
      const { connect } = await import(${module('connect')});
      const host = createHost({ plugins: [procPlugin({ programs: ['cat'] })] });
      await host.start();
      const agent = await connect(host, { capabilities: ['proc'] });
      await agent.proc.spawn(['cat'], { pty: { cols: 1, rows: 1 } }).catch(({ code, message }) => console.log(code, message));
      await agent.close();
      await host.close(0);`;
    const argv = [process.execPath, '-C', 'handfast-source', '--input-type=module', '-e', script] as const;
    const { stdout, stderr } = await runProgram({ argv, env: process.env, timeoutMs: 60_000 });
    const said = 'terminals need the package @lydell/node-pty; it is not installed: npm install @lydell/node-pty';
    assert.equal(String(stdout), `proc.not_started ${said}\n`, String(stderr));
  });

  test('cannot have an empty input, nor a size that is none', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    await assert.rejects(proc.spawn(['cat'], { pty, stdin: 'null' }), { code: 'proc.invalid' });
    await assert.rejects(proc.spawn(['cat'], { pty: { cols: 0, rows: 1 } }), { code: 'schema_violation' });
  });
});

/** Returns the name of the program of a process; undefined: no process has this id. */
function nameOf(pid: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Returns the process that started one; NaN: no process has this id. */
function parentOf(pid: string): number {
  try {
    return Number(
      readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /, '')
        .split(' ')[1],
    );
  } catch {
    return Number.NaN;
  }
}

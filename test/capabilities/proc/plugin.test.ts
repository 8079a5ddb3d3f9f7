/** The proc capability over a host, with real processes: spawn, write, read, kill, wait, and the causes of their ends. */
import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { OutputPiece, RemoteProcess } from '../../../src/capabilities/proc/client.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { agentOf, isAlive, procHost, until } from './support.ts';

/** Returns the whole output of a process, by stream. */
async function textOf(child: RemoteProcess): Promise<{ stdout: string; stderr: string; pieces: OutputPiece[] }> {
  const pieces: OutputPiece[] = [];
  for await (const piece of child.output()) pieces.push(piece);
  const of = (name: string) =>
    pieces
      .filter(({ stream }) => stream === name)
      .map(({ text }) => text)
      .join('');
  return { stdout: of('stdout'), stderr: of('stderr'), pieces };
}

describe('a process', { timeout: 120_000 }, () => {
  test('prints by line, reads its input to the end, and has an exit code', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'echo one; echo two >&2; cat; printf rest; exit 3']);
    assert.match(child.id, /^[0-9a-f]{32}$/);
    assert.ok(isAlive(child.pid));
    await child.write('typed\nand');
    await child.write(' more\n', { eof: true });
    const { stdout, stderr, pieces } = await textOf(child);
    assert.deepEqual([stdout, stderr], ['one\ntyped\nand more\nrest', 'two\n']);
    assert.deepEqual(
      pieces.map(({ seq }) => seq),
      pieces.map((_, at) => at),
    );
    assert.deepEqual(await child.wait(), { code: 3, signal: '', reason: 'exited' });
    const { state, exit_code, cmd } = await child.info();
    assert.deepEqual([state, exit_code], ['crashed', 3]);
    assert.match(cmd, /^sh -c echo one/);
    await assert.rejects(child.write('late'), { code: 'proc_dead' });
  });

  test('gets a folder of the workspace, its variables and no secret of the host', async (t) => {
    const site = await procHost(t, {
      proc: { hostEnvironment: { PATH: process.env.PATH, SECRET: 'x', TOOL_HOME: '/opt' }, passEnv: ['TOOL_HOME'] },
    });
    mkdirSync(join(site.workspace, 'sub'));
    const { proc } = await agentOf(t, site);
    const child = await proc.spawn(['sh', '-c', 'pwd -P; echo "$A $SECRET $TOOL_HOME"'], {
      cwd: 'sub',
      env: { A: 'a' },
    });
    assert.equal((await textOf(child)).stdout, `${realpathSync(join(site.workspace, 'sub'))}\na  /opt\n`);
    await assert.rejects(proc.spawn(['sh'], { cwd: '..' }), { code: 'proc.denied' });
    await assert.rejects(proc.spawn(['sh'], { cwd: 'none' }), { code: 'proc.invalid' });
    await assert.rejects(proc.spawn(['sh'], { env: { LD_PRELOAD: 'x' } }), { code: 'proc.denied' });
  });

  test('with stdin null reads an empty input, and its input cannot be written to', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'cat; echo end; sleep 600'], { stdin: 'null' });
    const output = child.output();
    assert.equal(((await output.next()).value as OutputPiece).text, 'end\n');
    await assert.rejects(child.write('x'), { code: 'proc_dead', message: 'its standard input is closed' });
    await child.kill('SIGKILL');
  });

  test('ends by real signals, and what it started ends with it', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'sleep 600 & echo $!; wait']);
    const output = child.output();
    const inner = Number(((await output.next()).value as OutputPiece).text);
    assert.ok(isAlive(inner));
    assert.equal(await child.kill(), 'stopped');
    assert.deepEqual(await child.wait(), { code: -15, signal: 'SIGTERM', reason: 'killed' });
    await until(() => !isAlive(inner), 'the end of its child');
    assert.equal(await child.kill(), 'stopped');
    await assert.rejects(child.kill('SIGNONE'), { code: 'proc.invalid', message: 'there is no signal "SIGNONE"' });

    const handling = await proc.spawn([
      'sh',
      '-c',
      'trap "echo told; exit 0" INT; echo ready; while :; do sleep 0.1; done',
    ]);
    const told = handling.output();
    await told.next();
    await handling.kill('SIGINT');
    assert.equal(((await told.next()).value as OutputPiece).text, 'told\n');
    assert.deepEqual(await handling.wait(), { code: 0, signal: '', reason: 'exited' });

    const itself = await proc.spawn(['sh', '-c', 'kill -KILL $$']);
    assert.deepEqual(await itself.wait(), { code: -9, signal: 'SIGKILL', reason: 'signal' });
    assert.equal((await itself.info()).state, 'crashed');
  });

  test('is ended when its time is over, also when it ignores SIGTERM', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const child = await proc.spawn(['sh', '-c', 'trap "" TERM; echo on; while :; do sleep 0.1; done'], {
      timeoutMs: 300,
    });
    const exit = await child.wait();
    assert.deepEqual(exit, { code: -9, signal: 'SIGKILL', reason: 'timedout' });
    assert.equal((await child.info()).state, 'timedout');
  });

  test('ends when the signal of its spawn aborts', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const abort = new AbortController();
    const child = await proc.spawn(['sleep', '600'], { signal: abort.signal });
    abort.abort();
    assert.equal((await child.wait()).reason, 'killed');
    await assert.rejects(proc.spawn(['sleep', '600'], { signal: AbortSignal.abort() }), { name: 'AbortError' });
  });

  test('ends with its session, and with its host', async (t) => {
    const site = await procHost(t);
    const agent = await agentOf(t, site);
    const mine = await agent.proc.spawn(['sh', '-c', 'setsid sleep 600 & sleep 600']);
    const other = await (await agentOf(t, site, 'bo')).proc.spawn(['sleep', '600']);
    await agent.close();
    await until(() => !isAlive(mine.pid), 'the end of the process');
    assert.ok(isAlive(other.pid));
    await site.host.close(0);
    await until(() => !isAlive(other.pid), 'the end of the other process');
  });

  test('ends when its session may run none any more, and its reader has that', async (t) => {
    const rights = (...capabilities: string[]) => [
      { principal: { name: 'p', capabilities }, digests: [tokenDigest('p-token')] },
    ];
    const auth = createAuthenticator(rights('proc'));
    const site = await procHost(t, { auth });
    const agent = await agentOf(t, site, 'ana', 'p');
    const child = await agent.proc.spawn(['cat']);
    await child.write('first\n');
    const reading = child.output();
    assert.equal(((await reading.next()).value as OutputPiece).text, 'first\n');
    auth.replace(rights());
    await assert.rejects(reading.next(), { code: 'capability_missing' });
    await until(() => !isAlive(child.pid), 'the end of the process');
    auth.replace(rights('proc'));
    const { proc } = await agentOf(t, site, 'ana', 'p');
    while ((await proc.list()).length > 0) await pause(10);
  });

  test('is found again by its id by its agent and by an administrator, and by no other agent', async (t) => {
    const site = await procHost(t, {
      principals: [
        { name: 'p', capabilities: ['proc'] },
        { name: 'q', capabilities: ['proc'] },
        { name: 'root', admin: true },
      ],
    });
    const child = await (await agentOf(t, site, 'ana', 'p')).proc.spawn(['cat']);
    const again = await (await agentOf(t, site, 'ana', 'p')).proc.find(child.id);
    await again.write('from another session\n');
    const reading = again.output();
    assert.equal(((await reading.next()).value as OutputPiece).text, 'from another session\n');
    for (const [agentId, principal] of [
      ['bo', 'p'],
      ['ana', 'q'],
    ] as const) {
      const { proc } = await agentOf(t, site, agentId, principal);
      await assert.rejects(proc.find(child.id), { code: 'unknown_proc' });
      assert.deepEqual(await proc.list({ all: true }), []);
    }
    const root = await agentOf(t, site, 'cli', 'root');
    assert.deepEqual(await root.proc.list(), []);
    assert.deepEqual(
      (await root.proc.list({ all: true })).map(({ proc_id }) => proc_id),
      [child.id],
    );
    assert.equal(await (await root.proc.find(child.id)).kill('SIGKILL'), 'stopped');
  });
});

describe('programs', { timeout: 60_000 }, () => {
  const denied = { code: 'proc.denied', message: 'Command not allowed' };

  test('run only when a rule names them, by the file they are and by their arguments', async (t) => {
    const site = await procHost(t, { proc: { programs: ['cat', 'sh -c echo*', 'sleep ** '] } });
    const { proc } = await agentOf(t, site);
    await assert.rejects(proc.spawn([]), { code: 'proc.invalid', message: 'Empty command' });
    await assert.rejects(proc.spawn(['']), { message: 'Empty command' });
    await assert.rejects(proc.spawn(['ls']), denied);
    await assert.rejects(proc.spawn(['sh', '-c', 'ls']), denied);
    await assert.rejects(proc.spawn(['sh', '-c', 'echo', 'more']), denied);
    await assert.rejects(proc.spawn(['sh']), denied);
    assert.deepEqual(await (await proc.spawn(['sh', '-c', 'echo one'])).wait(), {
      code: 0,
      signal: '',
      reason: 'exited',
    });
    // Another program under an allowed name, and an allowed one under another.
    writeFileSync(join(site.workspace, 'cat'), '#!/bin/sh\necho forged\n', { mode: 0o755 });
    await assert.rejects(proc.spawn(['./cat']), denied);
    await assert.rejects(proc.spawn([join(site.workspace, 'cat')]), denied);
    symlinkSync('/bin/cat', join(site.workspace, 'link'));
    await using linked = await proc.spawn(['./link']);
    await linked.write('through the link\n', { eof: true });
    assert.equal((await textOf(linked)).stdout, 'through the link\n');
  });

  test('of a grant take the place of those of the configuration', async (t) => {
    const site = await procHost(t, {
      proc: { programs: ['cat'] },
      principals: [
        { name: 'more', grants: { proc: { programs: ['sleep'] } } },
        { name: 'none', grants: { proc: { programs: [] } } },
      ],
    });
    const more = await agentOf(t, site, 'a', 'more');
    await using child = await more.proc.spawn(['sleep', '600']);
    assert.ok(isAlive(child.pid));
    await assert.rejects(more.proc.spawn(['cat']), denied);
    const none = await agentOf(t, site, 'a', 'none');
    await assert.rejects(none.proc.spawn(['cat']), denied);
    assert.deepEqual([await more.proc.programs(), await none.proc.programs()], [['sleep'], []]);
  });

  test('that are named and not there cannot be started', async (t) => {
    const { proc } = await agentOf(t, await procHost(t, { proc: { programs: ['no-such-program'] } }));
    await assert.rejects(proc.spawn(['no-such-program']), {
      code: 'proc.not_started',
      message: '"no-such-program" was not found',
    });
  });

  test('run in a number that is limited, for each principal', async (t) => {
    const site = await procHost(t, {
      proc: { maxProcesses: 2 },
      principals: ['p', 'q'].map((name) => ({ name, capabilities: ['proc'] })),
    });
    const { proc } = await agentOf(t, site, 'a', 'p');
    const [first] = await Promise.all([proc.spawn(['sleep', '600']), proc.spawn(['sleep', '600'])]);
    await assert.rejects(proc.spawn(['sleep', '600']), {
      code: 'proc_limit',
      detail: { row: 'quota_exceeded', limit: 'processes', max: 2 },
    });
    await (await agentOf(t, site, 'a', 'q')).proc.spawn(['sleep', '600']);
    await first.kill('SIGKILL');
    await proc.spawn(['sleep', '600']);
  });
});

describe('output', { timeout: 120_000 }, () => {
  test('that nothing reads makes the process wait, and nothing of it is lost', async (t) => {
    const { proc } = await agentOf(t, await procHost(t, { proc: { ringBytes: 64 * 1024 } }));
    const lines = 200_000;
    const child = await proc.spawn(['sh', '-c', `i=0; while [ $i -lt ${lines} ]; do echo $i; i=$((i+1)); done`]);
    await until(async () => (await child.info()).output.paused, 'a pause');
    const before = (await child.info()).output.bytes;
    let next = 0;
    for await (const { text } of child.output()) assert.equal(text, `${next++}\n`);
    assert.equal(next, lines);
    assert.ok(before < 1024 * 1024, `${before} bytes were read ahead`);
  });

  test('that may be dropped is dropped, oldest first, and readers get the number of what they missed', async (t) => {
    const { proc } = await agentOf(t, await procHost(t, { proc: { ringBytes: 64 * 1024 } }));
    const child = await proc.spawn(['sh', '-c', 'i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i+1)); done'], {
      overflow: 'drop',
    });
    await until(async () => (await child.info()).state !== 'running', 'its end');
    await until(async () => (await child.info()).output.next === 9999, 'all output');
    const { pieces } = await textOf(child);
    const [first] = pieces;
    assert.equal(pieces.at(-1)?.text, '9998\n');
    assert.ok((first?.missed ?? 0) > 0 && first?.missed === first?.seq, JSON.stringify(first));
    assert.deepEqual(await child.wait(), { code: 0, signal: '', reason: 'exited' });
  });

  test('comes in pieces of long lines, and with chunks before its line break', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    const long = await proc.spawn([process.execPath, '-e', 'process.stdout.write("é".repeat(300000))']);
    const { stdout, pieces } = await textOf(long);
    assert.ok(pieces.length > 1);
    assert.equal(stdout, 'é'.repeat(300_000));
    await using prompting = await proc.spawn(['sh', '-c', 'printf "name? "; read -r name; echo "hello $name"'], {
      chunks: true,
    });
    const output = prompting.output();
    assert.equal(((await output.next()).value as OutputPiece).text, 'name? ');
    await prompting.write('Ana\n');
    assert.equal(((await output.next()).value as OutputPiece).text, 'hello Ana\n');
  });

  test('can be read from a place, and without waiting for more', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    await using child = await proc.spawn(['sh', '-c', 'echo a; echo b; echo c; cat']);
    await until(async () => (await child.info()).output.next === 3, 'three lines');
    const seen: string[] = [];
    for await (const { text } of child.output({ from: 1, follow: false })) seen.push(text);
    assert.deepEqual(seen, ['b\n', 'c\n']);
    // A reader that leaves only ends its reading.
    for await (const _ of child.output()) break;
    assert.equal((await child.info()).state, 'running');
  });

  test('is complete although this thread was blocked while the program ended', async (t) => {
    const { proc } = await agentOf(t, await procHost(t));
    for (let run = 0; run < 5; run++) {
      const child = await proc.spawn(['sh', '-c', 'sleep 0.05; echo last']);
      const reading = textOf(child);
      // Longer than the wait for a silent process, at any moment of the end.
      const until = performance.now() + 2_000;
      const blocking = setInterval(() => {
        const busy = performance.now() + 600;
        while (performance.now() < busy);
        if (performance.now() > until) clearInterval(blocking);
      }, 1);
      assert.equal((await reading).stdout, 'last\n');
      clearInterval(blocking);
    }
  });
});

describe('limits', { timeout: 120_000 }, () => {
  test('of output end a process, which says so', async (t) => {
    const { proc } = await agentOf(t, await procHost(t, { proc: { maxOutputBytes: 100_000 } }));
    const child = await proc.spawn(['sh', '-c', 'while :; do echo a line of text; done']);
    assert.equal((await child.wait()).reason, 'limit');
    const { output, limits } = await child.info();
    assert.deepEqual(limits, { output_bytes: 100_000 });
    assert.ok(output.bytes > 100_000 && output.bytes < 2_000_000, `${output.bytes} bytes`);
  });

  test('of the system are in force as far as the status says', async (t) => {
    const wanted = { cpuSeconds: 1, memoryBytes: 64 * 1024 * 1024, fileBytes: 4096, openFiles: 32 };
    const { proc } = await agentOf(t, await procHost(t, { proc: { ...wanted, maxSeconds: 60 } }));
    const child = await proc.spawn(['sh', '-c', 'while :; do :; done'], { stdin: 'null' });
    const { limits } = await child.info();
    if (limits.cpu_seconds === undefined) {
      await child.kill('SIGKILL');
      assert.deepEqual(limits, { seconds: 60 });
      return t.skip('prlimit is not here, and the status says so');
    }
    const inForce = { cpu_seconds: 1, memory_bytes: 64 * 1024 * 1024, file_bytes: 4096, open_files: 32, seconds: 60 };
    assert.deepEqual(limits, inForce);
    assert.deepEqual(await child.wait(), { code: -24, signal: 'SIGXCPU', reason: 'signal' });
    const open = await proc.spawn(['sh', '-c', 'ulimit -n; ulimit -c']);
    assert.equal((await textOf(open)).stdout, '32\n0\n');
    const writing = await proc.spawn(['sh', '-c', 'cat /dev/zero > file']);
    assert.notEqual((await writing.wait()).code, 0);
    const eating = await proc.spawn(['sh', '-c', 'x=xxxxxxxx; while :; do x=$x$x; done']);
    assert.notEqual((await eating.wait()).code, 0);
  });

  test('of a process with all it starts are in force as far as the status says, and nothing of it is left', async (t) => {
    const { proc } = await agentOf(
      t,
      await procHost(t, { proc: { treeMemoryBytes: 64 * 1024 ** 2, treeProcesses: 8 } }),
    );
    const forking = await proc.spawn(['sh', '-c', 'for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; wait'], {
      stdin: 'null',
    });
    const { limits } = await forking.info();
    if (limits.tree_processes === undefined || limits.tree_memory_bytes === undefined) {
      await forking.kill('SIGKILL');
      return t.skip('control groups cannot be made here, and the status says so');
    }
    assert.deepEqual(limits, { tree_memory_bytes: 64 * 1024 ** 2, tree_processes: 8 });
    assert.match((await textOf(forking)).stderr, /fork/);
    const eating = await proc.spawn(['sh', '-c', 'x=xxxxxxxx; while :; do x=$x$x; done']);
    assert.equal((await eating.wait()).code, -9);
    // It cleared its environment, left its session and lost its parent.
    const leaving = await proc.spawn([
      'sh',
      '-c',
      '(setsid env -i sh -c "echo \\$\\$; exec sleep 600" &); sleep 0.3; exit 2',
    ]);
    const pid = Number((await textOf(leaving)).stdout);
    assert.ok(pid > 1);
    assert.equal((await leaving.wait()).code, 2);
    await until(() => !isAlive(pid), 'the end of what left');
  });
});

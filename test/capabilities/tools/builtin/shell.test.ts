import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { signalGroup } from '../../../../src/base/child.ts';
import { childEnvironment } from '../../../../src/base/child-environment.ts';
import { shell } from '../../../../src/capabilities/tools/builtin/index.ts';
import { OutputCapture } from '../../../../src/capabilities/tools/builtin/output-capture.ts';
import type { HandfastError } from '../../../../src/wire/errors.ts';
import { call, callShaped, failsWith, makeWorkspace, put, testCall } from './support.ts';

const tool = shell({ killGraceMs: 300 });

/** Returns true while a process runs; one that is dead but not yet collected by its parent does not count. */
function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (!existsSync('/proc/self/stat')) return true;
    const line = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return line[line.lastIndexOf(')') + 2] !== 'Z';
  } catch {
    return false;
  }
}

async function waitFor(what: string, ready: () => boolean): Promise<void> {
  const until = performance.now() + 60_000;
  while (!ready()) {
    if (performance.now() > until) throw new Error(`waited too long for ${what}`);
    await delay(10);
  }
}

test('a command comes with its output, streams apart, and its exit code', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace);
  const run = await callShaped(tool, { command: 'echo out; echo err >&2; exit 3' }, context);
  const { duration_ms, ...data } = run.data;
  assert.deepEqual(data, {
    exit_code: 3,
    signal: null,
    timed_out: false,
    stdout: 'out\n',
    stderr: 'err\n',
    stdout_bytes: 4,
    stderr_bytes: 4,
    truncated: false,
    background_ended: false,
  });
  assert.ok(Number.isInteger(duration_ms));
  assert.deepEqual([run.exitCode, run.summary], [3, 'exit code 3']);
  const logged = (level: string) => context.events.filter(({ kind, data }) => kind === 'log' && data.level === level);
  assert.equal(
    logged('stdout')
      .map(({ data }) => data.message)
      .join(''),
    'out\n',
  );
  assert.equal(
    logged('stderr')
      .map(({ data }) => data.message)
      .join(''),
    'err\n',
  );
});

test('argv is passed on exactly, without a shell', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const args = ['$HOME', '*', 'a b', '; echo injected', '"\'\\', '€'];
  const argv = [process.execPath, '-e', 'console.log(JSON.stringify(process.argv.slice(1)))', '--', ...args];
  const run = await call(tool, { argv }, testCall(workspace));
  assert.deepEqual(JSON.parse(run.stdout), args);
});

test('either argv or command must be given, and a missing program is reported', async (t) => {
  const { workspace } = await makeWorkspace(t, { plain: 'no program' });
  const bad = failsWith('tool_error', 'bad_arguments');
  await assert.rejects(call(tool, {}, testCall(workspace)), bad);
  await assert.rejects(call(tool, { argv: ['a'], command: 'b' }, testCall(workspace)), bad);
  await assert.rejects(call(tool, { argv: [''] }, testCall(workspace)), bad);
  await assert.rejects(call(tool, { command: 'a\0b' }, testCall(workspace)), bad);
  // If a folder of the user's PATH may not be searched, the program is not known to be missing.
  const plainPath = shell({ hostEnvironment: { PATH: '/usr/bin:/bin' } });
  const missing = call(plainPath, { argv: ['no-such-program'] }, testCall(workspace));
  await assert.rejects(missing, failsWith('tool_error', 'command_not_found'));
  const plain = call(tool, { argv: ['./plain'] }, testCall(workspace));
  await assert.rejects(plain, failsWith('tool_error', 'not_executable', workspace));
});

test('the working directory stays inside the workspace', async (t) => {
  const { workspace, outside } = await makeWorkspace(t, { 'a/b/f': '' });
  await symlink('..', join(workspace, 'out'));
  await symlink('a/b', join(workspace, 'in'));
  assert.equal((await call(tool, { command: 'pwd' }, testCall(workspace))).stdout, `${workspace}\n`);
  assert.equal((await call(tool, { command: 'pwd', cwd: 'in' }, testCall(workspace))).stdout, `${workspace}/a/b\n`);
  for (const cwd of ['..', 'out', '/tmp']) {
    const denied = failsWith('tool_denied', 'outside_workspace', outside);
    await assert.rejects(call(tool, { command: 'pwd', cwd }, testCall(workspace)), denied, cwd);
  }
  await assert.rejects(
    call(tool, { command: 'pwd', cwd: 'x' }, testCall(workspace)),
    failsWith('tool_error', 'not_found'),
  );
});

test('the environment holds what is harmless and what was added, no secrets of the host', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const hostEnvironment = {
    PATH: process.env.PATH,
    HOME: '/home/x',
    LC_ALL: 'C',
    API_KEY: 'secret',
    NODE_OPTIONS: '--x',
  };
  const asked = { argv: ['env'], env: { MINE: 'a=b' } };
  const context = testCall(workspace);
  const restricted = call(shell({ hostEnvironment }), asked, context);
  await assert.rejects(restricted, (error: HandfastError) => {
    assert.match(error.message, /variable MINE; a command line can set it: MINE=… program, or the grant env: \[MINE\]/);
    return failsWith('tool_denied', 'env_refused')(error);
  });
  Object.assign(context.session, { principal: { name: 'a', env: ['MINE'] } });
  const run = await call(shell({ hostEnvironment }), asked, context);
  const seen = Object.fromEntries(
    run.stdout
      .trimEnd()
      .split('\n')
      .map((line: string) => line.split(/=(.*)/s).slice(0, 2)),
  );
  const { HANDFAST_CHILD_OF: marker, ...rest } = seen;
  assert.deepEqual(rest, { PATH: process.env.PATH, HOME: '/home/x', LC_ALL: 'C', MINE: 'a=b' });
  assert.match(marker, /^[0-9a-f]{32}\.\d+;$/);
});

test('variables that change what programs load are refused', () => {
  for (const name of [
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'ld_preload',
    'DYLD_INSERT_LIBRARIES',
    'NODE_OPTIONS',
    'BASH_ENV',
    'PATH',
    'PYTHONSTARTUP',
  ]) {
    assert.throws(() => childEnvironment({ [name]: 'x' }, {}), failsWith('tool_denied', 'env_refused'), name);
  }
  for (const name of ['', 'A=B', 'BASH_FUNC_x%%', 'é', '1A']) {
    assert.throws(() => childEnvironment({ [name]: 'x' }, {}), failsWith('tool_error', 'bad_env'), name);
  }
  assert.throws(() => childEnvironment({ A: 'x\0' }, {}), failsWith('tool_error', 'bad_env'));
  const any = childEnvironment(JSON.parse('{"__proto__":"x"}'), {}, { covered: () => true });
  assert.deepEqual(Object.entries(any).at(-1), ['__proto__', 'x']);
  assert.deepEqual(childEnvironment({}, { SECRET: 'x' }), { PATH: '/usr/local/bin:/usr/bin:/bin' });
});

test('standard input is given whole, or not at all, and need not be read', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const text = 'line €\n'.repeat(20_000);
  const counted = await call(tool, { command: 'wc -c', stdin: text }, testCall(workspace));
  assert.equal(Number(counted.stdout), Buffer.byteLength(text));
  assert.equal((await call(tool, { command: 'cat' }, testCall(workspace))).stdout, '');
  const unread = await call(tool, { command: 'exec <&-; sleep 0.05; echo done', stdin: text }, testCall(workspace));
  assert.deepEqual([unread.stdout, unread.exit_code], ['done\n', 0]);
});

test('of long output the beginning and the end are kept, in bounded memory', async (t) => {
  const { workspace } = await makeWorkspace(t);
  // Events that the test stored would take the memory.
  const context = Object.assign(testCall(workspace), { emit: () => undefined });
  const before = process.memoryUsage().rss;
  const command = 'echo begin; head -c 100000000 /dev/zero | tr "\\0" x; echo; echo end';
  const run = await callShaped(tool, { command, max_output_bytes: 1000 }, context);
  assert.equal(run.data.stdout_bytes, 100_000_011);
  assert.match(run.data.stdout, /^begin\nx{494}\n… 99999011 bytes left out …\nx{495}\nend\n$/);
  assert.deepEqual([run.truncated, run.data.truncated], [true, true]);
  assert.ok(process.memoryUsage().rss - before < 100 * 1024 * 1024);
});

test('a reader that is slow slows the program down', async (t) => {
  const { workspace } = await makeWorkspace(t);
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const context = testCall(workspace, () => gate);
  const command = 'for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero; echo $i > progress; done';
  const running = call(tool, { command }, context);
  await waitFor('output', () => context.events.length > 0);
  await delay(200);
  // One read, the stream's buffer and the pipe hold a few hundred kilobytes; the rest has to wait.
  const progress = Number(await readFile(join(workspace, 'progress'), 'utf8').catch(() => '0'));
  assert.ok(progress < 8, 'the program was not held back');
  assert.equal(context.events.length, 1);
  release();
  const run = await running;
  assert.deepEqual([run.exit_code, run.stdout_bytes], [0, 800_000]);
  const sent = context.events.map(({ data }) => String(data.message).length).reduce((sum, length) => sum + length, 0);
  assert.equal(sent, 800_000);
});

test('characters cut between two reads arrive whole', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const script = `const bytes = Buffer.from('€😀é\\n');
    let at = 0;
    const next = () => { if (at < bytes.length) process.stdout.write(bytes.subarray(at, ++at), () => setTimeout(next, 5)); };
    next();`;
  const context = testCall(workspace);
  const run = await call(tool, { argv: [process.execPath, '-e', script] }, context);
  assert.equal(run.stdout, '€😀é\n');
  const messages = context.events.map(({ data }) => String(data.message));
  assert.equal(messages.join(''), '€😀é\n');
  assert.ok(messages.every((message) => !message.includes('\ufffd')));
});

test('output capture keeps the same bytes however they are cut', () => {
  const text = 'äöü€'.repeat(40);
  const bytes = Buffer.from(text);
  for (const size of [1, 2, 3, 7, 64, 1000]) {
    for (const limit of [0, 1, 2, 9, 100, bytes.length - 1, bytes.length, bytes.length + 1]) {
      const capture = new OutputCapture(limit);
      for (let at = 0; at < bytes.length; at += size) capture.push(bytes.subarray(at, at + size));
      const got = capture.text();
      assert.equal(capture.truncated, limit < bytes.length);
      if (!capture.truncated) assert.equal(got, text);
      else {
        const [head = '', missing, tail = ''] = got.split(/\n… (\d+) bytes left out …\n/);
        if (limit >= 9) assert.ok(text.startsWith(head) && text.endsWith(tail), `${size} ${limit}`);
        assert.ok(Number(missing) >= bytes.length - limit);
      }
    }
  }
});

test('a time limit ends the whole group and keeps the output', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const command = 'sleep 60 & echo $!; sleep 60';
  // On a busy machine, the signal may reach them late.
  const patient = shell({ killGraceMs: 30_000 });
  const run = await callShaped(patient, { command, timeout_seconds: 1.5 }, testCall(workspace));
  assert.deepEqual(
    [run.data.timed_out, run.data.signal, run.data.exit_code, run.exitCode],
    [true, 'SIGTERM', 143, 143],
  );
  const grandchild = Number(run.data.stdout);
  assert.ok(grandchild > 1);
  assert.equal(runs(grandchild), false);
});

test('a deadline of the call that comes first still leaves time for the output', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = Object.assign(testCall(workspace), { remainingMs: () => 2000 });
  const run = await call(tool, { command: 'echo so far; sleep 60' }, context);
  assert.deepEqual([run.timed_out, run.stdout], [true, 'so far\n']);
});

test('who ignores SIGTERM is killed after the grace', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const command = `trap '' TERM; sh -c 'trap "" TERM; echo $$; while :; do sleep 0.05; done' & echo $$; while :; do sleep 0.05; done`;
  const started = performance.now();
  const run = await call(tool, { command, timeout_seconds: 1.5 }, testCall(workspace));
  const took = performance.now() - started;
  assert.ok(took > 1750, `took ${took} ms`);
  assert.deepEqual([run.signal, run.exit_code], ['SIGKILL', 137]);
  const pids = run.stdout.trim().split('\n').map(Number);
  assert.equal(pids.length, 2);
  assert.deepEqual(pids.filter(runs), []);
});

test('giving the call up ends the group and fails with the reason', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace);
  const running = call(tool, { command: 'sleep 60 & echo $!; wait' }, context);
  await waitFor('output', () => context.events.length > 0);
  const grandchild = Number(context.events[0]!.data.message);
  assert.equal(runs(grandchild), true);
  context.cancel();
  await assert.rejects(running, failsWith('cancelled'));
  assert.equal(runs(grandchild), false);
});

test('a call that was given up before does not start anything', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace);
  context.cancel();
  await assert.rejects(call(tool, { command: 'touch started' }, context), failsWith('cancelled'));
  assert.equal(existsSync(join(workspace, 'started')), false);
});

test('a reader that fails ends the program', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const context = testCall(workspace, () => Promise.reject(new Error('the reader is gone')));
  await assert.rejects(call(tool, { command: 'echo $$ > pid; echo x; sleep 60' }, context), /the reader is gone/);
  assert.equal(runs(Number(await readFile(join(workspace, 'pid'), 'utf8'))), false);
});

test('what is left in the background is ended and told', async (t) => {
  const { workspace } = await makeWorkspace(t);
  for (const redirect of ['', '>/dev/null 2>&1']) {
    const run = await call(tool, { command: `sleep 60 ${redirect} & echo $!` }, testCall(workspace));
    assert.deepEqual([run.exit_code, run.background_ended, run.timed_out], [0, true, false]);
    assert.equal(runs(Number(run.stdout)), false);
  }
});

const setsid = ['/usr/bin/setsid', '/bin/setsid'].some((path) => existsSync(path));

test('F-49: a time limit ends what has left the group, forked twice and ignores SIGTERM', {
  skip: !setsid,
}, async (t) => {
  const { workspace } = await makeWorkspace(t);
  const left = `setsid sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.1; done'`;
  const command = `(${left} &); while [ ! -s pid ]; do sleep 0.02; done; echo up; sleep 60`;
  const run = await call(tool, { command, timeout_seconds: 3 }, testCall(workspace));
  assert.deepEqual([run.timed_out, run.stdout], [true, 'up\n']);
  assert.equal(runs(Number(await readFile(join(workspace, 'pid'), 'utf8'))), false);
  // The load of this machine decides between both.
  assert.match(run.descendants ?? '', /^(?:ended|may_survive)$/);
});

test('F-49: a result does not claim the end of a process that no search can find', { skip: !setsid }, async (t) => {
  const { workspace } = await makeWorkspace(t);
  const left = `env -i PATH="$PATH" setsid sh -c 'echo $$ > pid; exec sleep 120'`;
  const command = `(${left} &); while [ ! -s pid ]; do sleep 0.02; done; sleep 60`;
  const run = await call(tool, { command, timeout_seconds: 3 }, testCall(workspace));
  const escaped = Number(await readFile(join(workspace, 'pid'), 'utf8'));
  t.after(() => process.kill(escaped));
  assert.deepEqual([run.timed_out, runs(escaped), run.descendants], [true, true, 'may_survive']);
});

test('a process that left the group and holds the pipes is not waited for', { skip: !setsid }, async (t) => {
  const { workspace } = await makeWorkspace(t);
  const leaves = 'setsid sh -c "echo \\$\\$ > pid; exec sleep 120"';
  const command = `${leaves} & while [ ! -s pid ]; do sleep 0.02; done; echo done`;
  const run = await call(tool, { command }, testCall(workspace));
  assert.match(run.stdout, /done/);
  const escaped = Number(await readFile(join(workspace, 'pid'), 'utf8'));
  t.after(() => process.kill(escaped));
  assert.ok(escaped > 1 && runs(escaped));
});

test('output that a background process writes all the time does not keep the call', async (t) => {
  const { workspace } = await makeWorkspace(t);
  const run = await call(tool, { command: 'yes & echo started' }, testCall(workspace));
  assert.deepEqual([run.exit_code, run.background_ended], [0, true]);
});

test('all output of a program that ends quickly is there', async (t) => {
  const { workspace } = await makeWorkspace(t);
  await mkdir(join(workspace, 'd'));
  await put(workspace, { 'd/f': 'x'.repeat(300_000) });
  for (let round = 0; round < 5; round += 1) {
    const run = await call(tool, { argv: ['cat', 'd/f'] }, testCall(workspace));
    assert.deepEqual([run.stdout_bytes, run.exit_code, run.background_ended], [300_000, 0, false]);
  }
});

test('no signal is ever sent to everybody or to the own group', () => {
  for (const pid of [0, 1, -1, Number.NaN, 1.5]) assert.throws(() => signalGroup(pid, 0), RangeError);
});

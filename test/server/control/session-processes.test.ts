/** Processes as tools of a session's model: started, read, written to, ended, left to run behind the turn, delivered with the next prompt. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startModelServer } from '../../../src/testing/model-server.ts';
import { connectTcp } from '../../../src/transport/socket.ts';
import { isAlive, until } from '../../capabilities/proc/support.ts';
import { User } from '../../cli/command.ts';
import { RpcPeer } from '../../control/rpc/rpc-peer.ts';
import { call, create, names, started, turn } from './session-stand.ts';

const plugins = 'plugins: [tools, { use: proc, options: { programs: [sh, cat, "echo **"] } }]';

interface Work {
  readonly work: { readonly id: string; readonly kind: string; readonly state: string; readonly name: string };
  readonly event: string;
  readonly text?: string;
  readonly delivered?: boolean;
}

const of = (peer: RpcPeer, session: string, type: string) =>
  peer.events.filter((event) => event.type === type && event.payload.session_id === session);

const worked = (peer: RpcPeer, session: string): Work[] =>
  of(peer, session, 'session.work').map(({ payload }) => payload as unknown as Work);

const ends = (peer: RpcPeer, session: string) => worked(peer, session).filter(({ event }) => event === 'ended');

// biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
const lastText = (body: any): string => body.messages.at(-1).content;
// biome-ignore lint/suspicious/noExplicitAny: bodies of a provider
const lastResult = (body: any) => JSON.parse(lastText(body));

/** A script that waits until a file is there. */
const gate = (file: string, then = 'echo opened') => `while [ ! -e ${file} ]; do sleep 0.05; done; ${then}`;

test('a model finds the tools for processes by search, runs a program to its end and has its output and exit code', async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const bodies = await turn(stand, session, 'run it', [
    call('tool_search', { query: 'start a program as a background process' }),
    call('proc_run', { argv: ['sh', '-c', 'echo out; echo err >&2'] }, 'a'),
    call('proc_run', { argv: ['sh', '-c', 'printf half; exit 3'] }, 'b'),
    call('proc_run', { argv: ['ls'] }, 'c'),
    call('proc_run', { argv: ['cat'] }, 'd'),
    call('proc_list', {}),
    { text: 'done' },
  ]);
  assert.ok(!names(bodies[0]).some((name) => name.startsWith('proc_')), 'deferred');
  const found = lastResult(bodies[1]).tools.find(({ name }: { name: string }) => name === 'proc_run');
  assert.ok(found.tokens > 50, `${found.tokens} tokens`);
  assert.match(found.description, /Programs: sh, cat, echo \*\*\./);
  const { proc_id, state, exit_code, output } = lastResult(bodies[2]);
  assert.match(proc_id, /^[0-9a-f]{32}$/);
  assert.deepEqual([state, exit_code, output.split('\n').sort()], ['completed', 0, ['', 'err', 'out']]);
  const failed = lastResult(bodies[3]);
  assert.deepEqual([failed.state, failed.exit_code, failed.output], ['failed', 3, 'half']);
  assert.match(lastText(bodies[4]), /Command not allowed/);
  assert.deepEqual(
    [lastResult(bodies[5]).state, lastResult(bodies[5]).output],
    ['completed', ''],
    'its input is empty',
  );
  const { programs, processes } = lastResult(bodies[6]);
  assert.deepEqual(programs, ['sh', 'cat', 'echo **']);
  assert.deepEqual(
    processes.map(({ argv, state }: { argv: string[]; state: string }) => [argv[0], state]),
    [
      ['sh', 'completed'],
      ['sh', 'failed'],
      ['cat', 'completed'],
    ],
  );
  const shown = of(stand.peer, session, 'session.tool.output').map(({ payload }) => [payload.stream, payload.text]);
  assert.ok(
    shown.some(([stream, text]) => stream === 'stderr' && text === 'err\n'),
    JSON.stringify(shown),
  );
  assert.deepEqual(
    worked(stand.peer, session)
      .slice(0, 2)
      .map(({ event, work, text, delivered }) => [event, work.kind, work.name, text, delivered]),
    [
      ['started', 'process', 'sh', 'sh -c echo out; echo err >&2', undefined],
      ['ended', 'process', 'sh', 'completed', true],
    ],
  );
});

test('a process is written to, read from any place, and stopped, also in later turns', async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const [, ran] = await turn(stand, session, 'start', [
    call('proc_run', { argv: ['sh', '-c', 'printf "> "; cat'], interactive: true, wait_seconds: 30 }),
    { text: 'ok' },
  ]);
  const { proc_id, state, output, next } = lastResult(ran);
  assert.deepEqual([state, output, next], ['running', '> ', 2]);
  const bodies = await turn(stand, session, 'talk', [
    call('proc_write', { proc_id, text: 'hello\n', wait_seconds: 30 }, 'a'),
    call('proc_output', { proc_id, wait_seconds: 0 }, 'b'),
    call('proc_output', { proc_id, from: 1, wait_seconds: 0 }, 'c'),
    call('proc_stop', { proc_id }, 'd'),
    call('proc_write', { proc_id, text: 'more' }, 'e'),
    call('proc_output', { proc_id: 'f'.repeat(32) }, 'f'),
    { text: 'done' },
  ]);
  assert.equal(lastResult(bodies[1]).output, 'hello\n');
  assert.equal(lastResult(bodies[2]).output, '');
  assert.equal(lastResult(bodies[3]).output, ' hello\n');
  const { signal, ...stopped } = lastResult(bodies[4]);
  assert.deepEqual([stopped.state, signal, stopped.reason], ['cancelled', 'SIGTERM', 'killed']);
  assert.match(lastText(bodies[5]), /proc_dead/);
  assert.match(lastText(bodies[6]), /keeps no such process/);
  const [last] = await turn(stand, session, 'and now?', [{ text: 'it was stopped' }]);
  assert.ok(!JSON.stringify(last.messages).includes('results of subagents'), 'its end is not delivered twice');
});

test('a model starts a program at a terminal, and gets its text; such a start is asked for where rules are about commands', async (t) => {
  const rules = '[{ command: ["sh ..."], then: allow }]';
  const stand = await started(t, '', plugins, { rules });
  const session = await create(stand.peer);
  const script =
    'test -t 0 && test -t 1 && printf "\\033[31mred\\033[0m %s\\n" "$(stty size)"; read line; echo "got $line"';
  const running = turn(stand, session, 'start', [
    call('proc_run', { argv: ['sh', '-c', script], pty: true, wait_seconds: 30 }),
    { text: 'ok' },
  ]);
  const requested = () => of(stand.peer, session, 'approval.requested');
  const allow = async (count: number) => {
    await stand.peer.recorder.until(() => requested().length === count, 'the question');
    const { approval } = (requested().at(-1)?.payload ?? {}) as { approval: { id: string } };
    await stand.peer.call('approval.answer', { session_id: session, approval_id: approval.id, decision: 'allow' });
  };
  await allow(1);
  const { proc_id, state, output } = lastResult((await running)[1]);
  assert.deepEqual([state, output], ['running', 'red 40 120\n']);
  const written = turn(stand, session, 'talk', [
    call('proc_write', { proc_id, text: 'hello\n', wait_seconds: 30 }, 'a'),
    { text: 'done' },
  ]);
  await allow(2);
  await stand.peer.recorder.until(() => ends(stand.peer, session).length === 1, 'the end of the process');
  assert.match(lastResult((await written)[1]).output, /^hello\n(?:got hello\n)?$/);
});

test('a process runs on behind the turn, and its end is delivered with the next prompt, once', async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const file = join(stand.folder, 'open');
  const [, ran] = await turn(stand, session, 'start', [
    call('proc_run', { argv: ['sh', '-c', gate(file)], wait_seconds: 0 }),
    { text: 'it runs' },
  ]);
  assert.equal(lastResult(ran).state, 'running');
  writeFileSync(file, '');
  await stand.peer.recorder.until(() => ends(stand.peer, session).length === 1, 'the end of the process');
  const [next] = await turn(stand, session, 'and now?', [{ text: 'it ended' }]);
  const said = JSON.stringify(next.messages);
  assert.match(said, /results of subagents, chains and processes: data/);
  assert.match(said, /process sh \(.*completed.*exit_code.*0.*opened/);
  const [last] = await turn(stand, session, 'again?', [{ text: 'no' }]);
  assert.equal(JSON.stringify(last.messages).split('results of subagents, chains and processes').length, 2, 'once');
});

test('an interrupted turn leaves its process running, unless it was to stop with the turn; the session ends it', async (t) => {
  const stand = await started(t, '', plugins);
  const pids: number[] = [];
  for (const stop_with_turn of [false, true]) {
    const session = await create(stand.peer);
    const argv = ['sh', '-c', 'echo $$; exec cat /dev/fd/3 3<>pipe'];
    stand.model.play([
      call('proc_run', { argv: ['sh', '-c', 'mkfifo pipe 2>/dev/null; exit 0'] }, 'a'),
      call('proc_run', { argv, stop_with_turn }, 'b'),
    ]);
    await stand.peer.call('session.send', { session_id: session, text: 'go' });
    const output = () => of(stand.peer, session, 'session.tool.output').map(({ payload }) => String(payload.text));
    await stand.peer.recorder.until(() => output().length > 0, 'the process to run');
    const pid = Number(output()[0]);
    pids.push(pid);
    await stand.peer.call('session.interrupt', { session_id: session });
    await stand.peer.recorder.until(
      () => of(stand.peer, session, 'session.interrupted').length > 0,
      'the end of the turn',
    );
    if (stop_with_turn) {
      await stand.peer.recorder.until(() => ends(stand.peer, session).length === 2, 'the end of the process');
      assert.equal(ends(stand.peer, session)[1]?.work.state, 'cancelled');
    } else {
      assert.ok(isAlive(pid));
      await stand.peer.call('session.close', { session_id: session });
    }
    await until(() => !isAlive(pid), 'the end of the program');
  }
});

test('the output of a process in a result is bounded: the newest is given, and the rest can be read', async (t) => {
  const stand = await started(t, '', plugins);
  const session = await create(stand.peer);
  const script = 'i=0; while [ $i -lt 5000 ]; do echo 0123456789; i=$((i+1)); done; echo last';
  const [, ran] = await turn(stand, session, 'go', [call('proc_run', { argv: ['sh', '-c', script] }), { text: 'ok' }]);
  const { proc_id, output, omitted, from, next } = lastResult(ran);
  assert.deepEqual([next, output.length, from, omitted], [55_005, 16_384, 55_005 - 16_384, 55_005 - 16_384]);
  assert.ok(output.endsWith('0123456789\nlast\n'));
  const [, read] = await turn(stand, session, 'the start', [call('proc_output', { proc_id, from: 0 }), { text: 'ok' }]);
  const first = lastResult(read);
  assert.deepEqual([first.output.length, first.from, first.next, first.more], [16_384, 0, 16_384, true]);
  assert.ok(first.output.startsWith('0123456789\n'));
});

test('a start passes the approval rules about commands; what is written to a process is asked for where they look at inputs', async (t) => {
  const rules =
    '[{ command: ["echo ..."], then: allow }, { command: [cat secret], then: deny, reason: not that }, ' +
    '{ when: "tool.name == \'proc_write\'", then: allow }]';
  const stand = await started(t, '', plugins, { rules });
  const session = await create(stand.peer);
  const requested = () => of(stand.peer, session, 'approval.requested');
  const silent = await turn(stand, session, 'go', [
    call('proc_run', { argv: ['echo', 'hi'], wait_seconds: 20, interactive: false }, 'a'),
    call('proc_run', { argv: ['cat', 'secret'] }, 'b'),
    { text: 'done' },
  ]);
  assert.equal(lastResult(silent[1]).output, 'hi\n');
  assert.match(lastText(silent[2]), /not allowed \(not that\)/);
  assert.equal(requested().length, 0);
  const answer = async (count: number, decision: string) => {
    await stand.peer.recorder.until(() => requested().length === count, 'the question');
    const { approval } = (requested().at(-1)?.payload ?? {}) as {
      approval: { id: string; title: string; risks: string[] };
    };
    await stand.peer.call('approval.answer', { session_id: session, approval_id: approval.id, decision });
    return approval;
  };
  const running = turn(stand, session, 'go on', [
    call('proc_run', { argv: ['cat'], interactive: true, wait_seconds: 0 }, 'c'),
    { text: 'done' },
  ]);
  const start = await answer(1, 'allow');
  assert.deepEqual([start.title, start.risks], ['proc_run: cat', ['exec']]);
  const { proc_id } = lastResult((await running)[1]);
  const writing = turn(stand, session, 'write', [call('proc_write', { proc_id, text: 'x\n' }), { text: 'done' }]);
  assert.equal((await answer(2, 'deny')).title, 'proc_write: x⏎');
  assert.match(lastText((await writing)[1]), /not run: it was not allowed/);
});

test('the tools are offered where a program may run, by the configuration or the grant of the principal, and run no other', async (t) => {
  const token = (letter: string) => letter.repeat(40);
  const rights =
    'capabilities: [tools, proc], sessions: { drive: own, read: own }, backends: ["*"], tools: { allow: [glob] }';
  const grants = (programs: string) => `grants: { proc: { programs: ${programs} } }`;
  const auth = `auth: { tokens: [
    { name: none, token: "${token('n')}", ${rights}, ${grants('[]')} },
    { name: one, token: "${token('o')}", ${rights}, ${grants('["echo **"]')} },
    { name: without, token: "${token('w')}", ${rights.replace(', proc', '')} } ] }`;
  const stand = await started(t, '', `${plugins}\n${auth}`, { token: token('o') });
  const session = await create(stand.peer);
  const bodies = await turn(stand, session, 'go', [
    call('tool_search', { query: 'process program' }),
    call('proc_run', { argv: ['sh', '-c', 'echo hi'] }, 'a'),
    call('proc_run', { argv: ['echo', 'hi'] }, 'b'),
    { text: 'done' },
  ]);
  const offered = lastResult(bodies[1]).tools.map(({ name }: { name: string }) => name);
  assert.ok(offered.includes('proc_run') && !offered.includes('shell'), offered.join(' '));
  assert.match(lastText(bodies[2]), /Command not allowed/);
  assert.equal(lastResult(bodies[3]).output, 'hi\n');
  for (const letter of ['n', 'w']) {
    const peer = new RpcPeer(await connectTcp(stand.tcp));
    t.after(() => peer.close());
    await peer.call('rpc.handshake', { token: token(letter) });
    const own = { ...stand, peer };
    const [first, second] = await turn(own, await create(peer), 'go', [
      call('proc_run', { argv: ['echo', 'hi'] }),
      { text: 'no' },
    ]);
    assert.ok(!names(first).includes('tool_search'), names(first).join(' '));
    assert.match(lastText(second), /unknown tool: proc_run/);
  }
});

const users: User[] = [];
after(() => Promise.all(users.map((user) => user.leave())));

test('a process ends with its killed host, and its end is delivered with the next prompt', {
  timeout: 120_000,
}, async (t) => {
  const model = await startModelServer();
  t.after(() => model[Symbol.asyncDispose]());
  const user = new User();
  users.push(user);
  const providers = `providers: { keyring: false, compatible: { base_url: "${model.baseUrl('chat')}", models: [small] } }`;
  const rules = 'approvals: { rules: [{ when: "true", then: allow }] }';
  const control = `control: { model: compatible/small, ${rules} }`;
  const config = user.write('handfast.yaml', `listen: "tcp://127.0.0.1:0"\n${control}\n${providers}\n${plugins}\n`);
  const up = async () => {
    const command = user.start(['up', '--json', '--config', config]);
    await command.says('\n');
    const { listeners, token_file } = JSON.parse(command.stdout);
    const peer = new RpcPeer(await connectTcp(listeners[0]));
    await peer.call('rpc.handshake', { token: readFileSync(token_file, 'utf8').trim() });
    return { peer, model, kill: () => command.child.kill('SIGKILL') };
  };
  const first = await up();
  const session = await create(first.peer);
  const argv = ['sh', '-c', 'echo $$; cat'];
  const [, ran] = await turn(first, session, 'start', [
    call('proc_run', { argv, interactive: true, wait_seconds: 30 }),
    { text: 'it runs' },
  ]);
  const { proc_id, output } = lastResult(ran);
  assert.ok(isAlive(Number(output)));
  first.kill();
  await until(() => !isAlive(Number(output)), 'the end of the program');
  await first.peer.close();
  const second = await up();
  t.after(() => second.peer.close());
  const [, asked] = await turn(second, session, 'what became of it?', [
    call('proc_output', { proc_id }),
    { text: 'it is gone' },
  ]);
  assert.match(JSON.stringify(asked.messages), /process sh \(.*interrupted.*ended with its session/);
  assert.match(lastText(asked), /keeps no such process/);
});

/** Rights that change while a server runs: sessions, clients and tokens get the rights of now. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '../../src/connect.ts';
import { connect as connectControl, type TurnHandle } from '../../src/control.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { dialHttp, dialWebSocket } from '../support/carriers.ts';
import { ADMIN, ann, start, TOKEN } from '../support/changing-rights.ts';

test('a capability that is withdrawn ends for a session that has it, with what runs in it', async (t) => {
  const { server, write, reload } = await start(t, ann('capabilities: [tools], tools: { allow: [shell, read_file] }'));
  const agent = await connect(server.url as string, { capabilities: ['tools'], token: TOKEN });
  t.after(() => agent.close());
  const running = agent.tools.call('shell', { command: 'sleep 30' });
  const ended = assert.rejects(Promise.resolve(running), { code: 'capability_missing' });
  for await (const _ of [1, 2, 3]) await agent.ping();
  write(ann('sessions: { read: own }'));
  assert.deepEqual(await reload(), { status: 200, body: { principals: ['root', 'ann'], restart: [] } });
  await ended;
  await assert.rejects(async () => agent.tools.call('read_file', { path: 'handfast.yaml' }), {
    code: 'capability_missing',
  });
  await agent.ping();
});

test('rules within a capability hold for the next call of a living session', async (t) => {
  const { server, folder, write, reload } = await start(t, ann('roles: [agent]'));
  writeFileSync(join(folder, 'a.txt'), 'hello');
  const agent = await connect(server.url as string, { capabilities: ['tools'], token: TOKEN });
  t.after(() => agent.close());
  await agent.tools.call('read_file', { path: 'a.txt' });
  write(ann('roles: [agent], tools: { deny: [read_file] }'));
  await reload();
  await assert.rejects(Promise.resolve(agent.tools.call('read_file', { path: 'a.txt' })), { code: 'tool_denied' });
});

test('a running call of a tool that is refused now ends, and other calls continue', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [agent], tools: { allow: [shell, read_file] }'));
  const agent = await connect(server.url as string, { capabilities: ['tools'], token: TOKEN });
  const other = await connect(server.url as string, { capabilities: ['tools'], token: ADMIN });
  t.after(() => Promise.all([agent.close(), other.close()]));
  const command = { command: 'sleep 30' };
  const refused = assert.rejects(Promise.resolve(agent.tools.call('shell', command)), { code: 'tool_denied' });
  const others = other.tools.call('shell', command);
  others.catch(() => {});
  for await (const _ of [1, 2, 3]) await Promise.all([agent.ping(), other.ping()]);
  write(ann('roles: [agent], tools: { allow: [read_file] }'));
  await reload();
  await refused;
  assert.equal(await Promise.race([others.then(() => 'ended'), other.ping().then(() => 'runs')]), 'runs');
});

test('a journal of another principal is followed only as long as that is granted', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [agent], observe: true'));
  const watched = await connect(server.url as string, { capabilities: ['tools'], token: ADMIN });
  const ann1 = await connect(server.url as string, { capabilities: ['tools'], token: TOKEN });
  t.after(() => Promise.all([watched.close(), ann1.close()]));
  const follow = ann1.journal(watched.sessionId, { follow: true });
  const ended = assert.rejects(Promise.resolve(follow), { code: 'session_not_found' });
  const own = ann1.journal('', { follow: true });
  own.catch(() => {});
  for await (const _ of [1, 2, 3]) await ann1.ping();
  write(ann('roles: [agent]'));
  await reload();
  await ended;
  assert.equal(await Promise.race([own.then(() => 'ended'), ann1.ping().then(() => 'runs')]), 'runs');
});

test('the events of sessions that may no longer be read end, and so do requests whose right was withdrawn', async (t) => {
  const { server, write, reload } = await start(t, ann('sessions: { read: all }'));
  const root = await connectControl(server.url as string, { token: ADMIN });
  const rpc = await dialWebSocket(`${(server.url as string).replace('http', 'ws')}/rpc`);
  t.after(() => Promise.all([root.close(), rpc.cut()]));
  const { session_id } = (await root.call('session.create', { title: 'secret' })) as { session_id: string };
  const call = async (id: number, method: string, params: object) => {
    rpc.send({ jsonrpc: '2.0', id, method, params } as never);
    await rpc.until(() => rpc.messages.some((message) => message.id === id), `the answer to ${method}`);
    return rpc.messages.find((message) => message.id === id) as Record<string, unknown>;
  };
  await call(1, 'rpc.handshake', { token: TOKEN });
  assert.ok((await call(2, 'events.subscribe', { session_id })).result !== undefined);
  const titles = () => rpc.lines.filter((line) => line.includes('session.renamed') || line.includes('heard')).length;
  await root.call('session.rename', { session_id, title: 'heard' });
  await rpc.until(() => titles() > 0, 'an event of the session');
  write(ann('sessions: { read: own }'));
  await reload();
  const ended = () => rpc.messages.find((message) => (message.params as { type?: unknown })?.type === 'events.ended');
  await rpc.until(() => ended() !== undefined, 'the end of the subscription');
  const before = rpc.messages.length;
  await root.call('session.rename', { session_id, title: 'hidden' });
  const refused = await call(3, 'session.get', { session_id });
  assert.equal((refused.error as { data?: { kind?: string } }).data?.kind, 'session_not_found');
  assert.equal(rpc.messages.length, before + 1, 'nothing but the refusal');
  assert.ok(!rpc.lines.some((line) => line.includes('hidden')));
});

test('a running turn ends when its owner may not run it any more', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [client]'));
  const control = await connectControl(server.url as string, { token: TOKEN });
  t.after(() => control.close());
  const turn = await (await control.create({ backend: 'rehearsal' })).prompt('wait 500 seconds');
  write(ann('sessions: { read: own, drive: own }'));
  await reload();
  assert.equal((await turn.result()).stopReason, 'interrupted');
});

test('turns in a folder that was withdrawn end, and none starts there', async (t) => {
  const elsewhere = temporaryFolder(t);
  const { server, write, reload } = await start(t, ann(`roles: [client], folders: [${elsewhere}]`));
  const control = await connectControl(server.url as string, { token: TOKEN });
  t.after(() => control.close());
  const away = await control.create({ backend: 'rehearsal', cwd: elsewhere });
  const here = await control.create({ backend: 'rehearsal' });
  const [ends, continues] = [await away.prompt('wait 500 seconds'), await here.prompt('wait 500 seconds')];
  write(ann('roles: [client]'));
  await reload();
  assert.equal((await ends.result()).stopReason, 'interrupted');
  const { error } = await (await away.prompt('say "here"')).result();
  assert.equal(error?.code, 'unauthorized');
  assert.match(error?.message ?? '', /the grant folders is missing/);
  assert.equal(await here.interrupt(continues.turnId), true);
});

test('the tools of a running turn are those of now, in every folder', async (t) => {
  const client = 'roles: [client], capabilities: [tools]';
  const { server, folder, write, reload } = await start(t, ann(client));
  const control = await connectControl(server.url as string, { token: TOKEN });
  t.after(() => control.close());
  // In the workspace, whose host is the server's, and below it, where a host is made for the session.
  mkdirSync(join(folder, 'below'));
  const turns: TurnHandle[] = [];
  for (const cwd of [folder, join(folder, 'below')]) {
    writeFileSync(join(cwd, 'a.txt'), 'what it says');
    const session = await control.create({ backend: 'rehearsal', cwd });
    turns.push(await session.prompt('read a.txt then ask "more?" then read a.txt'));
  }
  const pending = async () => (await control.rpc.approvalList({})).approvals;
  while ((await pending()).length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  write(ann(`${client}, tools: { deny: [read_file] }`));
  await reload();
  for (const { id } of await pending()) await control.rpc.approvalAnswer({ approval_id: id, decision: 'deny' });
  for (const turn of turns) {
    const done: unknown[] = [];
    for await (const event of turn) if ('type' in event && event.type.startsWith('session.tool.')) done.push(event);
    const text = JSON.stringify(done);
    assert.match(text, /what it says/);
    assert.match(text, /unknown tool: read_file/);
  }
});

test('an open stream of the HTTP binding ends with its principal', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [agent]'));
  const stream = await dialHttp(server.url as string);
  const other = await dialHttp(server.url as string);
  t.after(() => [stream.cut(), other.cut()]);
  assert.equal((await stream.shake({ auth_token: TOKEN })).ok, true);
  assert.equal((await other.shake({ auth_token: ADMIN })).ok, true);
  write('');
  await reload();
  await stream.until(() => stream.over, 'the end of the stream');
  assert.equal((await other.ping()).type, 'pong');
});

test('a principal that is no longer listed is disconnected, and its token no longer opens anything', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [agent, client]'));
  const agent = await connect(server.url as string, { capabilities: ['tools'], token: TOKEN, reconnect: { maxMs: 1 } });
  const control = await connectControl(server.url as string, { token: TOKEN, reconnect: { maxMs: 1 } });
  write('');
  await reload();
  await agent.closed;
  await control.closed;
  await assert.rejects(connect(server.url as string, { token: TOKEN }), { code: 'auth_failed' });
});

test('clients of sessions get the rights of now', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [client]'));
  const control = await connectControl(server.url as string, { token: TOKEN });
  t.after(() => control.close());
  await control.call('session.create', { title: 'one' });
  write(ann('roles: [viewer]'));
  await reload();
  await assert.rejects(control.call('session.create', { title: 'two' }), { code: 'unauthorized' });
  assert.equal(((await control.call('session.list', {})) as { total: number }).total, 1);
});

test('a file with problems changes nothing, and says where they are', async (t) => {
  const { server, write, reload } = await start(t, ann('roles: [agent]'));
  write(ann('roles: [agnet]'));
  const { status, body } = await reload();
  assert.deepEqual([status, (body.error as { code: string }).code], [400, 'config_invalid']);
  assert.match(
    JSON.stringify(body),
    /handfast\.yaml:6:\d+: at auth\.tokens\[1\]\.roles\[0\]: expected a role .* got .*agnet/,
  );
  await (await connect(server.url as string, { capabilities: ['tools'], token: TOKEN })).close();
});

test('only administrators reload, and what needs a restart is named', async (t) => {
  const { write, reload } = await start(t, ann('roles: [operator]'));
  assert.equal((await reload(TOKEN)).status, 403);
  assert.equal((await reload('wrong')).status, 401);
  write(`${ann('roles: [operator]')}limits: { max_parallel: 7 }\n`);
  assert.deepEqual((await reload()).body.restart, ['limits']);
});

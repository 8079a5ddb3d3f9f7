/** Rights that change while a server runs: sessions, clients and tokens get the rights of now. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { connect as connectControl } from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const TOKEN = 'the-token-of-the-one-who-is-changed';
const ADMIN = 'the-token-of-an-administrator-here';

async function start(t: TestContext, auth: string) {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const write = (text: string): void =>
    writeFileSync(
      file,
      `listen: http://127.0.0.1:0\nworkspace: .\nauth:\n  tokens:\n    - { name: root, token: ${ADMIN}, admin: true }\n${text}`,
    );
  write(auth);
  const env = { HANDFAST_HOME: join(folder, 'home') };
  const load = () => loadConfig(file, { env, cwd: folder });
  const server = await serve(await load(), { announce: false, reread: load });
  t.after(() => server.close(0));
  const reload = async (token = ADMIN) => {
    const response = await fetch(`${server.url}/reload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { server, folder, write, reload };
}

const ann = (grants: string): string => `    - { name: ann, token: ${TOKEN}, ${grants} }\n`;

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

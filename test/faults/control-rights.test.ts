/**
 * The rights of the control edge over a real server, as the holder of a restricted token would try them. Rows F-94 and F-95 of
 * the fault catalogue.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const tokenOf = (name: string): string => `token-of-${name}-for-this-test`;

async function start(t: TestContext, more = '') {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  const grants = {
    root: 'admin: true',
    client: 'roles: [client]',
    viewer: 'roles: [viewer]',
    nobody: '',
    keys: 'roles: [client], settings: true',
    maker: 'roles: [client], backends: [pi], mcp_servers: [trusted-server]',
    silent: 'sessions: { read: own, drive: own }, backends: [rehearsal], providers: [google]',
  };
  const tokens = Object.entries(grants).map(
    ([name, grant]) => `    - { name: ${name}, token: ${tokenOf(name)}, ${grant} }\n`,
  );
  writeFileSync(
    file,
    `listen: http://127.0.0.1:0\nauth:\n  tokens:\n${tokens.join('')}control:\n  agents: [{ name: pi, command: ${process.execPath}, args: [-e, 'require("fs").writeFileSync("ran","x")'] }]\n${more}`,
  );
  const env = { HANDFAST_HOME: join(folder, 'home') };
  const load = () => loadConfig(file, { env, cwd: folder });
  const server = await serve(await load(), { announce: false, reread: load });
  t.after(() => server.close(0));
  const as = async (name: string) => {
    const control = await connect(server.url as string, { token: tokenOf(name) });
    t.after(() => control.close());
    return control;
  };
  /** Changes the file, and makes the server read it. */
  const reload = async (change: (text: string) => string): Promise<void> => {
    writeFileSync(file, change(readFileSync(file, 'utf8')));
    await server.reload?.();
  };
  return { server, folder, as, reload };
}

const refused = (call: Promise<unknown>, grant: string) =>
  assert.rejects(call, (error: { code: string; detail: { grant?: string } }) => {
    assert.equal(error.code, 'unauthorized');
    assert.equal(error.detail.grant, grant);
    return true;
  });

test('a token without grants performs the handshake and pings, and nothing else', async (t) => {
  const { as } = await start(t);
  const nobody = await as('nobody');
  await nobody.call('system.ping', {});
  const methods = [
    'state.get',
    'session.list',
    'session.create',
    'model.list',
    'auth.status',
    'tools.list',
    'events.subscribe',
  ];
  for (const method of methods) await assert.rejects(nobody.call(method, {}), { code: 'unauthorized' }, method);
});

test('F-94: provider keys, addresses, sign-ins and the default model are changed by those with the grant settings only', async (t) => {
  const { as } = await start(t);
  const client = await as('client');
  const before = await client.call('model.list', {});
  const changes: readonly (readonly [string, object])[] = [
    ['auth.set.api_key', { provider: 'compatible', api_key: 'k', base_url: 'http://127.0.0.1:9/v1' }],
    ['auth.set.openrouter_key', { api_key: 'k' }],
    ['auth.set.exa_key', { api_key: 'k' }],
    ['auth.connect.openai', { mode: 'device_code' }],
    ['auth.connect.antigravity', {}],
    ['auth.cancel', {}],
    ['auth.logout', { provider: 'openai' }],
    ['onboarding.complete', {}],
    ['model.select', { model_id: 'gpt-5', provider: 'openai', thinking_level: 'LOW' }],
  ];
  for (const [method, params] of changes) await refused(client.call(method, params), 'settings');
  const { session_id } = (await client.call('session.create', {})) as { session_id: string };
  for (const command of ['/forgeteverything', '/quit']) {
    await refused(client.call('command.execute', { session_id, raw_command: command }), 'admin');
  }
  assert.deepEqual(await client.call('model.list', {}), before);
  await refused((await as('keys')).call('system.shutdown', {}), 'admin');
});

test('a client chooses the model of its own session, and the default of the others stays', async (t) => {
  const { as } = await start(
    t,
    'providers: { compatible: { base_url: "http://127.0.0.1:9/v1", models: [small, large] } }\n',
  );
  const [root, client] = [await as('root'), await as('client')];
  const choose = { provider: 'compatible', thinking_level: 'LOW' };
  await root.call('model.select', { ...choose, model_id: 'small' });
  const { session_id } = (await client.call('session.create', {})) as { session_id: string };
  await client.call('model.select', { ...choose, model_id: 'large', session_id });
  const { settings } = (await client.call('session.get', { session_id })) as { settings: { model: string } };
  assert.equal(settings.model, 'large');
  assert.equal(((await root.call('model.list', {})) as { selected_model: string }).selected_model, 'small');
  // Not that of another principal.
  const other = (await root.call('session.create', {})) as { session_id: string };
  await assert.rejects(client.call('model.select', { ...choose, model_id: 'large', session_id: other.session_id }), {
    code: 'session_not_found',
  });
});

test('F-95: programs behind sessions need the grant of the backend, and MCP servers theirs by name', async (t) => {
  const { folder, as } = await start(t);
  const client = await as('client');
  await refused(client.call('session.create', { backend: 'pi' }), 'backends');
  const evil = { name: 'x', command: '/bin/sh', args: ['-c', 'touch ran'], env: [] };
  await refused(client.call('session.create', { mcp_servers: [evil] }), 'mcp_servers');
  const maker = await as('maker');
  const trusted = { ...evil, command: 'trusted-server' };
  await maker.call('session.create', { backend: 'pi', mcp_servers: [trusted] });
  for (const server of [
    evil,
    { ...trusted, command: 'trusted-server ' },
    { name: 'x', command: ['trusted-server'] },
    { name: 'x' },
  ]) {
    await refused(maker.call('session.create', { backend: 'pi', mcp_servers: [trusted, server] }), 'mcp_servers');
  }
  // A variable can make a trusted program run other code.
  const preload = { LD_PRELOAD: './x.so' };
  for (const env of [preload, { A: '1' }, [{ name: 'NODE_OPTIONS', value: '--require ./x.js' }]]) {
    const bringing = maker.call('session.create', { backend: 'pi', mcp_servers: [{ ...trusted, env }] });
    await assert.rejects(bringing, (error: { code: string; message: string }) => {
      assert.equal(error.code, 'tool_denied');
      assert.match(error.message, /may not set the environment variable (LD_PRELOAD|A|NODE_OPTIONS); the grant env:/);
      return true;
    });
  }
  await maker.call('session.create', {
    backend: 'pi',
    mcp_servers: [{ ...trusted, env: { LANG: 'C', NO_COLOR: '1' } }],
  });
  assert.throws(() => readFileSync(join(folder, 'ran')), { code: 'ENOENT' });
});

test('a session that allows without asking needs the right to approve, and a provider its grant', async (t) => {
  const { as } = await start(t);
  const silent = await as('silent');
  await refused(silent.call('session.create', { approvals: 'allow' }), 'sessions.approve');
  await refused(silent.call('session.create', { provider: 'openai' }), 'providers');
  await silent.call('session.create', { provider: 'google', approvals: 'deny' });
});

test('a turn runs with the rights its owner has then', async (t) => {
  const { as, reload } = await start(t);
  const client = await as('client');
  const { session_id } = (await client.call('session.create', { backend: 'rehearsal' })) as { session_id: string };
  await reload((text) => text.replace('roles: [client] }', 'sessions: { read: own, drive: own } }'));
  await client.call('session.send', { session_id, text: 'hi' });
  const until = Date.now() + 20_000;
  while (Date.now() < until) {
    const { messages } = (await client.call('session.messages', { session_id })) as { messages: unknown[] };
    if (/the grant backends is missing/.test(JSON.stringify(messages))) return;
    await client.call('system.ping', {});
  }
  assert.fail('the turn did not fail');
});

test('a conversation is compressed only by a provider that its owner may use now', async (t) => {
  const { as, reload } = await start(
    t,
    'providers: { compatible: { base_url: "http://127.0.0.1:9/v1", models: [small] } }\n',
  );
  const [root, client] = [await as('root'), await as('client')];
  await root.call('model.select', { provider: 'compatible', thinking_level: 'LOW', model_id: 'small' });
  const { session_id } = (await client.call('session.create', {})) as { session_id: string };
  await reload((text) => text.replace('roles: [client] }', 'roles: [client], providers: [google] }'));
  const compress = { session_id, raw_command: '/compress' };
  await refused(client.call('command.execute', compress), 'providers');
  await refused(root.call('command.execute', compress), 'providers');
});

test('a viewer reads the sessions of all and steers none; ids of others are unknown to a client', async (t) => {
  const { as } = await start(t);
  const [root, client, viewer] = [await as('root'), await as('client'), await as('viewer')];
  const { session_id } = (await root.call('session.create', { title: 'of root' })) as { session_id: string };
  await viewer.call('session.get', { session_id });
  for (const [method, params] of [
    ['session.send', { session_id, text: 'x' }],
    ['session.rename', { session_id, title: 'x' }],
    ['session.delete', { session_id }],
    ['session.interrupt', { session_id }],
    ['session.fork', { session_id }],
  ] as const) {
    await refused(viewer.call(method, params), 'sessions.drive');
    await assert.rejects(client.call(method, params), { code: 'session_not_found' });
  }
  await assert.rejects(client.call('session.get', { session_id }), { code: 'session_not_found' });
});

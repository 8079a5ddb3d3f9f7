import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, type Plugin, type PluginContext } from '../../src/host/plugin.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import type { Principal } from '../../src/session/principal.ts';

const folder = mkdtempSync(join(tmpdir(), 'handfast-plugin-state-'));
const hosts: Host[] = [];
after(async () => {
  await Promise.all(hosts.map((one) => one.close(0)));
  rmSync(folder, { recursive: true });
});

async function start(options: HostOptions): Promise<{ host: Host; lines: string[] }> {
  const lines: string[] = [];
  const host = createHost({ log: createLog({ level: 'debug', write: (line) => lines.push(line) }), ...options });
  await host.start();
  hosts.push(host);
  return { host, lines };
}

/** Returns a plugin that counts calls in its store, and replies with the grant of its caller. */
const counter = (extra: Partial<Plugin> = {}): Plugin => ({
  ...toolsPlugin({
    tools: [
      tool({
        name: 'count',
        description: 'Counts calls',
        async run(_, context) {
          const { agent, session } = context.store;
          const here = await session.update<number>('count', (n = 0) => n + 1);
          return { here, ever: await agent.update<number>('count', (n = 0) => n + 1), grant: context.grant };
        },
      }),
    ],
  }),
  store: {},
  ...extra,
});

test('what a plugin stored is there for the next host; what belonged to a session is not', async () => {
  const stateFile = join(folder, 'state.db');
  for (const ever of [1, 2]) {
    const { host } = await start({ plugins: [counter()], stateFile });
    const agent = await connect(host, { capabilities: ['tools'] });
    assert.deepEqual((await agent.tools.call('count')).data, { here: 1, ever, grant: undefined });
    await host.close(0);
  }
  assert.ok(existsSync(stateFile));
});

test('a store that opens at the first request touches no file before it, and loses nothing afterwards', async () => {
  const stateFile = join(folder, 'late.db');
  const early: unknown[] = [];
  const late = counter({
    store: { opened: 'first-request' },
    start(context) {
      try {
        void context.store;
      } catch (error) {
        early.push(error);
      }
    },
  });
  for (const ever of [1, 3]) {
    const { host } = await start({ plugins: [late], stateFile });
    const agent = await connect(host, { capabilities: ['tools'] });
    await agent.ping();
    assert.equal(existsSync(stateFile), ever > 1);
    // Both wait for the same opening.
    const both = await Promise.all([agent.tools.call('count'), agent.tools.call('count')]);
    assert.deepEqual(
      both.map(({ data }) => data),
      [1, 2].map((here) => ({ here, ever: ever + here - 1, grant: undefined })),
    );
    await host.close(0);
  }
  assert.deepEqual(
    early.map((error) => (error as { code: string }).code),
    ['usage', 'usage'],
  );
});

test('a store that cannot be opened at the first request fails that request, and is tried again at the next', async () => {
  const stateFile = join(folder, 'no-folder', 'late.db');
  writeFileSync(join(folder, 'no-folder'), 'a file where a folder is needed');
  const { host } = await start({ plugins: [counter({ store: { opened: 'first-request' } })], stateFile });
  const agent = await connect(host, { capabilities: ['tools'] });
  await assert.rejects(agent.tools.call('count'), { message: /the store of the plugins/ });
  rmSync(join(folder, 'no-folder'));
  assert.deepEqual((await agent.tools.call('count')).data, { here: 1, ever: 1, grant: undefined });
});

test('a plugin that declares no store has none, and a host without such plugins opens no file', async () => {
  const stateFile = join(folder, 'unused.db');
  const { host } = await start({ plugins: [counter({ store: undefined })], stateFile });
  const agent = await connect(host, { capabilities: ['tools'] });
  await assert.rejects(agent.tools.call('count'), { code: 'usage' });
  assert.equal(existsSync(stateFile), false);
});

test('a data folder is private, made when it is asked for, and stays where the host has a place for it', async () => {
  const contexts: PluginContext[] = [];
  const keeper = definePlugin({
    name: '../keeper',
    type: 'memory',
    methods: [],
    start: (context) => void contexts.push(context),
  });
  const dataDir = join(folder, 'data');
  const { host } = await start({ plugins: [keeper], dataDir });
  assert.equal(existsSync(dataDir), false);
  const made = await contexts[0]!.dataFolder();
  assert.ok(made.startsWith(`${dataDir}/`) && !made.includes('..'), made);
  assert.equal(statSync(made).mode & 0o777, 0o700);
  writeFileSync(join(made, 'file'), 'kept');
  await host.close(0);
  assert.ok(existsSync(join(made, 'file')));

  const { host: passing } = await start({ plugins: [keeper] });
  const temporary = await contexts[1]!.dataFolder();
  assert.equal(await contexts[1]!.dataFolder(), temporary);
  assert.equal(statSync(temporary).mode & 0o777, 0o700);
  await passing.close(0);
  assert.equal(existsSync(temporary), false);
});

test('a grant is checked, completed and given to the plugin; one that does not fit keeps its principal out', async () => {
  const principals: Principal[] = [
    { name: 'none', capabilities: ['tools'] },
    { name: 'some', grants: { tools: { spaces: ['a'] } } },
    { name: 'wrong', grants: { tools: { spaces: 'a' } } },
  ];
  const grant = {
    type: 'object',
    properties: { spaces: { type: 'array', items: { type: 'string' } }, write: { type: 'boolean', default: false } },
  };
  const { host, lines } = await start({
    plugins: [counter({ grant })],
    auth: createAuthenticator(principals.map((principal) => ({ principal, digests: [tokenDigest(principal.name)] }))),
  });
  const grantOf = async (token: string) => {
    const agent = await connect(host, { capabilities: ['tools'], token });
    return ((await agent.tools.call<{ grant: unknown }>('count')).data as { grant: unknown }).grant;
  };
  assert.equal(await grantOf('none'), undefined);
  assert.deepEqual(await grantOf('some'), { spaces: ['a'], write: false });
  await assert.rejects(grantOf('wrong'), { code: 'server_error' });
  assert.match(lines.join('\n'), /the grants of \\?"wrong\\?" are not valid/);
});

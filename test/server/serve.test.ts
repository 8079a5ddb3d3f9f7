/**
 * A host out of a configuration, in this process: plugins, principals, state, audit, and the remains of a failed start.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Log } from '../../src/base/log.ts';
import { silentLog } from '../../src/base/log.ts';
import { type HostConfig, loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { sqliteJournal } from '../../src/journal/sqlite/sqlite.ts';
import { type Server, serve } from '../../src/server/serve.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { turns } from '../contract/recorder.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const DAY_MS = 86_400_000;

interface Place {
  readonly folder: string;
  readonly home: string;
  config(yaml: string): Promise<HostConfig>;
  start(yaml: string, log?: Log): Promise<Server>;
}

function place(t: TestContext): Place {
  const folder = temporaryFolder(t);
  const home = join(folder, 'home');
  const config = (yaml: string): Promise<HostConfig> => {
    writeFileSync(join(folder, 'handfast.yaml'), yaml);
    return loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: home } });
  };
  return {
    folder,
    home,
    config,
    start: async (yaml, log) => {
      const server = await serve(await config(`listen: tcp://127.0.0.1:0\n${yaml}`), { log });
      t.after(() => server.close(0));
      return server;
    },
  };
}

async function refusal(promise: Promise<unknown>): Promise<HandfastError> {
  return promise.then(
    () => assert.fail('it started'),
    (thrown: HandfastError) => thrown,
  );
}

const token = ({ tokenFile }: Server): string => readFileSync(tokenFile as string, 'utf8').trim();

test('a signal cancels starting, and nothing is left running', async (t) => {
  const { config, start, home } = place(t);
  const settings = await config('listen: tcp://127.0.0.1:0\n');
  const error = await refusal(serve(settings, { signal: AbortSignal.abort() }));
  assert.equal(error.code, 'cancelled');
  assert.equal(existsSync(join(home, 'running')), false);
  // Its data is free again.
  await start('');
});

test('plugins of the user come as one, as several, or as functions of their options, ranked as the file says', async (t) => {
  const { folder, start } = place(t);
  const source = (name: string) => `tool({ name: '${name}', description: 'One.', run: () => '${name}' })`;
  const head = `import { definePlugin, handle, tool, toolsPlugin } from 'handfast';\n`;
  writeFileSync(
    join(folder, 'made.ts'),
    `${head}export const plugin = ({ greeting }: { greeting: string }) => toolsPlugin({ name: 'made', tools: [
       tool({ name: 'greet', description: 'Greets.', run: () => greeting })] });`,
  );
  writeFileSync(
    join(folder, 'several.mjs'),
    `${head}export const plugins = [toolsPlugin({ name: 'low', tools: [${source('same')}] }),
       toolsPlugin({ name: 'lower', tools: [${source('other')}], priority: -5 })];`,
  );
  writeFileSync(
    join(folder, 'high.mjs'),
    `${head}export const plugin = toolsPlugin({ name: 'high', tools: [tool({ name: 'same', description: 'Wins.', run: () => 'high' })] });`,
  );
  const server = await start(`plugins:
  - { use: ./made.ts, options: { greeting: moin } }
  - ./several.mjs
  - { use: ./high.mjs, priority: 10 }
`);
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
  assert.equal(agent.capabilities.get('tools')?.metadata.name, 'high');
  const value = async (name: string) => ((await agent.tools.call(name)).data as { value: string }).value;
  assert.deepEqual([await value('greet'), await value('same'), await value('other')], ['moin', 'high', 'other']);
});

test('a plugin shares the classes of its host: its errors keep their codes, its results their summaries', async (t) => {
  const { folder, start } = place(t);
  writeFileSync(
    join(folder, 'shares.mjs'),
    `import { fail, result, tool, toolsPlugin } from 'handfast';
     const run = ({ ok }) => { if (ok) return result({ n: 1 }, { summary: 'one' }); throw fail('tool_error', 'no', { why: 'asked' }); };
     export const plugin = toolsPlugin({ tools: [tool({ name: 'shares', description: 'Shares.', input: { type: 'object' }, run })] });`,
  );
  const server = await start('plugins: [./shares.mjs]\n');
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
  assert.equal((await agent.tools.call('shares', { ok: true })).summary, 'one');
  const error = await refusal(agent.tools.call('shares'));
  assert.deepEqual([error.code, error.detail.why], ['tool_error', 'asked']);
});

test('a module that is not a plugin stops the start with the reason', async (t) => {
  const { folder, config } = place(t);
  const cases: [string, RegExp][] = [
    ['export const nothing = 1;', /exports neither "plugin" nor "plugins"/],
    ['export const plugin = 1;', /exports something that is not a plugin/],
    ["export const plugin = { name: 'x', type: 'tool', methods: [] };", /type "tool", which is none of skill, tools/],
    ["export const plugin = { name: 'x', type: 'tools' };", /"x" without methods/],
    ["export const plugin = { type: 'tools', methods: [] };", /without a name/],
    [
      "export const plugin = () => { throw new Error('not today'); };",
      /cannot be made: not today \(file:.*broken-\d\.mjs:1:\d+\)/,
    ],
    ['export const plugin = {', /cannot be loaded: .* \(node --check shows the position\)/],
    ["import 'no-such-package';", /cannot be loaded: .*no-such-package/],
  ];
  for (const [index, [text, message]] of cases.entries()) {
    writeFileSync(join(folder, `broken-${index}.mjs`), text);
    const error = await refusal(serve(await config(`listen: tcp://127.0.0.1:0\nplugins: [./broken-${index}.mjs]\n`)));
    assert.equal(error.code, 'config_invalid', error.message);
    assert.match(error.message, message);
  }
  writeFileSync(join(folder, 'fixed.mjs'), "export const plugin = { name: 'x', type: 'tools', methods: [] };");
  const options = 'plugins: [{ use: ./fixed.mjs, options: { a: 1 } }]\n';
  assert.match((await refusal(serve(await config(options)))).message, /accepts no options/);
});

test('a module that exports the schema of its options gets them checked, and their problems have lines', async (t) => {
  const { folder, config, start } = place(t);
  writeFileSync(
    join(folder, 'counts.mjs'),
    `export const optionsSchema = { type: 'object', required: ['step'], properties: { step: { type: 'integer', default: 2 }, start_at: { type: 'integer' } } };
     export const plugin = ({ step, startAt }) => {
       if (step !== 2 || startAt !== 5) throw new Error('got ' + step + ' and ' + startAt);
       return { name: 'counts', type: 'tools', methods: [] };
     };`,
  );
  await start('plugins: [{ use: ./counts.mjs, options: { start_at: 5 } }]\n');
  const error = await refusal(
    serve(await config('listen: tcp://127.0.0.1:0\nplugins:\n  - { use: ./counts.mjs, options: { start: 5 } }\n')),
  );
  assert.equal(error.code, 'config_invalid');
  assert.match(error.message, /:3:37: at plugins\[0\]\.options\.start: expected one of step, start_at, got "start"/);
});

test('options of the built-in tools reach them', async (t) => {
  const { start } = place(t);
  const server = await start(
    'plugins: [{ use: tools, options: { shell: true, deny: ["*_file"], deny_risks: [network] } }]\n',
  );
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
  const names = (await agent.tools.list()).map(({ name }) => name);
  assert.deepEqual(names.sort(), ['glob', 'grep', 'list_dir']);
});

test('state of plugins comes back after a restart', async (t) => {
  const { folder, home, start } = place(t);
  writeFileSync(
    join(folder, 'counts.mjs'),
    `import { tool, toolsPlugin } from 'handfast';
     let n = 0;
     export const plugin = () => ({ ...toolsPlugin({ name: 'counts', tools: [
       tool({ name: 'count', description: 'Counts.', run: () => ++n })] }),
       snapshot: () => ({ n }), restore: (state) => { n = state.n + 100; } });`,
  );
  const counted = async () => {
    const server = await start('plugins: [./counts.mjs]\n');
    await using agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
    const { data } = await agent.tools.call<{ value: number }>('count');
    await agent.close();
    await server.close();
    return data?.value;
  };
  assert.equal(await counted(), 1);
  assert.deepEqual(JSON.parse(readFileSync(join(home, 'state', 'handfast.json'), 'utf8')), { counts: { n: 1 } });
  assert.equal(await counted(), 102);
});

test('principals of the file and the local one come in, each by its own token; no client without one', async (t) => {
  const { start } = place(t);
  const server = await start('auth: { tokens: { name: ci, token: the-token-of-the-ci-job } }\n');
  const nameOf = async (sent: string) => {
    await using agent = await connect(server.url as string, { token: sent });
    return [...server.host.sessions].find(({ id }) => id === agent.sessionId)?.principal.name;
  };
  assert.equal(await nameOf('the-token-of-the-ci-job'), 'ci');
  assert.equal(await nameOf(token(server)), 'local');
  assert.equal((await refusal(nameOf(''))).code, 'auth_failed');
});

test('a principal may not take the name of the local one, whose sessions it would share', async (t) => {
  const { config } = place(t);
  const error = await refusal(
    serve(await config('listen: tcp://127.0.0.1:0\nauth: { tokens: { name: local, token: the-token-of-a-guest } }\n')),
  );
  assert.deepEqual([error.code, /"local".*is reserved/.test(error.message)], ['config_invalid', true]);
});

test('without a token everybody is local, when the file says so', async (t) => {
  const { home, start } = place(t);
  const server = await start('auth: { required: false }\n');
  assert.equal(server.tokenFile, undefined);
  await using agent = await connect(server.url as string);
  assert.equal([...server.host.sessions].find(({ id }) => id === agent.sessionId)?.principal.name, 'local');
  assert.equal(existsSync(join(home, 'token')), false);
});

test('stopping writes the audit, withdraws the announcement and closes the journal on disk', async (t) => {
  const { folder, home, start } = place(t);
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (message) => errors.push(message) };
  const server = await start('journal: { kind: sqlite, file: ./journal.db }\n', log);
  const agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
  await agent.tools.call('list_dir');
  assert.equal(readdirSync(join(home, 'running')).length, 1);
  await agent.close();
  await Promise.all([server.close(), server.close()]);
  assert.deepEqual(readdirSync(join(home, 'running')), []);
  const audit = readFileSync(join(home, 'hosts', 'handfast', 'audit.jsonl'), 'utf8');
  assert.match(audit, /"type":"tool\/call\/req","tool":"list_dir"/);
  assert.ok(existsSync(join(folder, 'journal.db')));
  // No other process could write it if it were still open.
  const again = await start('journal: { kind: sqlite, file: ./journal.db }\n', log);
  await again.close();
  assert.deepEqual(errors, []);
});

test('a start that fails at its last address leaves the others free and nothing announced', async (t) => {
  const { home, config } = place(t);
  const first = await serve(await config('listen: tcp://127.0.0.1:0\n'), { announce: false });
  t.after(() => first.close(0));
  const { port } = new URL(first.url as string);
  const socket = join(home, 'host.sock');
  const failing = await config(`listen: ["unix://${socket}", "tcp://127.0.0.1:${port}"]\naudit: { enabled: false }\n`);
  const error = await refusal(serve(failing));
  assert.deepEqual([error.code, error.detail.reason], ['config_invalid', 'EADDRINUSE']);
  assert.equal(existsSync(socket), false);
  assert.deepEqual(
    readdirSync(home).filter((name) => name === 'running'),
    [],
  );
});

test('a journal on disk loses the old sessions of agents after the days the file says, and nothing that is not theirs', async (t) => {
  const { folder, start } = place(t);
  const file = join(folder, 'journal.db');
  const entry = { cursor: 1, ts: Date.now(), kind: 'reply', request: 'r', body: '{}' };
  const [old, young] = ['a'.repeat(32), 'b'.repeat(32)] as const;
  // Age is the time in which the journal was in use, as its hourly sweeps note it.
  let passedMs = 0;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const expiry = { maxAgeMs: 2 * DAY_MS, maxSessions: 1_000_000, retains: () => true };
  const before = await sqliteJournal({ file, expiry, monotonicNow: () => passedMs });
  await before.append('session/kept', [entry]);
  await before.append(old, [entry]);
  t.mock.timers.tick(1_000);
  await turns();
  passedMs = 3 * DAY_MS;
  t.mock.timers.tick(3_600_000);
  await turns();
  await before.append(young, [entry]);
  await before.close();
  t.mock.timers.reset();
  const server = await start('journal: { kind: sqlite, file: ./journal.db, retain_days: 2 }\n');
  await using agent = await connect(server.url as string, { capabilities: ['tools'], token: token(server) });
  await agent.tools.call('list_dir', { path: '.' });
  const read = async (session: string): Promise<number> => (await agent.journal(session)).last;
  const late = performance.now() + 60_000;
  while ((await read(old)) !== 0 && performance.now() < late) await new Promise((next) => setTimeout(next, 50));
  assert.deepEqual([await read(old), await read(young), await read('session/kept')], [0, 1, 1]);
  assert.ok((await read('')) > 0, 'the living session is there');
});

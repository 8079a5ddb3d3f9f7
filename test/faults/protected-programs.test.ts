/**
 * Programs that restricted principals start, beside those of `shell` and `proc`: servers of MCP, and skills with a view
 * of the workspace.
 */
import assert from 'node:assert/strict';
import fs, { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { replaceFile } from '../../src/base/replace-file.ts';
import { canCover, startCovered } from '../../src/base/workspace/path-cover.ts';
import { PathGuard } from '../../src/base/workspace/protected-paths.ts';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import * as control from '../../src/control.ts';
import { serve } from '../../src/server/serve.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { eventually } from './support/fleet-server.ts';

const SECRET = 'token-of-another-principal-0002';
const RESTRICTED = 'token-of-the-restricted-one-0001';
const CLIENT = 'token-of-a-client-of-sessions-0004';
const ADMIN = 'token-of-an-administrator-0003';
const NODE = process.execPath;

/** A server of MCP with one tool, which reads files. */
const SERVER = `import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const read = (path) => { try { return readFileSync(path, 'utf8'); } catch ({ code }) { return code; } };
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'reader', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'read', description: 'reads', inputSchema: { type: 'object' } }] }),
  'tools/call': ({ arguments: { paths } }) => ({ content: [{ type: 'text', text: paths.map(read).join() }] }),
};
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method]?.(params);
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: method } }) }));
});
`;

const CONFIG = `
listen: [http://127.0.0.1:0, tcp://127.0.0.1:0]
audit: { file: ./log/audit.jsonl }
control: { data_dir: ./data, backend: rehearsal }
plugins:
  - tools
  - { use: mcp, options: { register: ['${NODE} *reader.mjs'] } }
  - { use: skill, options: { roots: [./skills], tier: bubblewrap, view: workspace } }
auth:
  tokens:
    - name: restricted
      token: ${RESTRICTED}
      capabilities: [tools, mcp, skill]
      tools: { risks: [exec, destructive, network] }
      grants: { mcp: { register: ['${NODE} *reader.mjs'] } }
    - { name: client, token: ${CLIENT}, roles: [client], mcp_servers: ['*'], capabilities: [tools], tools: { risks: [exec, destructive, network] } }
    - { name: other, token_file: ./secrets/other.token }
    - { name: boss, token: ${ADMIN}, admin: true }
`;

async function scene(t: TestContext, text = CONFIG) {
  const folder = temporaryFolder(t);
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  put('handfast.yaml', text);
  put('secrets/other.token', `${SECRET}\n`);
  put('.handfast/state', SECRET);
  put('note.txt', 'a note');
  put('reader.mjs', SERVER);
  put('skills/looks/SKILL.md', '---\nname: looks\ndescription: x\nentry: main.js\n---\nLooks.\n');
  put(
    'skills/looks/main.js',
    `import { readFileSync } from 'node:fs';
     const read = (path) => { try { return readFileSync(path, 'utf8'); } catch ({ code }) { return code; } };
     export default async ({ paths, waits }, skill) => {
       if (waits) { await skill.event('here'); await new Promise((resolve) => setTimeout(resolve, 50_000)); }
       return paths.map(read).join();
     };`,
  );
  const config = await loadConfig('handfast.yaml', { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } });
  const server = await serve(config, { announce: false });
  t.after(() => server.close(0));
  const open = async (token: string) => {
    const agent = await connect(server.url as string, { capabilities: ['tools', 'mcp', 'skill'], token });
    t.after(() => agent.close());
    return agent;
  };
  const paths = [
    'note.txt',
    'secrets/other.token',
    '.handfast/state',
    'handfast.yaml',
    'log/audit.jsonl',
    'home/token',
  ].map((path) => join(folder, path));
  return { folder, put, server, open, paths };
}

const reasonOf = ({ code, detail }: HandfastError): string => `${code} ${detail.reason}`;
const DENIED = 'tool_denied protected_path';
const hasBubblewrap = await canCover();
const needs = { skip: !hasBubblewrap && 'needs bubblewrap' };

test('the audit is there before the first program can start', async (t) => {
  const { folder } = await scene(t);
  assert.ok(existsSync(join(folder, 'log/audit.jsonl')));
});

test('programs of MCP servers that restricted principals add find protected paths covered', needs, async (t) => {
  const { folder, open, paths } = await scene(t);
  const read = async (token: string): Promise<string> => {
    const agent = await open(token);
    await agent.mcp.register({ server_id: 'reader', cmd: [NODE, join(folder, 'reader.mjs')] });
    const { data } = await agent.mcp.call('reader', 'read', { paths });
    return JSON.stringify(data);
  };
  const seen = await read(RESTRICTED);
  assert.match(seen, /a note/);
  assert.doesNotMatch(seen, /token-of|principal|"n":1/);
  assert.match(await read(ADMIN), new RegExp(SECRET));
});

test('programs of MCP servers that clients name for their sessions find protected paths covered', needs, async (t) => {
  const { folder, server, paths } = await scene(t);
  const read = async (token: string): Promise<string> => {
    await using client = await control.connect(server.url as string, { token });
    const session = await client.create({
      cwd: folder,
      mcpServers: [{ name: 'reader', command: NODE, args: [join(folder, 'reader.mjs')], env: [] }],
    });
    const turn = await session.prompt(`call reader.read with ${JSON.stringify({ paths })}`);
    let seen = '';
    for await (const event of turn) {
      seen += JSON.stringify(event);
      if (event.type !== 'approval.requested') continue;
      await client.rpc.approvalAnswer({ approval_id: event.payload.approval.id, decision: 'allow' });
    }
    return seen;
  };
  const seen = await read(CLIENT);
  assert.match(seen, /a note/);
  assert.doesNotMatch(seen, /token-of|"n\\*":1/);
  assert.match(await read(ADMIN), new RegExp(SECRET));
});

test('a program runs on while the host replaces files in its own folders', needs, async (t) => {
  // By default the audit is in the home folder.
  const { folder, open, put } = await scene(t, CONFIG.replace(/^audit:.*\n/m, ''));
  const agent = await open(RESTRICTED);
  const audit = join(folder, 'home/hosts/handfast/audit.jsonl');
  put('home/hosts/handfast/journal.db', 'an earlier journal');
  put('data/.handfast/state', SECRET);
  const kept = agent.tools.call<{ stdout: string }>('shell', {
    command: `touch began; until [ -e end ]; do sleep 0.05; done; cat note.txt home/hosts/handfast/* data/.handfast/* data/*`,
  });
  await eventually(() => existsSync(join(folder, 'began')), 'the program');
  renameSync(audit, `${audit}.1`);
  writeFileSync(audit, `{"principal":"${SECRET}"}\n`);
  put('home/hosts/handfast/audit-2.jsonl', SECRET);
  renameSync(join(folder, 'home/hosts/handfast/journal.db'), join(folder, 'home/hosts/handfast/journal.db.old'));
  put('home/hosts/handfast/journal.db', SECRET);
  put('home/hosts/handfast/journal.db.lost', SECRET);
  for (const text of ['[]', `["${SECRET}"]`]) await replaceFile(join(folder, 'data/approvals.json'), text);
  put('data/session-images/image', SECRET);
  put('data/deep/.handfast/state', SECRET);
  rmSync(join(folder, 'data/.handfast'), { recursive: true });
  put('data/.handfast/state', SECRET);
  // Longer than the time between two searches.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  put('end', '');
  assert.equal((await kept).data?.stdout, 'a note');
});

test('a program in a hidden folder finds its workspace alone, also when files appear around it', needs, async (t) => {
  const folder = temporaryFolder(t);
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  put('data/trees/mine/note.txt', 'a note');
  put('data/trees/mine/secrets/token', SECRET);
  put('data/trees/other/token', SECRET);
  put('data/keys.json', SECRET);
  const workspace = join(folder, 'data/trees/mine');
  const guard = new PathGuard([
    { path: join(folder, 'data'), kind: 'folder', deny: 'all', except: workspace },
    { path: join(workspace, 'secrets/token'), kind: 'file', deny: 'all' },
  ]);
  guard.refresh();
  assert.deepEqual(
    ['data/keys.json', 'data/trees/other', 'data/trees/mine'].map((path) => guard.above(join(folder, path))),
    ['all', 'all', undefined],
  );
  const stop = new AbortController();
  t.after(() => stop.abort());
  const start = async (script: string) => {
    const lost = Promise.withResolvers<string>();
    const options = { cwd: workspace, env: { PATH: process.env.PATH }, signal: stop.signal };
    const program = await startCovered(
      { argv: ['/bin/sh', '-c', `touch began; ${script}`], ...options },
      { guard, workspace },
      () => lost.resolve('lost'),
    );
    await eventually(() => existsSync(join(workspace, 'began')), 'the program');
    rmSync(join(workspace, 'began'));
    return { lost: lost.promise, ended: program.ended };
  };
  const kept = await start(
    'until [ -e end ]; do sleep 0.05; done; cat note.txt secrets/* ../other/* ../../*.json; ls ..; mv secrets gone',
  );
  put('data/keys.json.new', SECRET);
  renameSync(join(folder, 'data/keys.json.new'), join(folder, 'data/keys.json'));
  put('data/later.json', SECRET);
  rmSync(join(folder, 'data/trees/other'), { recursive: true });
  put('data/trees/other/.handfast/token', SECRET);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  put('data/trees/mine/end', '');
  const { code, stdout } = await Promise.race([kept.ended, kept.lost.then((text) => assert.fail(text))]);
  assert.equal(stdout, 'a notemine\n');
  assert.notEqual(code, 0, 'a folder with a protected file cannot be renamed');
  const ended = await start('exec sleep 60');
  renameSync(join(workspace, 'end'), join(workspace, 'secrets/token'));
  assert.equal(await ended.lost, 'lost');
});

test('a program is not run where the system watches no more folders', needs, async (t) => {
  const { folder, open } = await scene(t);
  const agent = await open(RESTRICTED);
  const { watch } = fs;
  t.after(() => {
    fs.watch = watch;
    syncBuiltinESMExports();
  });
  fs.watch = () => {
    throw Object.assign(new Error('System limit for number of file watchers reached'), { code: 'ENOSPC' });
  };
  syncBuiltinESMExports();
  const refused = await agent.tools.call('shell', { command: 'touch ran' }).then(() => 'ran', reasonOf);
  assert.equal(refused, DENIED);
  assert.ok(!existsSync(join(folder, 'ran')));
});

test('a skill with a view of the workspace ends when a protected folder appears in it', needs, async (t) => {
  const { folder, open, put, paths } = await scene(t);
  put('src/note.txt', 'a note');
  const agent = await open(RESTRICTED);
  const { data } = await agent.skill.call<string>('looks', { paths });
  assert.match(data ?? '', /^a note,ENOENT/);
  assert.doesNotMatch(data ?? '', /token-of/);
  const during = async (change: () => void): Promise<string> => {
    const call = agent.skill.call('looks', { paths, waits: true });
    const outcome = call.then(() => 'ok', reasonOf);
    try {
      for await (const { kind } of call) if (kind === 'here') change();
    } catch {
      // The outcome has the error.
    }
    return outcome;
  };
  assert.equal(await during(() => put('src/deep/.handfast/state', SECRET)), DENIED);
  // A change of a file that the view never shows does not end it.
  put('elsewhere', SECRET);
  const call = agent.skill.call<string>('looks', { paths: [...paths, join(folder, 'new.txt')] });
  renameSync(join(folder, 'elsewhere'), join(folder, 'secrets/other.token'));
  assert.doesNotMatch((await call).data ?? '', /token-of/);
});

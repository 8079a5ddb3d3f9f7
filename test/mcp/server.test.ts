/**
 * One MCP server over time, against real processes: those of the official project, and one that misbehaves. Started when
 * needed, killed in the middle of a call, restarted with backoff; definitions that change are not called.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sleep } from '../../src/base/sleep.ts';
import { McpServer, type McpServerOptions } from '../../src/mcp/server.ts';
import { asError } from '../../src/wire/errors.ts';

const odd = fileURLToPath(new URL('../support/mcp-odd.mjs', import.meta.url));
const official = (name: string): string =>
  fileURLToPath(import.meta.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`));

/** Longest wait for anything: far above the usual duration on a busy machine. */
const PATIENCE_MS = 60_000;
const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handfast-mcp-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Returns a server in its own folder, closed with the test. */
async function server(
  t: TestContext,
  args: readonly string[],
  options: Partial<McpServerOptions> & { readonly env?: Readonly<Record<string, string>> } = {},
): Promise<{ server: McpServer; cwd: string }> {
  const { env = {}, ...more } = options;
  const cwd = options.cwd ?? (await folder(t));
  const stdio = { command: process.execPath, args, env: { PID_FILE: join(cwd, 'pids'), ...env } };
  const made = new McpServer({ address: { stdio }, cwd, startTimeoutMs: PATIENCE_MS, ...more });
  t.after(() => made.close());
  return { server: made, cwd };
}

const textOf = ({ content = [] }: { readonly content?: readonly Readonly<Record<string, unknown>>[] }): string =>
  content.map(({ text }) => text).join('\n');

async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (const bound = AbortSignal.timeout(PATIENCE_MS); !(await done()); await sleep(5)) bound.throwIfAborted();
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const pidsOf = async (cwd: string): Promise<number[]> =>
  (await readFile(join(cwd, 'pids'), 'utf8').catch(() => '')).split('\n').filter(Boolean).map(Number);

const codeOf = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'none',
    (thrown) => asError(thrown).code,
  );

test('the official "everything" server: nothing runs before it is needed, then calls, progress and cancel', async (t) => {
  const { server: everything } = await server(t, [official('everything'), 'stdio']);
  assert.equal(everything.health.state, 'idle');
  const echoed = await everything.call('echo', { message: 'hello' }, patiently);
  assert.equal(textOf(echoed), 'Echo: hello');
  assert.equal(everything.health.state, 'ready');
  assert.equal(everything.info?.name, 'mcp-servers/everything');
  const seen: number[] = [];
  const onProgress = ({ progress }: { readonly progress: number }): void => void seen.push(progress);
  await everything.call('trigger-long-running-operation', { duration: 0.2, steps: 4 }, { ...patiently, onProgress });
  assert.deepEqual(seen.slice(0, 3), [1, 2, 3]);
  const stop = new AbortController();
  const options = { ...patiently, signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) };
  const calling = everything.call('trigger-long-running-operation', { duration: 3_000, steps: 30_000 }, options);
  await assert.rejects(calling, /enough/);
  const { structuredContent } = await everything.call('get-structured-content', { location: 'Chicago' }, patiently);
  assert.equal(typeof (structuredContent as { temperature: unknown }).temperature, 'number');
});

test('a program gets no variable of this process but harmless ones and its own', async (t) => {
  process.env.HANDFAST_TEST_SECRET = 'do not pass on';
  t.after(() => delete process.env.HANDFAST_TEST_SECRET);
  const { server: everything } = await server(t, [official('everything'), 'stdio'], { env: { OWN: 'own' } });
  const seen = JSON.parse(textOf(await everything.call('get-env', {}, patiently)));
  assert.deepEqual([seen.OWN, seen.HANDFAST_TEST_SECRET], ['own', undefined]);
  assert.match(seen.PATH, /\/usr\/bin/);
});

test('the official "filesystem" and "memory" servers work on their files', async (t) => {
  const cwd = await folder(t);
  await writeFile(join(cwd, 'a.txt'), 'written before');
  const { server: files } = await server(t, [official('filesystem'), cwd], { cwd });
  assert.match(textOf(await files.call('read_text_file', { path: join(cwd, 'a.txt') }, patiently)), /written before/);
  const outside = await files.call('read_text_file', { path: '/etc/hostname' }, patiently);
  assert.equal(outside.isError, true);
  const graph = join(cwd, 'graph.json');
  const { server: memory } = await server(t, [official('memory')], { cwd, env: { MEMORY_FILE_PATH: graph } });
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['likes engines'] }];
  await memory.call('create_entities', { entities }, patiently);
  assert.match(await readFile(graph, 'utf8'), /likes engines/);
});

test('killed in the middle of a call: the call fails at once and says that it may have run; the next use starts it again', async (t) => {
  const { server: killed, cwd } = await server(t, [odd]);
  const pid = Number(textOf(await killed.call('pid', {}, patiently)));
  const hanging = killed.call('hang', {}, patiently);
  const failed = assert.rejects(hanging, (thrown) => {
    const { code, detail, message } = asError(thrown);
    assert.equal(code, 'connection_lost');
    assert.equal(detail.may_have_run, true);
    assert.match(message, /ended with code 137/);
    return true;
  });
  process.kill(pid, 'SIGKILL');
  await failed;
  assert.equal(killed.health.state, 'failed');
  const next = Number(textOf(await killed.call('pid', {}, patiently)));
  assert.notEqual(next, pid);
  assert.deepEqual(await pidsOf(cwd), [pid, next]);
  await killed.close();
  assert.equal(isAlive(next), false);
});

test('a server that keeps crashing is refused at once until its backoff is over, with its last words', async (t) => {
  let now = 0;
  const clock = { monotonic: () => now, timer: () => () => {} };
  const { server: crashing, cwd } = await server(t, [odd], { clock, random: () => 1 });
  const calling = crashing.call('die', {}, patiently);
  await assert.rejects(calling, /ended with code 7: odd server: fatal: the disk is on fire/);
  assert.deepEqual(crashing.health.stderr.at(-1), 'odd server: fatal: the disk is on fire');
  assert.equal(await codeOf(crashing.call('die', {}, patiently)), 'connection_lost');
  assert.equal((await pidsOf(cwd)).length, 2, 'the first failure is followed by a start at once');
  assert.equal(crashing.health.retryInMs, 1_000);
  assert.equal(await codeOf(crashing.call('pid', {}, patiently)), 'connection_lost');
  assert.equal((await pidsOf(cwd)).length, 2, 'nothing was started');
  now += 1_000;
  await crashing.call('pid', {}, patiently);
  assert.equal((await pidsOf(cwd)).length, 3);
  now += 20_000;
  assert.equal(await codeOf(crashing.call('die', {}, patiently)), 'connection_lost');
  assert.equal(crashing.health.retryInMs, 0, 'it ran well for a while');
  assert.equal(crashing.health.failures, 1);
});

test('one that is kept running is started again by itself', async (t) => {
  const { server: kept, cwd } = await server(t, [odd], { keepRunning: true });
  await kept.start();
  process.kill((await pidsOf(cwd))[0] as number, 'SIGKILL');
  await until(async () => (await pidsOf(cwd)).length === 2 && kept.health.state === 'ready');
});

test('one that does not start says why, and one that does not answer is over in time', async (t) => {
  const { server: dead } = await server(t, [odd], { env: { START: 'crash' } });
  await assert.rejects(dead.start(), /ended with code 3: odd server: no licence/);
  assert.deepEqual([dead.health.state, dead.health.stderr.at(-1)], ['failed', 'odd server: no licence']);
  const { server: silent } = await server(t, ['-e', 'setInterval(() => {}, 1000)'], { startTimeoutMs: 200 });
  assert.equal(await codeOf(silent.start()), 'timeout');
  assert.equal(silent.health.state, 'timeout');
  let held = 0;
  const acquire = async (): Promise<() => void> => {
    held += 1;
    return () => {
      held -= 1;
    };
  };
  const { server: counted } = await server(t, [odd], { acquire });
  await counted.start();
  assert.equal(held, 1);
  await counted.close();
  assert.equal(held, 0);
  await assert.rejects(counted.start(), /the server was closed/);
});

test('a definition that changed is not called until it is accepted, nor is one under a new name, nor after a restart', async (t) => {
  const { server: shifty, cwd } = await server(t, [odd]);
  await shifty.start();
  assert.equal(shifty.tools.length, 11, 'all pages');
  assert.equal(textOf(await shifty.call('shifty', {}, patiently)), 'harmless');
  await shifty.call('change', {}, patiently);
  await until(() => shifty.tools.some(({ pin }) => pin === 'changed'));
  await assert.rejects(shifty.call('shifty', {}, patiently), (thrown) => {
    const { code, detail } = asError(thrown);
    assert.deepEqual([code, detail.reason], ['tool_denied', 'tool_changed']);
    return true;
  });
  process.kill((await pidsOf(cwd))[0] as number, 'SIGKILL');
  await until(() => shifty.health.state === 'failed');
  assert.equal(await codeOf(shifty.call('shifty', {}, patiently)), 'tool_denied', 'the restart accepts nothing');
  await shifty.call('rename', {}, patiently);
  await until(() => shifty.tools.some(({ pin }) => pin === 'new'));
  assert.equal(await codeOf(shifty.call('renamed', {}, patiently)), 'tool_denied');
  assert.equal(await codeOf(shifty.call('shifty', {}, patiently)), 'unknown_tool');
  await shifty.accept(['renamed']);
  assert.equal(textOf(await shifty.call('renamed', {}, patiently)), 'sends your keys to the author');
});

test('noise, stray and second responses do no harm; a response that is too long fails its call alone', async (t) => {
  const { server: noisy } = await server(t, [odd]);
  assert.equal(textOf(await noisy.call('noise', {}, patiently)), 'heard');
  await assert.rejects(noisy.call('huge', {}, patiently), /more than 16777216 characters/);
  await assert.rejects(noisy.call('deep', {}, patiently), /nested more than 64 levels deep/);
  assert.match(textOf(await noisy.call('pid', {}, patiently)), /^\d+$/);
  const late = noisy.call('hang', {}, { ...patiently, timeoutMs: 50 });
  assert.equal(await codeOf(late), 'timeout');
  await until(() => noisy.health.stderr.some((line) => /cancelled/.test(line)));
  // The end of this message never arrives.
  await assert.rejects(noisy.call('endless', {}, patiently), /more than 16777216 characters/);
});

/** Starts a server over HTTP without a library, whose sessions end with `forget`. */
async function overHttp(t: TestContext): Promise<{ url: string; forget: () => void; opened: () => number }> {
  let sessions = 0;
  let current = '';
  const handler: RequestListener = async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const body = JSON.parse(await new Response(request as never).text());
    const headers = { 'content-type': 'application/json', 'mcp-session-id': current };
    const reply = (result: unknown): void => {
      const head = { ...headers, 'mcp-session-id': current };
      response.writeHead(200, head).end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
    };
    if (body.method === 'initialize') {
      sessions += 1;
      current = `session-${sessions}`;
      const { protocolVersion } = body.params;
      return reply({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'web', version: '1' } });
    }
    if (request.headers['mcp-session-id'] !== current) return void response.writeHead(404).end();
    if (body.id === undefined) return void response.writeHead(202).end();
    if (body.method === 'tools/list') return reply({ tools: [{ name: 'where', inputSchema: { type: 'object' } }] });
    reply({ content: [{ type: 'text', text: current }] });
  };
  const listener = createServer(handler);
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    listener.closeAllConnections();
    listener.close();
  });
  const { port } = listener.address() as AddressInfo;
  const forget = (): void => {
    current = 'none';
  };
  return { url: `http://127.0.0.1:${port}/mcp`, forget, opened: () => sessions };
}

test('an HTTP server that no longer knows the session gets a new one, and the call is made there', async (t) => {
  const { url, forget, opened } = await overHttp(t);
  const web = new McpServer({ address: { http: { url } }, cwd: tmpdir() });
  t.after(() => web.close());
  assert.equal(textOf(await web.call('where', {}, patiently)), 'session-1');
  forget();
  assert.equal(textOf(await web.call('where', {}, patiently)), 'session-2');
  assert.equal(opened(), 2);
});

/**
 * Probes of real MCP servers: over stdio and streamable HTTP, alive, slow, dead, closed, and the processes they leave behind.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/server';
import { probeMcpServer } from '../../../src/fleet/worker/mcp-probe.ts';
import type { McpServerOptions } from '../../../src/fleet/worker/mcp-servers.ts';
import { identityOf } from '../../../src/fleet/worker/process-identity.ts';
import { within } from '../../contract/recorder.ts';
import { aborted, block, scriptedExecutor } from '../support/scripted-executor.ts';
import { bench, dispatch, folder } from '../support/worker-bench.ts';

const file = fileURLToPath(new URL('../support/mcp-server.mjs', import.meta.url));

const stdio = (name: string, ...args: readonly string[]): McpServerOptions => ({
  name,
  stdio: { command: process.execPath, args: [file, ...args] },
});

/** Longest wait for anything, in milliseconds: far above the need of a busy machine. */
const PATIENCE_MS = 20_000;

const options = { cwd: process.cwd(), timeoutMs: PATIENCE_MS };

const alive = async (pid: number): Promise<boolean> => (await identityOf(pid)) !== undefined;

/** Resolves once `done` gives true. */
async function until(done: () => Promise<boolean> | boolean): Promise<void> {
  for (const give = AbortSignal.timeout(PATIENCE_MS); !(await done()); await turn()) give.throwIfAborted();
}

async function listening(test: TestContext, handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

/** Starts a server over streamable HTTP; returns its address and the sessions it has open. */
async function overHttp(test: TestContext): Promise<{ url: string; sessions: Set<string> }> {
  const sessions = new Set<string>();
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  const url = await listening(test, async (request, response) => {
    const id = request.headers['mcp-session-id'];
    let transport = typeof id === 'string' ? transports.get(id) : undefined;
    if (transport === undefined) {
      const opened = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (session) => {
          transports.set(session, opened);
          sessions.add(session);
        },
        onsessionclosed: (session) => {
          sessions.delete(session);
        },
      });
      const server = new McpServer({ name: 'probed', version: '1.0.0' });
      server.registerTool('look_up', { description: 'looks up' }, () => ({ content: [] }));
      await server.connect(opened);
      transport = opened;
    }
    await transport.handleRequest(request, response);
  });
  return { url, sessions };
}

test('a server on stdio is ok and its tools are found; chatter before it speaks does no harm', async () => {
  const { health, tools } = await probeMcpServer(stdio('one', 'tools', 'search', 'open-page'), options);
  assert.deepEqual([health, [...tools].sort()], ['ok', ['open-page', 'search']]);
});

test('a server over HTTP is ok, its tools are found, and no session is left with it', async (t) => {
  const { url, sessions } = await overHttp(t);
  const { health, tools } = await probeMcpServer({ name: 'web', http: { url } }, options);
  assert.deepEqual([health, tools], ['ok', ['look_up']]);
  await until(() => sessions.size === 0);
});

test('a server that does not answer is reported as timeout within the bound, and its process has ended', async (t) => {
  const finding = await within(probeMcpServer(stdio('slow', 'slow'), { ...options, timeoutMs: 300 }), 'giving up');
  assert.deepEqual([finding.health, finding.detail], ['timeout', 'no answer within 300 ms']);
  const silent = await listening(t, () => {});
  assert.equal(
    (await probeMcpServer({ name: 'web', http: { url: silent } }, { ...options, timeoutMs: 200 })).health,
    'timeout',
  );
});

test('what a server started does not outlive the probe', async (t) => {
  const note = join(await folder(t), 'pid');
  await probeMcpServer(stdio('parent', 'grandchild', note), options);
  const grandchild = Number(await readFile(note, 'utf8'));
  await until(async () => !(await alive(grandchild)));
  await probeMcpServer(stdio('itself', 'pid', note), options);
  assert.equal(await alive(Number(await readFile(note, 'utf8'))), false, 'gone when the probe resolves');
});

test('a probe that is given up ends its server and finds nothing out', async (t) => {
  const note = join(await folder(t), 'pid');
  const stop = new AbortController();
  const slow: McpServerOptions = {
    name: 'slow',
    stdio: {
      command: process.execPath,
      args: [
        '-e',
        `require('fs').writeFileSync(${JSON.stringify(note)}, '' + process.pid); setInterval(() => {}, 1000)`,
      ],
    },
  };
  const probing = probeMcpServer(slow, { ...options, signal: stop.signal });
  await until(async () => (await readFile(note, 'utf8').catch(() => '')) !== '');
  stop.abort();
  assert.equal((await probing).health, 'unknown');
  assert.equal(await alive(Number(await readFile(note, 'utf8'))), false);
});

test('what cannot be used says why it cannot', async (t) => {
  const missing: McpServerOptions = { name: 'missing', stdio: { command: '/nonexistent/server' } };
  const dead: McpServerOptions = {
    name: 'dead',
    stdio: { command: process.execPath, args: ['-e', 'console.error("no licence"); process.exit(3)'] },
  };
  const locked = await listening(t, (_request, response) => response.writeHead(401).end());
  const broken = await listening(t, (_request, response) => response.writeHead(500).end());
  const cases = [
    [missing, 'error', /server: it was not found/],
    [dead, 'error', /no licence/],
    [{ name: 'locked', http: { url: locked } }, 'auth_required', /./],
    [{ name: 'broken', http: { url: broken } }, 'error', /./],
    [{ name: 'refused', http: { url: 'http://127.0.0.1:9/mcp' } }, 'error', /./],
    [{ ...missing, disabled: true }, 'disabled', /switched off/],
    [{ name: 'empty' }, 'unknown', /no command/],
  ] as const;
  const found = await Promise.all(cases.map(([server]) => probeMcpServer(server, options)));
  for (const [index, [server, health, detail]] of cases.entries()) {
    assert.equal(found[index]?.health, health, server.name);
    assert.match(found[index]?.detail ?? '', detail);
  }
});

test('a worker announces health and tools as they are, by plain and qualified names', async (t) => {
  const { url } = await overHttp(t);
  const mcpServers = [
    stdio('context-mode', 'tools', 'search'),
    { name: 'web', http: { url } },
    { name: 'gone', http: { url: 'http://127.0.0.1:9/' } },
  ];
  const { worker, ...rest } = await bench(t, { mcpServers });
  const { capabilities, mcp_health } = await worker.announce();
  assert.deepEqual(mcp_health, { context_mode: 'ok', web: 'ok', gone: 'error' });
  assert.deepEqual(capabilities.tools, [
    'terminal',
    'file',
    'search',
    'look_up',
    'mcp__context_mode__search',
    'mcp__web__look_up',
  ]);
  assert.deepEqual(capabilities.mcp_servers, ['context-mode', 'web', 'gone']);
  const wanted = { required_mcp: ['context_mode'], required_capabilities: ['search', 'mcp__web__look-up'] };
  assert.equal((await rest.do(dispatch('t-1', wanted))).status, 'done');
});

test('a server that dies is announced as dead, and its tools with it', async (t) => {
  let ok = true;
  const { url } = await overHttp(t);
  const gate = await listening(t, async (request, response) => {
    if (!ok) return void response.writeHead(503).end();
    const { method = 'GET', headers } = request;
    const body = method === 'POST' ? await new Response(request as never).text() : undefined;
    const passed = await fetch(url, {
      method,
      headers: headers as Record<string, string>,
      ...(body !== undefined && { body }),
    });
    response.writeHead(passed.status, Object.fromEntries(passed.headers));
    response.end(Buffer.from(await passed.arrayBuffer()));
  });
  let now = 0;
  const { desk } = await bench(
    t,
    { mcpServers: [{ name: 'web', http: { url: gate } }], monotonic: () => now },
    { debounceMs: 5, checkMs: 10 },
  );
  assert.equal((await desk.message('SESSION_ANNOUNCE')).mcp_health?.web, 'ok');
  ok = false;
  now += 20_000;
  const dead = await desk.message('SESSION_ANNOUNCE', ({ mcp_health }) => mcp_health?.web !== 'ok');
  assert.equal(dead.mcp_health?.web, 'error');
  assert.deepEqual(dead.capabilities.tools, ['terminal', 'file']);
});

test('a turn whose executor finds a required server dead is stopped, told as blocked, and remembered', async (t) => {
  const executor = scriptedExecutor(async ({ taskId }, { signal, events }) => {
    if (taskId === 't-2') return block(taskId);
    events.mcpHealth(new Map());
    await aborted(signal);
    return { text: '', ending: 'stopped', usage: { source: 'measured', input: 0 } };
  });
  const { give, ...rest } = await bench(t, { executor, mcpServers: [stdio('one')] });
  const result = await rest.do(dispatch('t-1', { required_mcp: ['one'] }));
  assert.deepEqual([result.status, result.blocked?.code, result.tokens_spent], ['blocked', 'unhealthy_mcp', 0]);
  assert.equal(result.blocked_reason, 'unhealthy_mcp: the executor found one=absent');
  const next = await give(dispatch('t-2', { required_mcp: ['one'] }));
  assert.equal(next.kind === 'refused' && next.result.blocked?.code, 'unhealthy_mcp');
});

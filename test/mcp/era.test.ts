/**
 * The generation of the protocol that a server speaks is tested once, and again when it turns out to be another one.
 */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type EraStore, memoryEra } from '../../src/mcp/era.ts';
import { McpServer } from '../../src/mcp/server.ts';
import { asError } from '../../src/wire/errors.ts';
import { agentOf, errorOf, folder, mcpHost, odd, PATIENCE_MS, pidsOf, until } from '../capabilities/mcp/support.ts';

const program = (name: string): string => fileURLToPath(new URL(`../support/${name}.mjs`, import.meta.url));
const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };

function serverOf(t: TestContext, args: readonly string[], era: EraStore, startTimeoutMs = PATIENCE_MS) {
  const cwd = folder(t);
  const stdio = { command: process.execPath, args, env: { PID_FILE: join(cwd, 'pids') } };
  const server = new McpServer({ address: { stdio }, cwd, era, startTimeoutMs });
  t.after(() => server.close());
  return { server, cwd };
}

test('a server without sessions is started twice to find that out, and once from then on', async (t) => {
  const era = memoryEra();
  const { server, cwd } = serverOf(t, [program('mcp-modern')], era);
  await server.start();
  assert.equal(server.info?.protocol, '2026-07-28');
  assert.equal(await era.read(), 'stateless');
  assert.equal(pidsOf(cwd).length, 2, 'it refused to open a session');
  process.kill(pidsOf(cwd).at(-1) as number, 'SIGKILL');
  await until(() => server.health.state === 'failed');
  await server.call('touch', {}, patiently);
  assert.equal(pidsOf(cwd).length, 3);
});

test('a server that has sessions after all is used with them, and that is remembered', async (t) => {
  const era = memoryEra('stateless');
  const { server, cwd } = serverOf(t, [program('mcp-odd')], era);
  await server.call('pid', {}, patiently);
  assert.equal(await era.read(), 'sessions');
  assert.equal(pidsOf(cwd).length, 1);
});

test('what is remembered of a server that no longer answers to it is forgotten', async (t) => {
  const era = memoryEra('stateless');
  const { server } = serverOf(t, ['-e', 'process.stdin.resume()'], era, 500);
  assert.equal(asError(await server.start().catch((thrown: unknown) => thrown)).code, 'timeout');
  assert.equal(await era.read(), undefined);
  const kept = memoryEra('stateless');
  const unreachable = new McpServer({ address: { http: { url: 'http://127.0.0.1:1/mcp' } }, cwd: tmpdir(), era: kept });
  t.after(() => unreachable.close());
  assert.equal((await errorOf(unreachable.start())).code, 'unreachable');
  assert.equal(await kept.read(), 'stateless', 'a server that is not reached says nothing of itself');
});

test('a host that starts again remembers it', async (t) => {
  const cwd = folder(t);
  const dataDir = folder(t);
  const servers = [odd(cwd, { args: [program('mcp-modern')] })];
  for (const started of [2, 3]) {
    const host = await mcpHost(t, { mcp: { servers }, dataDir });
    const agent = await agentOf(t, host);
    assert.equal((await agent.mcp.call('odd', 'touch')).success, true);
    assert.equal(pidsOf(cwd).length, started);
    await host.close(0);
  }
});

/** Hosts with the mcp capability for its tests, in this process, with real servers behind them. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sleep } from '../../../src/base/sleep.ts';
import { type McpOptions, mcpPlugins } from '../../../src/capabilities/mcp/plugin.ts';
import type { ServerSettings } from '../../../src/capabilities/mcp/spec.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { McpServer } from '../../../src/mcp/server.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { asError, type HandfastError } from '../../../src/wire/errors.ts';

const oddFile = fileURLToPath(new URL('../../support/mcp-odd.mjs', import.meta.url));
const official = (name: string): string =>
  fileURLToPath(import.meta.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`));

/** Longest wait: far above the duration of any step on a busy machine. */
export const PATIENCE_MS = 60_000;

/** The official server with one of everything. */
export const everything: ServerSettings = {
  name: 'everything',
  command: process.execPath,
  args: [official('everything'), 'stdio'],
};

/** A server that misbehaves as its calls ask. */
export const odd = (cwd: string, more: Partial<ServerSettings> = {}): ServerSettings => ({
  name: 'odd',
  command: process.execPath,
  args: [oddFile],
  cwd,
  env: { PID_FILE: join(cwd, 'pids') },
  ...more,
});

export const oddCommand: readonly [string, string] = [process.execPath, oddFile];

export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'handfast-mcp-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export function pidsOf(cwd: string): number[] {
  try {
    return readFileSync(join(cwd, 'pids'), 'utf8').split('\n').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** @param what names the condition in the error of a wait that was too long */
export async function until(done: () => boolean | Promise<boolean>, what = 'the condition'): Promise<void> {
  for (const bound = AbortSignal.timeout(PATIENCE_MS); !(await done()); await sleep(5)) {
    if (bound.aborted) throw new Error(`waited more than ${PATIENCE_MS} ms for ${what}`);
  }
}

export async function errorOf(promise: PromiseLike<unknown>): Promise<HandfastError> {
  try {
    await promise;
  } catch (thrown) {
    return asError(thrown);
  }
  throw new Error('it did not fail');
}

/**
 * Returns a host for principals whose token is their name and `-token`; without principals, for `local`. It also has its own
 * tool.
 */
export async function mcpHost(
  t: TestContext,
  { principals, mcp, ...options }: { principals?: readonly Principal[]; mcp?: McpOptions } & Partial<HostOptions> = {},
): Promise<Host> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const own = toolsPlugin({ tools: [tool({ name: 'own', description: 'of the host', run: () => ({ own: true }) })] });
  const host = createHost({ plugins: [own, ...mcpPlugins(mcp)], ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return host;
}

/** Starts a client of the server that `listener` plays on a port of this machine. */
export async function serverOverHttp(t: TestContext, listener: RequestListener): Promise<McpServer> {
  const http = createServer(listener);
  await once(http.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  const server = new McpServer({ address: { http: { url } }, cwd: folder(t), startTimeoutMs: PATIENCE_MS });
  t.after(() => server.close());
  await server.start();
  return server;
}

/** Connects an agent to a host. */
export async function agentOf(
  t: TestContext,
  host: Host,
  { agentId = 'ana', principal }: { agentId?: string; principal?: string } = {},
) {
  const agent = await connect(host, {
    capabilities: ['mcp', 'tools'],
    agentId,
    timeoutMs: PATIENCE_MS,
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  return agent;
}

/** MCP clients of hosts for the tests of this folder: the official client over HTTP and on pipes, in both eras. */
import type { TestContext } from 'node:test';
import { Client, type ClientOptions, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { sleep } from '../../src/base/sleep.ts';
import { type Json, User } from '../cli/command.ts';

export const STATELESS = '2026-07-28';
/** Longest wait for anything: far above the usual duration on a busy machine. */
export const PATIENCE_MS = 60_000;
export const ADMIN = 'admin-token-0123456789';

/** The ways to a host. */
export const WAYS = [
  { over: 'http', era: 'sessions' },
  { over: 'http', era: 'stateless' },
  { over: 'stdio', era: 'sessions' },
  { over: 'stdio', era: 'stateless' },
] as const;
export type Way = (typeof WAYS)[number];

/** Returns a user with a configuration, and the token of an administrator. */
export function userWith(t: TestContext, plugins: readonly object[]): User {
  const user = new User();
  t.after(() => user.leave());
  const auth = { tokens: [{ name: 'boss', token_env: 'ADMIN', admin: true }] };
  user.write('trial.yaml', JSON.stringify({ plugins, auth }));
  user.write('token', ADMIN);
  return user;
}

/** Starts a host with it, and returns the address of its MCP endpoint. */
export async function runningHost(user: User) {
  const { command, ready } = await user.up(['--config', 'trial.yaml'], { env: { ADMIN } });
  return { command, ready, mcpUrl: new URL('/mcp', ready.url) };
}

/** Returns the official client of a host that runs. */
export async function clientOf(
  t: TestContext,
  user: User,
  url: URL,
  { over, era }: Way,
  options: ClientOptions = {},
): Promise<Client> {
  const pinned = era === 'stateless' ? { versionNegotiation: { mode: { pin: STATELESS } } } : {};
  const client = new Client({ name: 'trial', version: '1' }, { ...options, ...pinned });
  t.after(() => client.close());
  await client.connect(over === 'http' ? httpTo(url) : pipesOf(user), { timeout: PATIENCE_MS });
  return client;
}

const httpTo = (url: URL) =>
  new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${ADMIN}` } } });

function pipesOf(user: User) {
  const [command = '', ...args] = user.line(['mcp', '--token-file', 'token']);
  return new StdioClientTransport({ command, args, env: user.environment(), cwd: user.cwd, stderr: 'pipe' });
}

/** Waits until it is true. */
export async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (const bound = AbortSignal.timeout(PATIENCE_MS); !(await done()); await sleep(5)) bound.throwIfAborted();
}

/** Returns the texts of a result. */
export const textOf = (result: Json): string => result.content.map((part: Json) => part.text).join('\n');

/** Sends requests by hand. */
export const poster =
  (url: URL) =>
  (body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${ADMIN}`,
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });

/** Returns the headers of a request that stands alone. */
export const statelessHeaders = (method: string, name?: string): Record<string, string> => ({
  'MCP-Protocol-Version': STATELESS,
  'Mcp-Method': method,
  ...(name !== undefined && { 'Mcp-Name': name }),
});

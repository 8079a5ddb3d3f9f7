/**
 * Rights over HTTP: every route of a real server, asked with each preset role, with a bare token and with none.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { rightOf } from '../../../src/control/contract/method-rights.ts';
import type { RouteRight } from '../../../src/server/http/server-route.ts';
import { serve } from '../../../src/server/serve.ts';
import { may } from '../../../src/session/rights.ts';
import { principalWith, ROLES, type RoleName } from '../../../src/session/roles.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { root } from '../../rules/scan.ts';
import { dialHttp, dialWebSocket } from '../../support/carriers.ts';

/** `bare`: a named token without roles and grants. `anonymous`: no token. */
const callers = [...(Object.keys(ROLES) as RoleName[]), 'bare', 'anonymous'] as const;
type Caller = (typeof callers)[number];

const tokenOf = (caller: Caller): string => (caller === 'anonymous' ? '' : `the-token-of-the-${caller}`);

async function start(t: TestContext) {
  const folder = temporaryFolder(t);
  const lines = callers.flatMap((name) => {
    const roles = name === 'bare' ? '' : `, roles: [${name}]`;
    return name === 'anonymous' ? [] : [`    - { name: ${name}, token: ${tokenOf(name)}${roles} }`];
  });
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, `auth:\n  tokens:\n${lines.join('\n')}\n`);
  writeFileSync(join(folder, 'fleet.yaml'), 'data_dir: data\nlisten: http://127.0.0.1:0\n');
  const surroundings = { cwd: folder, env: { HANDFAST_HOME: join(folder, 'home') } };
  const fleet = await loadFleetConfig('fleet.yaml', surroundings);
  const load = async () => {
    const host = await loadConfig(file, surroundings);
    return { ...host, listen: fleet.listen, control: { ...host.control, dataDir: join(fleet.dataDir, 'sessions') } };
  };
  const server = await serve(await load(), { fleet, announce: false, reread: load });
  t.after(() => server.close(0));
  return { url: server.url as string, routes: server.routes };
}

/** Reads the table of docs/security/rights.md: route → right, as the code calls it. */
function documented(): Record<string, string> {
  const page = readFileSync(join(root, 'docs/security/rights.md'), 'utf8');
  const section = /^## Over HTTP$(.*?)^## /ms.exec(page)?.[1] ?? '';
  const rows = [...section.matchAll(/^\| `(\S+ \S+)` \| (\w+) \|$/gm)];
  return Object.fromEntries(
    rows.map(([, route = '', right = '']) => [route, right === 'admin' ? 'administer' : right]),
  );
}

/** The least right that every method of the fleet needs. */
const FLEET_RIGHT = 'submit';

/** Callers that pass, by the right; all others with a token get 403. */
const allowed: Readonly<Record<Exclude<RouteRight, 'messages'>, readonly Caller[]>> = {
  none: callers,
  token: callers.filter((caller) => caller !== 'anonymous'),
  observe: ['admin', 'operator'],
  administer: ['admin'],
};

interface Message {
  readonly [name: string]: unknown;
}

const ACCEPTED = 'accepted';
const REFUSED = 'refused';
const outcome = (good: unknown): string => (good === true ? ACCEPTED : REFUSED);

/** The request that enters each route that receives messages, and the reply to a caller without further grants. */
const entries: Readonly<Record<string, (url: string, token: string) => Promise<string>>> = {
  'POST /session': overHttp,
  'POST /send': overHttp,
  'GET /stream': overHttp,
  'DELETE /session': overHttp,
  async 'GET /ws'(url, token) {
    const peer = await dialWebSocket(`${url.replace('http', 'ws')}/ws`);
    const answer = await peer.shake({ auth_token: token, agent_caps: [] });
    peer.cut();
    return outcome(answer.ok);
  },
  async 'GET /rpc'(url, token) {
    const peer = await dialWebSocket(`${url.replace('http', 'ws')}/rpc`);
    peer.send({ jsonrpc: '2.0', id: 1, method: 'rpc.handshake', params: { token } });
    const { result } = (await peer.next()) as Message;
    peer.cut();
    return outcome(result !== undefined);
  },
  async 'POST /jsonrpc'(url, token) {
    const headers = { 'Content-Type': 'application/json', ...(token !== '' && { Authorization: `Bearer ${token}` }) };
    const { status } = await fetch(`${url}/jsonrpc`, { method: 'POST', headers, body: '{}' });
    if (status === 401) return REFUSED;
    assert.ok(status < 500);
    return ACCEPTED;
  },
  'POST /mcp': (url, token) => overMcp(url, token, 'POST', 400),
  'GET /mcp': (url, token) => overMcp(url, token, 'GET', 405),
  'DELETE /mcp': (url, token) => overMcp(url, token, 'DELETE', 405),
};

/** Sends a request to `/mcp`: one with a known token comes as far as the refusal for the rights it lacks. */
async function overMcp(url: string, token: string, method: string, good: number): Promise<string> {
  const response = await fetch(`${url}/mcp`, {
    method,
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...(token !== '' && { Authorization: `Bearer ${token}` }),
    },
    ...(method === 'POST' && { body: '{}' }),
  });
  await response.text();
  assert.ok(response.status === good || response.status === 401, String(response.status));
  return outcome(response.status === good);
}

async function overHttp(url: string, token: string): Promise<string> {
  const peer = await dialHttp(url);
  peer.send({ type: 'handshake/req', id: 'hs', agent_caps: [], auth_token: token });
  const answer = (await peer.next()) as Message;
  peer.cut();
  return outcome(answer.ok);
}

test('the table of the documentation has every route that is registered, with its right', async (t) => {
  const { routes } = await start(t);
  const registered = Object.fromEntries(routes.map(({ method, path, needs }) => [`${method} ${path}`, needs]));
  assert.ok(Object.keys(registered).length > 8);
  assert.deepEqual(documented(), registered);
});

test('every route answers each role, a bare token and none as its right says', async (t) => {
  const { url, routes } = await start(t);
  const table: Record<string, Record<string, unknown>> = {};
  const expected: Record<string, Record<string, unknown>> = {};
  for (const { method, path, needs } of routes) {
    const route = `${method} ${path}`;
    table[route] = {};
    expected[route] = {};
    for (const caller of callers) {
      if (needs === 'messages') {
        const enter = entries[route];
        assert.ok(enter !== undefined, `say here how to come in by ${route}`);
        table[route][caller] = await enter(url, tokenOf(caller));
        expected[route][caller] = caller === 'anonymous' ? REFUSED : ACCEPTED;
        continue;
      }
      const token = tokenOf(caller);
      const headers = token === '' ? {} : { Authorization: `Bearer ${token}` };
      const { status } = await fetch(`${url}${path}`, { method, headers });
      table[route][caller] = status;
      expected[route][caller] = allowed[needs].includes(caller) ? 200 : caller === 'anonymous' ? 401 : 403;
    }
  }
  assert.deepEqual(table, expected);
});

test('a wrong token that is refused at once, because many wait, ends its connection', async (t) => {
  const { url } = await start(t);
  const guess = async () => {
    const response = await fetch(`${url}/sessions`, { headers: { Authorization: 'Bearer wrong' } });
    return { status: response.status, connection: response.headers.get('connection') };
  };
  // The first few are free, and a bounded number waits for the refusal at a time.
  const answers = await Promise.all(Array.from({ length: 40 }, guess));
  const crowded = answers.filter(({ status }) => status === 429);
  assert.ok(crowded.length > 0, JSON.stringify(answers));
  assert.deepEqual(new Set(crowded.map(({ connection }) => connection)), new Set(['close']));
});

test('GET /sessions lists the sessions that a principal may see', async (t) => {
  const { url } = await start(t);
  const agent = await dialHttp(url);
  t.after(() => agent.cut());
  const { session_id: mine } = await agent.shake({ auth_token: tokenOf('agent') });
  const listed = async (caller: Caller) => {
    const response = await fetch(`${url}/sessions`, { headers: { Authorization: `Bearer ${tokenOf(caller)}` } });
    const { sessions } = (await response.json()) as { sessions: readonly { session_id: string }[] };
    return sessions.map(({ session_id }) => session_id);
  };
  for (const caller of ['agent', 'admin', 'operator'] as const) assert.deepEqual(await listed(caller), [mine], caller);
  for (const caller of ['client', 'viewer', 'worker', 'bare'] as const)
    assert.deepEqual(await listed(caller), [], caller);
});

test('a method of session RPC is refused to each role that has no right to it, before its parameters are read', async (t) => {
  const { url } = await start(t);
  const wrong: string[] = [];
  for (const caller of callers) {
    if (caller === 'anonymous') continue;
    const peer = await dialWebSocket(`${url.replace('http', 'ws')}/rpc`);
    const call = async (id: number, method: string, params: object): Promise<Message> => {
      peer.send({ jsonrpc: '2.0', id, method, params });
      await peer.until(() => peer.messages.some((message) => message.id === id), `the answer to ${method}`);
      return peer.messages.find((message) => message.id === id) as Message;
    };
    const { result } = await call(0, 'rpc.handshake', { token: tokenOf(caller) });
    const { methods } = result as { readonly methods: readonly string[] };
    assert.ok(methods.length > 50);
    const principal = caller === 'bare' ? { name: caller } : principalWith(caller, [caller]);
    for (const [index, method] of methods.entries()) {
      const right = method.startsWith('fleet.') ? FLEET_RIGHT : rightOf(method);
      // A request that the caller may make is not made here: it may end the server.
      if (right === 'none' || may(principal, right)) continue;
      const { error } = await call(index + 1, method, { session_id: 7, task_id: 7 });
      const kind = (error as { data?: { kind?: unknown } } | undefined)?.data?.kind;
      if (kind !== 'unauthorized') wrong.push(`${caller} ${method}: ${JSON.stringify(error)}`);
    }
    peer.cut();
  }
  assert.deepEqual(wrong, []);
});

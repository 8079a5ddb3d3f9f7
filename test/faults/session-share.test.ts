/** One principal cannot take the sessions of the others, on either edge, also after a restart. Row F-97 of the fault catalogue. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../src/config/config.ts';
import { connect } from '../../src/connect.ts';
import { connect as connectControl } from '../../src/control.ts';
import { type RunningServer, serve } from '../../src/server/serve.ts';
import { temporaryFolder } from '../host/temporary-folder.ts';

const tokenOf = (name: string): string => `token-of-${name}-for-this-test`;
const SHARE = 200;
const ASKED = 300;

test('F-97: a token that opens sessions without end is refused at its share; all others work, also after a restart', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  writeFileSync(
    file,
    `listen: [tcp://127.0.0.1:0, http://127.0.0.1:0]
limits: { max_sessions: 400, max_sessions_per_principal: ${SHARE} }
control: { max_sessions: 400 }
auth:
  tokens:
    - { name: root, token: ${tokenOf('root')}, admin: true }
    - { name: greedy, token: ${tokenOf('greedy')}, roles: [agent, client] }
    - { name: other, token: ${tokenOf('other')}, roles: [agent, client] }
    - { name: small, token: ${tokenOf('small')}, roles: [agent, client], limits: { max_sessions: 2 } }
`,
  );
  const start = async (): Promise<RunningServer> =>
    serve(await loadConfig(file, { env: { HANDFAST_HOME: join(folder, 'home') }, cwd: folder }), { announce: false });
  let server = await start();
  t.after(() => server.close(0));
  const tcp = () => server.listeners.find((address) => address.startsWith('tcp:')) as string;
  const agentOf = (name: string) =>
    connect(tcp(), { capabilities: ['tools'], token: tokenOf(name), reconnect: { maxMs: 1 } });
  const clientOf = (name: string) => connectControl(tcp(), { token: tokenOf(name) });

  // The environment: sessions at once.
  const agents = [];
  for (let at = 0; at < SHARE; at++) agents.push(await agentOf('greedy'));
  await assert.rejects(agentOf('greedy'), { code: 'server_error' });
  agents.push(await agentOf('other'), await agentOf('small'), await agentOf('small'));
  await assert.rejects(agentOf('small'), { code: 'server_error' });
  // A place that is given back is one's own again.
  await agents.shift()?.close();
  for (const until = Date.now() + 20_000; ; ) {
    assert.ok(Date.now() < until, 'the place was not given back');
    const again = await agentOf('greedy').catch(() => undefined);
    if (again !== undefined) {
      agents.push(again);
      break;
    }
  }
  await Promise.all(agents.map((agent) => agent.close()));

  // The control edge: sessions that are stored.
  const greedy = await clientOf('greedy');
  let refused = 0;
  for (let at = 0; at < ASKED; at++) {
    await greedy.call('session.create', {}).catch((error) => {
      assert.equal(error.code, 'over_capacity');
      assert.equal(error.detail.session_limit, SHARE);
      assert.ok(error.detail.retry_after_ms > 0);
      refused++;
    });
  }
  assert.equal(refused, ASKED - SHARE);
  const headers = { authorization: `Bearer ${tokenOf('root')}` };
  const { shares } = (await (await fetch(`${server.url}/status`, { headers })).json()) as {
    shares: Record<string, { used: number; refused: number; principals: Record<string, number> }>;
  };
  assert.deepEqual(shares.control_sessions, { used: SHARE, refused, principals: { greedy: SHARE } });
  assert.ok((shares.sessions?.refused ?? 0) >= 2, 'refused handshakes are counted');
  const other = await clientOf('other');
  await other.call('session.create', {});
  await Promise.all([greedy.close(), other.close()]);

  await server.close(0);
  server = await start();
  const [greedyAgain, otherAgain] = [await clientOf('greedy'), await clientOf('other')];
  await assert.rejects(greedyAgain.call('session.create', {}), { code: 'over_capacity' });
  const { session_id } = (await otherAgain.call('session.create', {})) as { session_id: string };
  await otherAgain.call('session.send', { session_id, text: 'hello' });
  await (await agentOf('other')).close();
  const { sessions } = (await greedyAgain.call('session.list', { limit: 1 })) as { sessions: { session_id: string }[] };
  await greedyAgain.call('session.delete', { session_id: sessions[0]?.session_id });
  await greedyAgain.call('session.create', {});
  await Promise.all([greedyAgain.close(), otherAgain.close()]);
});

test('a token without its own limit gets half of all sessions, on both edges and after a restart', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'handfast.yaml');
  writeFileSync(
    file,
    `listen: [tcp://127.0.0.1:0]
journal: { kind: sqlite }
limits: { max_sessions: 9 }
control: { max_sessions: 6 }
auth:
  tokens:
    - { name: greedy, token: ${tokenOf('greedy')}, roles: [agent, client] }
    - { name: other, token: ${tokenOf('other')}, roles: [agent, client] }
    - { name: large, token: ${tokenOf('large')}, roles: [agent, client], limits: { max_sessions: 5 } }
`,
  );
  const start = async (): Promise<RunningServer> =>
    serve(await loadConfig(file, { env: { HANDFAST_HOME: join(folder, 'home') }, cwd: folder }), { announce: false });
  let server = await start();
  t.after(() => server.close(0));
  const agentOf = (name: string) =>
    connect(server.listeners[0] as string, { capabilities: ['tools'], token: tokenOf(name), reconnect: { maxMs: 1 } });
  const clientOf = (name: string) => connectControl(server.listeners[0] as string, { token: tokenOf(name) });
  const agents = [];
  for (let at = 0; at < 4; at++) agents.push(await agentOf('greedy'));
  // A session without an entry is not stored.
  for (const agent of agents) await agent.tools.list();
  await assert.rejects(agentOf('greedy'), { code: 'server_error' });
  const greedy = await clientOf('greedy');
  for (let at = 0; at < 3; at++) await greedy.call('session.create', {});
  await assert.rejects(greedy.call('session.create', {}), {
    code: 'over_capacity',
    detail: { session_limit: 3, retry_after_ms: 1_000 },
  });
  await greedy.close();
  await server.close(0);

  server = await start();
  // The sessions of the agents wait for them, and still count.
  await assert.rejects(agentOf('greedy'), { code: 'server_error' });
  for (let at = 0; at < 5; at++) agents.push(await agentOf('large'));
  const [again, other] = [await clientOf('greedy'), await clientOf('other')];
  await assert.rejects(again.call('session.create', {}), { code: 'over_capacity' });
  await other.call('session.create', {});
  await Promise.all([again.close(), other.close()]);
});

/**
 * Every planning message, raw, on the running program: with a token that may only read, with one that has no planning, for
 * plans that are not shared, and malformed. Each refusal has its code, nothing changes, and the connection stays usable.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseTcpAddress } from '../../../src/transport/socket.ts';
import { User } from '../../cli/command.ts';
import { root } from '../../rules/scan.ts';
import { dialSocket } from '../../support/carriers.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';

const token = (name: string): string => `${name}-0123456789abcdef0123456789abcdef`;

/** Requests that only read, and those that change something, with their fields beside the plan. */
const reads = (taskId: string): Record<string, object> => ({
  'planning/plan/list': {},
  'planning/task/list': {},
  'planning/plan/board': {},
  'planning/plan/show/req': {},
  'planning/task/show/req': { task_id: taskId },
  'planning/task/ready/req': {},
  'planning/history/req': {},
  'planning/watch/req': {},
});
const writes = (taskId: string): Record<string, object> => ({
  'planning/plan/create': { name: 'more' },
  'planning/task/add': { title: 'more' },
  'planning/task/update': { task_id: taskId, status: 'done', force: true },
  'planning/plan/configure/req': { name: 'other' },
  'planning/plan/archive/req': { archived: true },
  'planning/plan/delete/req': { force: true },
  'planning/plan/share/req': { principal: 'stranger', role: 'write' },
  'planning/task/claim/req': { wait_ms: 0 },
  'planning/task/renew/req': { task_id: taskId, fence: 1 },
  'planning/task/release/req': { task_id: taskId, fence: 1 },
  'planning/task/comment/req': { task_id: taskId, text: 'said' },
  'planning/task/archive/req': { task_id: taskId, archived: true },
  'planning/task/delete/req': { task_id: taskId, force: true },
  'planning/markdown/req': { text: '- [ ] more\n' },
});

/** Every request of the published schema. */
const published = JSON.parse(readFileSync(join(root, 'schema/planning.json'), 'utf8')) as {
  $defs: Record<string, { properties: { type?: { const?: string } } }>;
};
const types = Object.values(published.$defs).flatMap(({ properties }) => properties.type?.const ?? []);
const requests = types.filter((type) => !/\/(resp|event)$/.test(type));

let sent = 0;
/** Sends a request and returns its reply; skips events and replies of other requests. */
async function ask(peer: Peer, type: string, body: object): Promise<Message> {
  const id = `r${++sent}`;
  peer.send({ type, id, version: '1.0', ts: 1, ...body });
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id === id) return next;
  }
}

/** Returns the code of a refusal, in either of its forms; undefined: no refusal. */
const codeOf = ({ type, code, success, error }: Message): string | undefined =>
  type === 'error' ? code : success === false ? error.code : undefined;

test('each raw message of a restricted token is refused with its code, changes nothing, and the connection stays usable', {
  timeout: 240_000,
}, async (t) => {
  assert.deepEqual([...Object.keys(reads('')), ...Object.keys(writes(''))].sort(), requests.sort());
  const user = new User();
  t.after(() => user.leave());
  const tokens = [
    `{ name: owner, token: ${token('owner')}, capabilities: [planning] }`,
    `{ name: reader, token: ${token('reader')}, grants: { planning: { access: read } } }`,
    `{ name: helper, token: ${token('helper')}, capabilities: [tools], tools: { allow: [read_file] } }`,
  ];
  user.write(
    'handfast.yaml',
    `listen: 'tcp://127.0.0.1:0'\nplugins: [planning, tools]\nauth:\n  tokens:\n${tokens.map((one) => `    - ${one}\n`).join('')}`,
  );
  const host = user.start(['up', '--config', 'handfast.yaml', '--json']);
  await host.says('"ready":true');
  const address = (JSON.parse(host.stdout) as { listeners: string[] }).listeners.find((one) => one.startsWith('tcp:'));
  const open = async (name: string, caps: readonly string[]): Promise<{ peer: Peer; terms: Message }> => {
    const peer = await dialSocket(parseTcpAddress(address ?? assert.fail(host.stdout)));
    t.after(() => peer.cut());
    const greeting = { agent_id: 'same', agent_caps: caps, auth_token: token(name) };
    return { peer, terms: await ask(peer, 'handshake/req', greeting) };
  };
  const { peer: owner } = await open('owner', ['planning']);
  const made = async (name: string) => {
    const { plan_id } = await ask(owner, 'planning/plan/create', { name });
    const { task_id } = await ask(owner, 'planning/task/add', { plan_id, title: 'first' });
    await ask(owner, 'planning/task/add', { plan_id, title: 'second' });
    await ask(owner, 'planning/task/claim/req', { plan_id, task_id, lease_ms: 600_000 });
    return { plan_id, task_id };
  };
  const [shared, secret] = [await made('shared'), await made('secret')];
  // It is shared for writing: the grant of the reader refuses.
  const share = { plan_id: shared.plan_id, principal: 'reader', role: 'write' };
  assert.equal(codeOf(await ask(owner, 'planning/plan/share/req', share)), undefined);
  /** Returns the whole state of the owner. */
  const everything = async (): Promise<string> => {
    const parts: unknown[] = [(await ask(owner, 'planning/plan/list', { include_archived: true })).plans];
    for (const { plan_id } of [shared, secret]) {
      parts.push((await ask(owner, 'planning/history/req', { plan_id, limit: 1_000 })).entries);
      parts.push((await ask(owner, 'planning/task/list', { plan_id, include_archived: true })).tasks);
    }
    // The rest of a lease is not part of the state.
    return JSON.stringify(parts, (key, value: unknown) => (key === 'expires_in_ms' ? undefined : value));
  };
  const before = await everything();
  const usable = async (peer: Peer): Promise<void> => {
    assert.equal((await ask(peer, 'ping', {})).type, 'pong');
  };

  const { peer: reader } = await open('reader', ['planning']);
  for (const [type, body] of Object.entries(reads(shared.task_id))) {
    const reply = await ask(reader, type, { plan_id: shared.plan_id, ...body });
    assert.deepEqual([type, codeOf(reply)], [type, undefined], JSON.stringify(reply));
  }
  const dry = { plan_id: shared.plan_id, text: '- [ ] more\n', dry_run: true };
  assert.equal(codeOf(await ask(reader, 'planning/markdown/req', dry)), undefined);
  for (const [type, body] of Object.entries(writes(shared.task_id))) {
    const reply = await ask(reader, type, { plan_id: shared.plan_id, ...body });
    assert.deepEqual([type, codeOf(reply)], [type, 'planning.read_only'], JSON.stringify(reply));
    await usable(reader);
  }
  for (const [type, body] of Object.entries({ ...reads(secret.task_id), ...writes(secret.task_id) })) {
    if (['planning/plan/list', 'planning/plan/create'].includes(type)) continue;
    const reply = await ask(reader, type, { plan_id: secret.plan_id, ...body });
    assert.deepEqual([type, codeOf(reply)], [type, 'planning.unknown_plan'], JSON.stringify(reply));
  }
  const { plans } = await ask(reader, 'planning/plan/list', {});
  assert.deepEqual(
    plans.map(({ name }: Message) => name),
    ['shared'],
  );
  const malformed: Record<string, object> = {
    'planning/plan/list': { include_archived: 'x' },
    'planning/plan/create': { columns: 'x' },
  };
  for (const type of requests) {
    const reply = await ask(reader, type, malformed[type] ?? { plan_id: 7 });
    assert.deepEqual([reply.type, reply.code], ['error', 'schema_violation'], type);
  }
  await usable(reader);

  const { peer: helper, terms } = await open('helper', ['tools', 'planning']);
  const enabled = terms.accepted_caps.map((one: Message) => [one.capability, one.enabled]);
  assert.deepEqual([terms.ok, ...enabled], [true, ['tools', true], ['planning', false]]);
  for (const [type, body] of Object.entries({ ...reads(shared.task_id), ...writes(shared.task_id) })) {
    const reply = await ask(helper, type, { plan_id: shared.plan_id, ...body });
    assert.deepEqual([reply.type, reply.code], ['error', 'capability_missing'], type);
    await usable(helper);
  }
  assert.equal(await everything(), before);
});

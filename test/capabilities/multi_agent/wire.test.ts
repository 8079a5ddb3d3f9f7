/**
 * The multi_agent messages on the wire: every line of other implementations is valid and gets a reply of the right form, the
 * upper-case forms even without an id, over every transport.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { SubagentFunction } from '../../../src/capabilities/multi_agent/functions.ts';
import * as requests from '../../../src/capabilities/multi_agent/multi_agent.generated.ts';
import * as replies from '../../../src/capabilities/multi_agent/multi_agent.replies.generated.ts';
import { multiAgentPlugin } from '../../../src/capabilities/multi_agent/plugin.ts';
import { createHost } from '../../../src/host/host.ts';
import { root } from '../../rules/scan.ts';
import { messageSetOf } from '../../support/message-set.ts';
import type { Peer } from '../../support/peer.ts';
import { plainPeer } from '../../support/plain-peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { allTransports, type TransportName } from '../../support/sites.ts';

const { vectors, checks, mustBeValid } = messageSetOf('multi_agent', requests, replies);

test('every line of the set is valid, with unknown fields too', () => mustBeValid(20));

const upper = readFileSync(join(root, 'test/vectors/a2e/subagents.ndjson'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Message);

test('every line of the upper-case forms is valid, without base fields', () => {
  assert.equal(upper.length, 26);
  for (const message of upper) {
    const check = checks.get(message.type) ?? assert.fail(message.type);
    assert.ok(check(message), `${message.type}: ${JSON.stringify(check.errors)}`);
    assert.ok(check({ ...message, id: 'x', ts: 1, version: '1.0', later: [1] }));
  }
});

/** Waits for a message if its task says so, and then reports progress. */
const run: SubagentFunction = async ({ name, instruction }, { progress, onMessage }) => {
  if (instruction === 'wait') await new Promise<void>((resolve) => onMessage(() => resolve()));
  progress({ message: 'at it' });
  return { summary: name };
};

function peerOf(t: TestContext, transport: Exclude<TransportName, 'stdio'>): Promise<Peer> {
  const host = createHost({
    plugins: [multiAgentPlugin({ kinds: [{ name: 'echo', run }] })],
  });
  return plainPeer(t, transport, host, { asked: 'subagents', granted: 'multi_agent' });
}

/** Returns the next reply; checks events before it. */
async function answer(peer: Peer, type: string, reqId: string): Promise<Message> {
  for (;;) {
    const next = (await peer.next()) as Message;
    for (const field of ['id', 'a2e', 'version', 'ts']) assert.ok(field in next, `${next.type} has no ${field}`);
    assert.notEqual(next.type, 'multi_agent/event', 'no request asks for events');
    if (next.type !== 'error') assert.ok(checks.get(next.type)?.(next), JSON.stringify(next));
    if (next.req_id !== reqId || (next.type !== type && next.type !== 'error')) continue;
    return next;
  }
}

for (const transport of allTransports) {
  if (transport === 'stdio') continue;
  test(`a plain client over ${transport} spawns, delegates, awaits, lists and ends`, { timeout: 60_000 }, async (t) => {
    const peer = await peerOf(t, transport);
    const ask = async (type: string, fields: object) => {
      peer.send({ version: '1.0', ts: 1, type, id: type, ...fields });
      return answer(peer, `${type}/resp`, type);
    };
    const spawned = await ask('multi_agent/spawn', { name: 'scout' });
    assert.equal(spawned.status, 'READY');
    const { subagent_id } = spawned;
    const task = { subagent_id, task_name: 'survey', instruction: 'List' };
    assert.deepEqual((await ask('multi_agent/delegate', task)).accepted, true);
    const done = await ask('multi_agent/await', { subagent_id });
    assert.deepEqual([done.status, done.result, done.error], ['COMPLETED', { summary: 'survey' }, null]);
    const listed = await ask('multi_agent/list', {});
    assert.deepEqual(
      listed.subagents.map((one: Message) => [one.subagent_id, one.name, one.status]),
      [[subagent_id, 'scout', 'COMPLETED']],
    );
    assert.equal((await ask('multi_agent/terminate', { subagent_id })).success, true);
    const refused = await ask('multi_agent/delegate', task);
    assert.deepEqual([refused.accepted, refused.refusal.code], [false, 'multi_agent.ended']);
    const unknown = await ask('multi_agent/await', { subagent_id: 'sub_00000000' });
    assert.deepEqual([unknown.type, unknown.code], ['error', 'unknown_subagent']);

    // The upper-case forms, without an id: the reply has every base field and an empty req_id.
    const upperAsk = async (type: string, reply: string, fields: object, more: object = {}) => {
      peer.send({ type, ...fields, ...more });
      return answer(peer, reply, 'id' in more ? String(more.id) : '');
    };
    const agent = { name: 'scout', model: 'small-1', role: null, metadata: {} };
    const made = await upperAsk('SUBAGENT_SPAWN_REQ', 'SUBAGENT_SPAWN_RESP', { agent, parent_agent_id: 'root' });
    const id = { subagent_id: made.subagent_id };
    const given = await upperAsk('SUBAGENT_DELEGATE_REQ', 'SUBAGENT_DELEGATE_RESP', {
      ...id,
      task: { name: 't', instruction: 'wait' },
    });
    assert.deepEqual([made.status, given.accepted], ['READY', true]);
    peer.send({ type: 'SUBAGENT_AWAIT_REQ', id: 'with an id', ...id });
    peer.send({
      type: 'SUBAGENT_MESSAGE_REQ',
      id: 'm',
      from_subagent_id: '',
      to_subagent_id: id.subagent_id,
      message: { type: 'go', content: null },
    });
    const ended = await answer(peer, 'SUBAGENT_AWAIT_RESP', 'with an id');
    assert.deepEqual([ended.status, ended.result, ended.req_id], ['COMPLETED', { summary: 't' }, 'with an id']);
    const all = await upperAsk('SUBAGENT_LIST_REQ', 'SUBAGENT_LIST_RESP', {});
    assert.deepEqual(
      all.subagents.map((one: Message) => [one.status, one.parent_agent_id, one.root_agent_id, one.depth]),
      [
        ['TERMINATED', 'plain', 'plain', 1],
        ['COMPLETED', 'plain', 'plain', 1],
      ],
    );
    const cancelled = await upperAsk('SUBAGENT_CANCEL_REQ', 'SUBAGENT_EVENT', id, { id: 'c' });
    assert.deepEqual([cancelled.event, cancelled.content], ['cancelled', { success: false }]);
    const over = await upperAsk('SUBAGENT_TERMINATE_REQ', 'SUBAGENT_EVENT', id, { id: 'e' });
    assert.deepEqual([over.event, over.content], ['terminated', { success: true }]);
    const error = await upperAsk('SUBAGENT_AWAIT_REQ', '', { subagent_id: 'sub_00000000' });
    assert.deepEqual([error.type, error.code], ['error', 'unknown_subagent']);
  });
}

test('several requests without an id are answered, each once', async (t) => {
  const peer = await peerOf(t, 'memory');
  for (let at = 0; at < 5; at++) {
    peer.send({ type: 'SUBAGENT_SPAWN_REQ', agent: { name: `s${at}`, model: 'default' } });
  }
  const ids = new Set<string>();
  while (ids.size < 5) ids.add((await answer(peer, 'SUBAGENT_SPAWN_RESP', '')).subagent_id);
  peer.send({ type: 'SUBAGENT_SPAWN_REQ', id: 1, agent: { name: 'x', model: 'default' } });
  assert.equal((await answer(peer, '', '')).code, 'schema_violation');
});

test('every recorded request gets one answer of its form', async (t) => {
  const peer = await peerOf(t, 'memory');
  const recorded = [...vectors, ...upper].filter(({ type }) => /^(?:multi_agent\/\w+|SUBAGENT_\w+_REQ)$/.test(type));
  for (const [at, message] of recorded.entries()) {
    const { req_id: _, ...request } = message;
    peer.send({ ...request, id: `v${at}` });
    const reply = await answer(peer, replyOf(message.type), `v${at}`);
    assert.ok(reply.type === replyOf(message.type) || reply.type === 'error', JSON.stringify(reply));
    if (reply.type === 'error') assert.match(reply.code, /^unknown_subagent$/);
  }
});

const replyOf = (type: string): string =>
  type.startsWith('multi_agent/')
    ? `${type}/resp`
    : /CANCEL|TERMINATE/.test(type)
      ? 'SUBAGENT_EVENT'
      : type.replace(/REQ$/, 'RESP');

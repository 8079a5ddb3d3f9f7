/**
 * The planning messages on the wire: every line of other implementations is valid and gets a reply of the right form, over
 * every transport.
 */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import * as requests from '../../../src/capabilities/planning/planning.generated.ts';
import * as replies from '../../../src/capabilities/planning/planning.replies.generated.ts';
import { planningPlugin } from '../../../src/capabilities/planning/plugin.ts';
import { createHost } from '../../../src/host/host.ts';
import { messageSetOf } from '../../support/message-set.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { allTransports, doorOf, type TransportName } from '../../support/sites.ts';

const { vectors, checks } = messageSetOf('planning', requests, replies);
const isReply = ({ type }: Message): boolean => type.endsWith('/resp');

test('every line of the set is valid, with unknown fields too, and every pair of A2E 1.0 has lines', () => {
  assert.equal(vectors.length, 24);
  for (const message of vectors) {
    const check = checks.get(message.type) ?? assert.fail(message.type);
    assert.ok(check(message), `${message.type}: ${JSON.stringify(check.errors)}`);
    assert.ok(check({ ...message, later: [1] }));
  }
  const types = [...checks.keys()];
  const plain = types.filter((type) => types.includes(type.endsWith('/resp') ? type.slice(0, -5) : `${type}/resp`));
  assert.deepEqual([...new Set(vectors.map(({ type }) => type))].sort(), plain.sort());
});

/** Sends a request and returns its reply. */
async function ask(peer: Peer, message: Message): Promise<Message> {
  peer.send(message);
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id === message.id) return next;
  }
}

async function peerOf(t: TestContext, transport: Exclude<TransportName, 'stdio'>): Promise<Peer> {
  const host = createHost({ plugins: [planningPlugin()] });
  await host.start();
  const door = await doorOf(transport, host);
  const peer = await door.dial();
  t.after(async () => {
    peer.cut();
    await door.close();
    await host.close(0);
  });
  const terms = await ask(peer, { type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: ['planning'] });
  assert.equal(terms.ok, true);
  return peer;
}

for (const transport of allTransports) {
  if (transport === 'stdio') continue;
  describe(`over ${transport}`, () => {
    test('a plain client creates, adds, updates and reads, and is refused with success false', async (t) => {
      const peer = await peerOf(t, transport);
      const sent: Message[] = [];
      const call = async (type: string, body: Message): Promise<Message> => {
        const reply = await ask(peer, { type, id: `r${sent.length}`, version: '1.0', ts: 1, ...body });
        sent.push(reply);
        assert.equal(reply.type, `${type}/resp`);
        assert.ok(checks.get(reply.type)?.(reply), JSON.stringify(reply));
        return reply;
      };
      const plan = await call('planning/plan/create', { name: 'default', columns: [], description: '' });
      assert.deepEqual([plan.success, plan.columns], [true, ['backlog', 'todo', 'in_progress', 'done']]);
      const { plan_id } = plan;
      const named = await call('planning/plan/create', { name: 'b', columns: ['to, do', 'do,ne'] });
      assert.deepEqual(named.columns, ['to, do', 'do,ne']);
      const first = await call('planning/task/add', { plan_id, title: 't', status: 'backlog', deps: [], metadata: {} });
      assert.deepEqual([first.success, first.status], [true, 'backlog']);
      const second = await call('planning/task/add', { plan_id, title: 'u', deps: [first.task_id] });
      // Neither a missing plan nor a missing task.
      const lost = await call('planning/task/add', { plan_id: 'a1b2c3d4e5f6', title: 't' });
      assert.deepEqual([lost.success, lost.task_id, lost.status], [false, '', '']);
      assert.equal(lost.error.code, 'planning.unknown_plan');
      const task_id = first.task_id;
      const none = await call('planning/task/update', { plan_id, task_id: '0f1e2d3c4b5a', status: 'done' });
      assert.deepEqual([none.success, none.task_id], [false, '0f1e2d3c4b5a']);
      // An empty change is no failure.
      const same = await call('planning/task/update', { plan_id, task_id, status: '', assignee: '', deps: [] });
      assert.equal(same.success, true);
      const blocked = await call('planning/task/update', { plan_id, task_id: second.task_id, status: 'done' });
      assert.deepEqual([blocked.success, blocked.error.code], [false, 'planning.blocked']);
      await call('planning/task/update', { plan_id, task_id, status: 'review', assignee: 'bo' });
      const all = await call('planning/task/list', { plan_id: '', status: 'review' });
      assert.deepEqual(
        all.tasks.map(({ task_id, title, status, assignee, plan_id }: Message) => [
          task_id,
          title,
          status,
          assignee,
          plan_id,
        ]),
        [[task_id, 't', 'review', 'bo', plan_id]],
      );
      const { boards } = await call('planning/plan/board', { plan_id });
      assert.deepEqual(Object.keys(boards[0].tasks), ['backlog', 'todo', 'in_progress', 'done', 'review']);
      assert.equal((await call('planning/plan/board', { plan_id: '' })).boards.length, 2);
      const { plans } = await call('planning/plan/list', {});
      assert.deepEqual(
        plans.map(({ name }: Message) => name),
        ['default', 'b'],
      );
    });
  });
}

test('every request of the set gets one reply of its type', async (t) => {
  const peer = await peerOf(t, 'memory');
  for (const message of vectors.filter((message) => !isReply(message))) {
    const reply = await ask(peer, message);
    // A plan of another host can neither be read nor changed.
    const unknown = ['planning/task/list', 'planning/plan/board'].includes(message.type) && message.plan_id !== '';
    assert.equal(reply.type, unknown ? 'error' : `${message.type}/resp`, message.type);
    if (unknown) assert.equal(reply.code, 'planning.unknown_plan');
  }
});

test('a message that lacks what it needs is refused by the field', async (t) => {
  const peer = await peerOf(t, 'memory');
  const reply = await ask(peer, { type: 'planning/task/add', id: 'x', title: 't' });
  assert.deepEqual([reply.code, reply.detail.path], ['schema_violation', '/plan_id']);
});

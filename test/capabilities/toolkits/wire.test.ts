/**
 * The toolkits messages on the wire: every line of other implementations is valid, and gets a reply of the right form, over every
 * transport.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as requests from '../../../src/capabilities/toolkits/toolkits.generated.ts';
import * as replies from '../../../src/capabilities/toolkits/toolkits.replies.generated.ts';
import { messageSetOf } from '../../support/message-set.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { allTransports, doorOf } from '../../support/sites.ts';
import { toolkitsHost, tracker } from './support.ts';

const { vectors, checks, mustBeValid } = messageSetOf('toolkits', requests, replies);

test('every line of the set is valid, with unknown fields too', () => mustBeValid(8));

async function ask(peer: Peer, message: Message): Promise<Message> {
  peer.send(message);
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id === message.id) return next;
  }
}

for (const transport of allTransports.filter((name) => name !== 'stdio')) {
  test(`every request of the set gets one reply of its type over ${transport}`, async (t) => {
    const host = await toolkitsHost(t);
    const door = await doorOf(transport, host);
    const peer = await door.dial();
    t.after(async () => {
      peer.cut();
      await door.close();
    });
    const caps = ['toolkits', 'tools'];
    const terms = await ask(peer, { type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: caps });
    assert.equal(terms.ok, true);
    const seen: string[] = [];
    for (const message of vectors.filter(({ type }) => type.endsWith('/req'))) {
      const reply = await ask(peer, message);
      assert.equal(reply.type, message.type.replace(/req$/, 'resp'));
      assert.ok(checks.get(reply.type)?.(reply), JSON.stringify(reply));
      seen.push(reply.status ?? reply.toolkits.map(({ name }: Message) => name).join(' '));
    }
    // Neither an unnamed toolkit nor a missing session can be configured.
    assert.deepEqual(seen, ['filesystem search sqlite', 'filesystem', 'error', 'error']);
  });
}

test('a plain client configures a toolkit: it is configured in later lists, and its tools are in tool/list under its name', async (t) => {
  const host = await toolkitsHost(t, { toolkits: { toolkits: [tracker] } });
  const door = await doorOf('tcp', host);
  const peer = await door.dial();
  t.after(async () => {
    peer.cut();
    await door.close();
  });
  const body = { version: '1.0', ts: 1 };
  const handshake = { type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: ['toolkits', 'tools'] };
  const { session_id } = await ask(peer, handshake);
  const list = async (id: string) => (await ask(peer, { type: 'toolkit/list/req', id, ...body })).toolkits[0];
  assert.deepEqual((await list('1')).configured, false);
  const configure = { type: 'toolkit/configure/req', ...body, session_id, toolkit_name: 'tracker' };
  const wrong = await ask(peer, { ...configure, id: '2', config: { project: '', limit: 0 } });
  assert.equal(wrong.status, 'error');
  assert.match(wrong.message, /^the configuration of tracker: \/project must NOT have fewer than 1 characters/);
  assert.deepEqual(wrong.errors[0].path, '/project');
  assert.deepEqual((await list('3')).configured, false);
  const right = await ask(peer, { ...configure, id: '4', config: { project: 'DOOR' } });
  assert.deepEqual([right.status, right.message, right.toolkit_name], ['ok', null, 'tracker']);
  const now = await list('5');
  assert.deepEqual([now.configured, now.tools], [true, ['issues']]);
  assert.doesNotMatch(JSON.stringify(now), /DOOR/);
  const { tools } = await ask(peer, { type: 'tool/list/req', id: '6', ...body });
  assert.deepEqual(
    tools.map(({ name, toolkit }: Message) => [name, toolkit]),
    [
      ['issues', 'tracker'],
      ['own', null],
    ],
  );
  const call = { type: 'tool/call/req', id: '7', ...body, tool_name: 'issues', arguments: {} };
  assert.deepEqual((await ask(peer, call)).data.data, { project: 'DOOR', limit: 7, length: 0 });
});

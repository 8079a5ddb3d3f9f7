/**
 * The mcp messages on the wire: every line of other implementations that is served here is valid, and gets a reply of the right
 * form.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import * as requests from '../../../src/capabilities/mcp/mcp.generated.ts';
import * as replies from '../../../src/capabilities/mcp/mcp.replies.generated.ts';
import { messageSetOf } from '../../support/message-set.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { doorOf } from '../../support/sites.ts';
import { everything, mcpHost, oddCommand } from './support.ts';

const { vectors, checks, mustBeValid } = messageSetOf('mcp', requests, replies);

test('every line of the set is valid, with unknown fields too', () => mustBeValid(43));

async function ask(peer: Peer, message: Message): Promise<Message> {
  peer.send(message);
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id === message.id) return next;
  }
}

async function peerOf(t: TestContext, command: readonly string[] = oddCommand): Promise<Peer> {
  const host = await mcpHost(t, { mcp: { register: [command.join(' ')] } });
  const door = await doorOf('tcp', host);
  const peer = await door.dial();
  t.after(async () => {
    peer.cut();
    await door.close();
  });
  const terms = await ask(peer, { type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: ['mcp', 'tools'] });
  assert.equal(terms.ok, true);
  return peer;
}

test('every request of the set gets one reply of its type, and what may not be is refused with ok false', async (t) => {
  const peer = await peerOf(t);
  // Hosts send these two requests.
  const asked = ['mcp/sample/req', 'mcp/root/list/req'];
  const sent = vectors.filter(({ type }) => type.endsWith('/req') && !asked.includes(type));
  for (const message of sent) {
    const reply = await ask(peer, message);
    // A list of a missing server.
    if (reply.type === 'error') {
      assert.deepEqual(
        [reply.code, /list/.test(message.type), message.server_id],
        ['mcp_server_not_found', true, 'fs'],
      );
      continue;
    }
    assert.equal(reply.type, message.type.replace(/req$/, 'resp'));
    assert.ok(checks.get(reply.type)?.(reply), JSON.stringify(reply));
    if (!/list/.test(reply.type)) assert.match(reply.error ?? reply.refusal.code, /^mcp/);
  }
});

test('a plain client adds a server, calls its tools as <server_id>__<tool>, and removes it', async (t) => {
  const peer = await peerOf(t);
  const body = { version: '1.0', ts: 1 };
  const config = { server_id: 'odd', name: 'Odd', transport: 'stdio', cmd: [...oddCommand], env: { A: '1' } };
  const added = await ask(peer, { type: 'mcp/server/register/req', id: '1', ...body, config });
  assert.deepEqual([added.ok, added.error, added.server.status, added.server.tools_count], [true, '', 'ready', 11]);
  const { tools } = await ask(peer, { type: 'tool/list/req', id: '2', ...body });
  const shifty = tools.find(({ name }: Message) => name === 'odd__shifty');
  assert.deepEqual(shifty.tags, ['mcp', 'odd', 'Odd']);
  const list = { type: 'mcp/resource/list/req', ...body, server_id: 'odd' };
  const first = await ask(peer, { ...list, id: '6', cursor: '' });
  const second = await ask(peer, { ...list, id: '7', cursor: first.next_cursor });
  assert.deepEqual([first.resources.length, second.resources.length, second.next_cursor], [200, 50, '']);
  const call = { type: 'tool/call/req', id: '3', ...body, tool_name: 'odd__shifty', arguments: {} };
  const { data } = await ask(peer, call);
  assert.deepEqual([data.success, data.data.content[0].text], [true, 'harmless']);
  const removed = await ask(peer, { type: 'mcp/server/unregister/req', id: '4', ...body, server_id: 'odd' });
  assert.deepEqual([removed.ok, removed.server_id], [true, 'odd']);
  const again = await ask(peer, { ...call, id: '5' });
  assert.equal(again.code, 'unknown_tool');
});

test('a plain client is sampled, and answers as the Python SDK does: by the type of the request', async (t) => {
  const [command, ...args] = [everything.command as string, ...(everything.args ?? [])];
  const peer = await peerOf(t, [command, ...args]);
  const body = { version: '1.0', ts: 1 };
  const config = { server_id: 'all', transport: 'stdio', cmd: [command, ...args] };
  assert.equal((await ask(peer, { type: 'mcp/server/register/req', id: '1', ...body, config })).ok, true);
  for (const type of ['mcp/sample/resp', 'mcp/sample/req']) {
    const given = { prompt: 'hello', maxTokens: 7 };
    const call = { tool_name: 'all__trigger-sampling-request', arguments: given };
    peer.send({ type: 'tool/call/req', id: type, ...body, ...call });
    let asked: Message;
    do asked = (await peer.next()) as Message;
    while (asked.type !== 'mcp/sample/req');
    assert.deepEqual([asked.server_id, asked.max_tokens], ['all', 7]);
    const { id, server_id, mcp_request_id } = asked;
    const said = { role: 'assistant', content: { type: 'text', text: `said by ${type}` }, model: 'm', error: '' };
    peer.send({ type, id: `answer ${type}`, ...body, req_id: id, server_id, mcp_request_id, stop_reason: '', ...said });
    let reply: Message;
    do reply = (await peer.next()) as Message;
    while (reply.req_id !== type || reply.type === 'tool/event');
    assert.match(JSON.stringify(reply.data), new RegExp(`said by ${type}`));
  }
});

/**
 * Names and ids that users of the library choose reach the wire escaped or not at all: with any content, a message
 * stays one line of JSON with exactly its intended content.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { connect } from '../../src/connect.ts';
import { createHost, type HostOptions } from '../../src/host/host.ts';
import { definePlugin, handle, type Plugin } from '../../src/host/plugin.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { method } from '../../src/protocol/method.ts';
import { A2ECodec } from '../../src/wire/a2e.ts';
import type { Message } from '../support/raw-agent.ts';
import { doorOf } from '../support/sites.ts';
import { echo } from '../support/tools.ts';

/** Each would end a text, a line or a message early if it were written as it is. */
const hostile = [
  '"',
  '","type":"shutdown","x":"',
  'a\n{"type":"shutdown","id":"x"}\n',
  'a\r\nb',
  '\\',
  '\\u0022',
  '\u0000\u0001\u001f',
  '\u2028\u2029',
  '\ud800',
  "'{}[]:,",
  'é漢\u{1f600}',
  '__proto__',
  'x'.repeat(10_000),
];

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
});

async function opened(options: Partial<HostOptions>) {
  const host = createHost({ plugins: [toolsPlugin({ tools: [echo] })], journal: memoryJournal(), ...options });
  await host.start();
  const door = await doorOf('tcp', host);
  closing.push(
    () => host.close(0),
    () => door.close(),
  );
  return { host, door };
}

const call = (id: string): Message => ({ type: 'tool/call/req', id, tool_name: 'echo', arguments: { text: id } });

test('session ids of newId are escaped, and message ids take nothing from them that would have to be', async () => {
  for (const id of hostile) {
    const { door } = await opened({ newId: () => id });
    const peer = await door.dial();
    const { session_id } = await peer.shake({ extensions: { 'handfast/resume': {} } });
    assert.equal(session_id, id);
    peer.send(call('c'));
    const answer = await peer.answer('c');
    assert.deepEqual([answer.type, answer.data.data], ['tool/call/resp', { text: 'c' }]);
    for (const message of peer.messages) assert.match(message.id, /^[\w-]+$/);
    // The peer parses every line it gets; here are no more of them than there should be.
    assert.equal(peer.lines.length, 2);
    peer.cut();
    const again = await door.dial();
    const extensions = { 'handfast/resume': { session_id: id, cursor: answer.cursor } };
    assert.equal((await again.shake({ extensions })).extensions['handfast/resume'].resumed, true);
  }
});

test('a newId that gives nothing, or an id in use, opens no session', async () => {
  for (const ids of [[''], ['same', 'same']]) {
    const left = [...ids];
    const { host, door } = await opened({ newId: () => left.shift() as string });
    for (let before = 1; before < ids.length; before++) assert.equal((await (await door.dial()).shake()).ok, true);
    const refused = await (await door.dial()).shake();
    assert.deepEqual([refused.ok, refused.reason, refused.session_id], [false, 'server_error', '']);
    assert.equal(host.health().sessions, ids.length - 1);
  }
});

test('ids of requests come back as they were sent', async () => {
  const { door } = await opened({});
  const peer = await door.dial();
  await peer.shake();
  for (const id of hostile) {
    peer.send(call(id));
    const answer = await peer.next();
    assert.deepEqual([answer.type, answer.req_id, answer.data.data.text], ['tool/call/resp', id, id]);
  }
});

test('agent.request refuses types that cannot be written as they are, and sends nothing', async () => {
  const { door } = await opened({});
  await using agent = await connect(door.address as string, { capabilities: ['tools'] });
  const types: unknown[] = [
    ...hostile.filter((type) => JSON.stringify(type) !== `"${type}"`),
    '',
    5,
    null,
    ['ping'],
    {},
  ];
  assert.equal(types.length, 13);
  for (const type of types) {
    assert.throws(() => agent.request(type as string), { code: 'usage' }, JSON.stringify(type));
  }
  // Harmless ones are asked for, and this host does not know them.
  for (const type of ['é漢/req', "'{}[]:,", '\u2028']) {
    await assert.rejects(agent.request(type), { code: 'unknown_type' });
  }
});

test('fields of a body never replace those of its envelope, nor add a second message', async () => {
  const { door } = await opened({});
  await using agent = await connect(door.address as string, { capabilities: ['tools'] });
  const body = Object.fromEntries(hostile.map((name) => [name, name]));
  const reply = await agent.request('tool/call/req', {
    ...body,
    type: 'shutdown',
    id: '"',
    req_id: '"',
    tool_name: 'echo',
    arguments: body,
  });
  assert.equal(reply.type, 'tool/call/resp');
  await assert.rejects(agent.request('tool/call/req', { toJSON: () => ['"'] }), { code: 'runtime_error' });
  await agent.ping();
});

const anything = Object.assign(() => true, { errors: null });
/** Returns a plugin with one method of these types. */
const withTypes = (request: string, reply: string, event: string, run: () => object = () => ({})): Plugin => ({
  name: 'own',
  type: 'test',
  methods: [handle(method({ request, reply, event, capability: 'test', checkRequest: anything }), run)],
});

test('a plugin whose message types cannot be written as they are keeps its host from starting', async () => {
  const bad = 'own/"\n/resp';
  for (const plugin of [
    withTypes(bad, 'own/resp', 'own/event'),
    withTypes('own/req', bad, 'own/event'),
    withTypes('own/req', 'own/resp', bad),
    withTypes('', 'own/resp', 'own/event'),
    withTypes('own/req', undefined as never, 'own/event'),
  ]) {
    assert.throws(() => definePlugin(plugin), { code: 'config_invalid' });
    await assert.rejects(createHost({ plugins: [plugin] }).start(), { code: 'config_invalid' });
  }
});

test('a handler that answers with something else than an object fails its call and nothing more', async () => {
  const answers: unknown[] = [['a', 'b'], 'text', 5, true, new Date(0), { toJSON: () => '"' }, () => {}];
  for (const answer of answers) {
    const { door } = await opened({ plugins: [withTypes('own/req', 'own/resp', 'own/event', () => answer as object)] });
    const peer = await door.dial();
    await peer.shake({ agent_caps: ['test'] });
    peer.send({ type: 'own/req', id: 'r' });
    const refused = await peer.answer('r');
    assert.deepEqual([refused.type, refused.code], ['error', 'runtime_error'], String(answer));
    await peer.ping();
  }
});

test('an event is named as its tool says, and one without an object as its data is refused', async () => {
  const odd: unknown[] = [undefined, null, 'text', ['a'], 5];
  const emits = tool({
    name: 'emits',
    description: 'Emits oddly named events',
    async run(_args, { emit }) {
      for (const kind of hostile) await emit(kind as 'log', { [kind]: kind });
      let refused = 0;
      for (const data of odd) {
        try {
          await emit('log', data as Record<string, unknown>);
        } catch {
          refused++;
        }
      }
      return { refused };
    },
  });
  const { door } = await opened({ plugins: [toolsPlugin({ tools: [emits] })] });
  const peer = await door.dial();
  await peer.shake();
  peer.send({ type: 'tool/call/req', id: 'e', tool_name: 'emits', arguments: {}, streaming: true });
  const answer = await peer.answer('e');
  assert.deepEqual(answer.data.data, { refused: odd.length });
  const events = peer.messages.filter(({ type }) => type === 'tool/event');
  assert.deepEqual(
    events.map(({ kind, seq }) => [kind, seq]),
    hostile.map((kind, at) => [kind, at]),
  );
});

test('what ids of messages begin with is held to letters, digits, _ and -', () => {
  for (const prefix of hostile) {
    const line = new A2ECodec(prefix).request(true, 'ping', new A2ECodec(prefix).id(), {}) as string;
    assert.match(JSON.parse(line).id, /^[\w-]+$/);
  }
});

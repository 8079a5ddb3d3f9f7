/**
 * The client against a server with the methods of plain 1.0.0 alone, whose events are those of `docs/protocol/session-rpc.md`
 * without the additions, in the shapes that are hard to follow. `test/interop/loaf.test.ts` has a real one.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ControlClient } from '../../../src/control-client/control.ts';
import type { Link } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';

/** The methods of 1.0.0, as the vectors have them. */
const [vector = ''] = readFileSync(
  new URL('../../vectors/session-rpc/01-handshake.ndjson', import.meta.url),
  'utf8',
).split('\n');
const METHODS: readonly string[] = JSON.parse(/\["auth\.connect[^\]]*\]/.exec(vector)?.[0] ?? '[]');

type Params = Record<string, unknown>;
const S = 'session-1';

/** Makes a server whose methods are these functions. */
function plainServer(handlers: Record<string, (params: Params) => unknown>) {
  const links: Link[] = [];
  const calls: [string, Params][] = [];
  const all: typeof handlers = {
    'rpc.handshake': () => ({ protocol_version: '1.0.0', server_name: 'plain', capabilities: {}, methods: METHODS }),
    'session.create': () => ({ session_id: S, state: state() }),
    ...handlers,
  };
  const dial = async (): Promise<Link> => {
    const [near, far] = memoryPair();
    links.push(far);
    far.open({
      message(line) {
        const { id, method, params } = line as { id: number; method: string; params: Params };
        calls.push([method, params]);
        const answer = (more: object): void => far.send({ jsonrpc: '2.0', id, ...more });
        try {
          answer({ result: all[method]?.(params) ?? {} });
        } catch (error) {
          const { message } = error as Error;
          answer({ error: { code: -32603, message, data: { reason: 'internal_error' } } });
        }
      },
      malformed() {},
      ended: () => void far.close(),
      closed() {},
    });
    return near;
  };
  const emit = (type: string, payload: Params): void =>
    links.at(-1)?.send({ jsonrpc: '2.0', method: 'event', params: { type, timestamp: 'now', payload } });
  const status = (status_label: string, more: Params = {}): void =>
    emit('session.status', { session_id: S, pending: status_label !== 'ready', status_label, ...more });
  return { dial, calls, emit, status };
}

const state = (more: Params = {}) => ({
  id: S,
  pending: false,
  statusLabel: 'ready',
  messages: [],
  queue: [],
  ...more,
});

test('all events of a turn that fails come before the reply to its prompt, and none is missed', async () => {
  const server = plainServer({
    'session.send'() {
      server.status('preparing...', { turn_id: 't-1' });
      server.emit('session.message.appended', { session_id: S, message: { id: 1, kind: 'system', text: 'no model' } });
      server.emit('session.error', { session_id: S, turn_id: 't-1', message: 'no model' });
      server.status('ready');
      return { session_id: S, turn_id: 't-1', accepted: true, queued: false };
    },
  });
  await using control = await ControlClient.open(server.dial);
  const turn = await (await control.create()).prompt('hi');
  const { stopReason, error } = await turn.result();
  assert.deepEqual([stopReason, error?.code, error?.message], ['error', 'runtime_error', 'no model']);
  const sent = server.calls.find(([method]) => method === 'session.send')?.[1];
  assert.deepEqual(JSON.parse(JSON.stringify(sent)), { session_id: S, text: 'hi', enqueue: true });
});

test('a turn whose context overflows continues under an id that was never announced: its sender gets one turn', async () => {
  const server = plainServer({
    'session.send': () => ({ session_id: S, turn_id: 't-1', accepted: true, queued: false }),
  });
  await using control = await ControlClient.open(server.dial);
  const turn = await (await control.create()).prompt('long');
  const chunk = (turn_id: string, answerText: string): void =>
    server.emit('session.stream.chunk', { session_id: S, turn_id, chunk: { thoughts: [], answerText } });
  server.status('preparing...', { turn_id: 't-1' });
  server.status('thinking...', { turn_id: 't-1' });
  chunk('t-1', 'first ');
  server.status('compressing context...', { turn_id: 't-1' });
  server.status('queued (1)');
  server.status('ready');
  server.status('preparing...', { turn_id: 'unannounced' });
  chunk('unannounced', 'second');
  server.emit('session.completed', { session_id: S, turn_id: 'unannounced', answer_length: 12 });
  server.status('ready');
  const { text, stopReason, turnId } = await turn.result();
  assert.deepEqual([turnId, stopReason, text], ['t-1', 'end_turn', 'first second']);
});

test('a turn that ends with nothing but "ready" has ended', async () => {
  const server = plainServer({
    'session.send': () => ({ session_id: S, turn_id: 't-1', accepted: true, queued: false }),
  });
  await using control = await ControlClient.open(server.dial);
  const turn = await (await control.create()).prompt('hm');
  server.status('preparing...', { turn_id: 't-1' });
  server.status('thinking...', { turn_id: 't-1' });
  server.status('ready');
  assert.equal((await turn.result()).stopReason, 'end_turn');
});

test('readers get the events of their session alone; what was before cannot be had and is a gap', async () => {
  const server = plainServer({ 'session.get': () => state() });
  await using control = await ControlClient.open(server.dial);
  server.emit('session.message.appended', { session_id: 'other', message: { id: 1, kind: 'user', text: 'x' } });
  const session = await control.open(S);
  const events = session.events({ afterSeq: 0 });
  await events.started();
  server.emit('session.message.appended', { session_id: 'other', message: { id: 2, kind: 'user', text: 'y' } });
  server.status('queued (1)');
  const [gap, event] = [(await events.next()).value, (await events.next()).value];
  assert.deepEqual(gap, { type: 'gap', from: 1, to: 1 });
  assert.ok(event?.type === 'session.status');
  assert.deepEqual([event.seq, event.payload.status_label], [3, 'queued (1)']);
  events.end();
});

test('the list is live sessions and saved chats, page by page, although the server reports no next page', async () => {
  const chats = Array.from({ length: 150 }, (_, at) => ({ id: `chat-${at}`, title: `title ${at}`, messageCount: 2 }));
  const server = plainServer({
    'state.get': () => ({ sessions: { count: 1, ids: [S] } }),
    'session.get': () => state({ activeSessionId: 'chat-3', messages: [{ id: 1, kind: 'user', text: 'a\n b' }] }),
    'history.list': ({ limit, cursor }) => ({
      total: 0,
      next_cursor: null,
      sessions: chats.slice(Number(cursor), Number(cursor) + Number(limit)),
    }),
  });
  await using control = await ControlClient.open(server.dial);
  const rows = await Array.fromAsync(control.sessions());
  assert.deepEqual([rows.length, rows[0]?.session_id, rows[0]?.title], [150, S, 'a b']);
  assert.equal(rows.filter(({ session_id }) => session_id === 'chat-3').length, 0);
});

test('its errors have the codes that their texts stand for', async () => {
  const server = plainServer({
    'session.send'() {
      throw new Error('session is busy; use enqueue=true to queue the prompt');
    },
    'session.get'({ session_id }) {
      if (session_id !== S) throw new Error(`unknown session: ${session_id}`);
      return state();
    },
    'history.get'({ id }) {
      if (id === 'ab') return { id: 'abcdef' };
      throw new Error(`no saved chat matched id: ${id}`);
    },
  });
  await using control = await ControlClient.open(server.dial);
  const session = await control.open(S);
  await assert.rejects(session.prompt('x', { enqueue: false }), { code: 'session_busy' });
  for (const id of ['nowhere', 'ab']) await assert.rejects(control.open(id), { code: 'session_not_found' });
});

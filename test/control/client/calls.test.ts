/**
 * Calls of the client against a composed server, over every kind of link: results and errors as they are meant, time
 * limits, giving up, tokens, and an end after which nothing is pending.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect as connectControl } from '../../../src/control-client/connect.ts';
import { ControlClient, type ControlOptions } from '../../../src/control-client/control.ts';
import { connectBrowser } from '../../../src/transport/browser-websocket.ts';
import type { Link, LinkReceiver, Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { listenTcp } from '../../../src/transport/socket.ts';
import { within } from '../../contract/recorder.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { isEnd, readUntil, type Stand, stand, TOKEN } from './stand.ts';

const main = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

/** Runs a turn over a client: requests, replies and reads. */
async function converse(control: ControlClient, backend?: Stand['backend']): Promise<void> {
  backend?.script({ text: 'four lines', pieces: ['four ', 'lines'], thought: 'hm' });
  const session = await control.create({ title: 'first', ...(backend === undefined && { backend: 'rehearsal' }) });
  const turn = await session.prompt(backend === undefined ? 'say "four lines"' : 'count');
  const events = await readUntil(turn, isEnd(turn.turnId));
  const { stopReason, text, error } = await turn.result();
  assert.deepEqual(
    { stopReason, error, queued: turn.queued },
    { stopReason: 'end_turn', error: undefined, queued: false },
  );
  assert.match(text, /four lines$/);
  assert.ok(events.some(({ type }) => type === 'session.stream.chunk'));
  const state = await session.state();
  assert.deepEqual([state.title, state.messages.map(({ kind }) => kind)], ['first', ['user', 'assistant']]);
  const listed = await Array.fromAsync(control.sessions());
  assert.deepEqual(
    listed.map(({ session_id }) => session_id),
    [session.id],
  );
  assert.equal(control.server.protocol_version, '1.0.0');
}

describe('a conversation is the same', () => {
  test('in this process', async (t) => {
    const { connect, backend } = await stand(t);
    await converse(await connect(), backend);
  });

  for (const kind of ['webSocket', 'tcp'] as const) {
    test(`over ${kind}, with a token`, async (t) => {
      const { [kind]: address, connect, backend } = await stand(t, { guarded: true });
      await converse(await connect(address, { token: TOKEN }), backend);
    });
  }

  test('at an HTTP address without a path, which means /rpc', async (t) => {
    const { webSocket, connect } = await stand(t);
    const control = await connect(webSocket.replace('ws://', 'http://').replace('/rpc', ''));
    assert.equal((await control.rpc.ping()).ok, true);
  });

  test('over the WebSocket of browsers', async (t) => {
    const { webSocket, backend } = await stand(t);
    const control = await ControlClient.open((signal) => connectBrowser(webSocket, { signal }));
    t.after(() => control.close());
    await converse(control, backend);
  });

  test('with a child on its pipes', async (t) => {
    const address = `stdio:${process.execPath} -C handfast-source ${main} rpc`;
    const env = { HANDFAST_HOME: temporaryFolder(t), HANDFAST_KEYRING: 'off' };
    await using control = await connectControl(address, { env });
    await converse(control);
  });
});

describe('errors come as errors of the table', () => {
  test('by their name, with what the server says of them', async (t) => {
    const { connect, tcp, backend } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    const unknown = '00000000-0000-4000-8000-000000000000';
    await assert.rejects(control.open(unknown), { code: 'session_not_found', detail: { session_id: unknown } });
    await assert.rejects(session.prompt('  '), { code: 'empty_prompt' });
    await assert.rejects(control.call('no.such', {}), { code: 'unknown_type' });
    await assert.rejects(control.call('session.create', []), { code: 'schema_violation' });
    await assert.rejects(control.rpc.sessionRename({ session_id: session.id, title: ' ' }), {
      code: 'schema_violation',
      detail: { field: 'title' },
    });
    backend.script({ text: 'x', delay_ms: 60_000 });
    const running = await session.prompt('one');
    await assert.rejects(session.prompt('two', { enqueue: false }), { code: 'session_busy', retryable: true });
    assert.equal(await session.interrupt(), true);
    assert.equal((await running.result()).stopReason, 'interrupted');
    assert.equal(await session.interrupt(), false);
  });

  test('a wrong token, another version, no server, no address', async (t) => {
    const { webSocket, tcp, connect } = await stand(t, { guarded: true });
    for (const address of [webSocket, tcp]) {
      const refused = {
        code: 'auth_failed',
        message: /refused the token; pass the one it was started with as `token`/,
      };
      await assert.rejects(connect(address, { token: 'wrong' }), refused);
      const missing = { code: 'auth_failed', message: /demands a token and none was sent; pass it as `token`/ };
      await assert.rejects(connect(address), missing);
    }
    await assert.rejects(connect('tcp://127.0.0.1:1'), { code: 'unreachable' });
    await assert.rejects(connect('gopher://x'), { code: 'usage' });
    await assert.rejects(connect(`stdio:${process.execPath} -e 0`), { code: 'connection_lost' });
  });

  test('a server with no place left says so to a client that waits for its handshake', async (t) => {
    const { connect, tcp } = await stand(t, { rpcLimits: { maxConnections: 1 } });
    const first = await connect(tcp);
    await assert.rejects(connect(tcp), { code: 'over_capacity' });
    await assert.rejects(connect(), { code: 'over_capacity' });
    assert.equal((await first.rpc.ping()).ok, true);
  });

  test('a request that is longer than the server reads fails at once', async (t) => {
    const { connect, tcp } = await stand(t);
    const control = await connect(tcp);
    const session = await control.create();
    const max = 32 * 1024 * 1024;
    await assert.rejects(within(session.prompt('x'.repeat(max + 1)), 'the refusal'), { code: 'too_large' });
    assert.equal((await control.rpc.ping()).ok, true);
  });
});

describe('giving up', () => {
  /** Connects a client whose server answers only the handshake; returns the messages that the server got as well. */
  async function mute(options: ControlOptions = {}) {
    const [near, far] = memoryPair();
    const heard: Message[] = [];
    const server: LinkReceiver = {
      message(message) {
        heard.push(message as Message);
        const { id, method } = message as Message;
        if (method === 'rpc.handshake') far.send({ jsonrpc: '2.0', id, result: { protocol_version: '1.0.0' } });
      },
      malformed() {},
      ended: () => void far.close(),
      closed() {},
    };
    far.open(server);
    const control = await ControlClient.open(async () => near, { reconnect: { maxMs: 0 }, ...options });
    return { control, heard };
  }

  test('a call that takes too long rejects with timeout, and the server receives the cancel', async () => {
    const { control, heard } = await mute({ timeoutMs: 30 });
    await assert.rejects(control.rpc.ping(), { code: 'timeout' });
    await assert.rejects(control.rpc.ping({}, { timeoutMs: 10 }), { code: 'timeout' });
    const asked = heard.filter(({ method }) => method === 'system.ping').map(({ id }) => id);
    await control.close();
    const cancelled = heard.filter(({ method }) => method === '$/cancel_request');
    assert.deepEqual(
      cancelled.map(({ params }) => (params as { id: number }).id),
      asked,
    );
  });

  test('an aborted call rejects with cancelled, and work on the server ends', async (t) => {
    let stopped: Promise<void> | undefined;
    const { connect, tcp } = await stand(t, {
      scripted: {
        compact: ({ signal }) => {
          stopped = new Promise((gone) => signal.addEventListener('abort', () => gone(), { once: true }));
          return stopped.then(() => Promise.reject(new Error('stopped')));
        },
      },
    });
    const control = await connect(tcp);
    const session = await control.create();
    const giveUp = new AbortController();
    const call = { session_id: session.id, raw_command: '/compress' };
    const compressing = control.rpc.commandExecute(call, { signal: giveUp.signal });
    await within(
      (async () => {
        while (stopped === undefined) await control.rpc.ping();
      })(),
      'the work to begin',
    );
    giveUp.abort();
    await assert.rejects(compressing, { code: 'cancelled' });
    await within(stopped as unknown as Promise<void>, 'the work to end');
    await assert.rejects(control.rpc.ping({}, { signal: giveUp.signal }), { code: 'cancelled' });
  });

  test('closing settles every call and reader, and is the end', async () => {
    const { control } = await mute();
    const ping = control.rpc.ping();
    const reading = control.events().next();
    const prompting = control.feed('s').read().started();
    await control.close();
    await control.close();
    for (const each of [ping, reading, prompting]) await assert.rejects(each, { code: 'connection_lost' });
    await assert.rejects(control.rpc.ping(), { code: 'connection_lost' });
    await assert.rejects(control.events().next(), { code: 'connection_lost' });
    assert.equal(control.state, 'closed');
  });

  test('connecting can be given up, also while the handshake is waited for', async (t) => {
    const { relay } = await stand(t);
    const { address } = await relay(() => 0);
    await assert.rejects(connectControl(address), { code: 'connection_lost' });
    const silent = (): Promise<Link> => Promise.resolve(memoryPair()[0]);
    await assert.rejects(ControlClient.open(silent, { connectTimeoutMs: 20 }), { code: 'timeout' });
    const giveUp = new AbortController();
    const opening = ControlClient.open(silent, { signal: giveUp.signal });
    setImmediate(() => giveUp.abort());
    await assert.rejects(opening, { code: 'cancelled' });
  });

  test('a line of the server that is no JSON ends the link', async (t) => {
    const listener = await listenTcp({ port: 0 }, (link) => {
      link.open({ message: () => link.send('no JSON'), malformed() {}, ended() {}, closed() {} });
    });
    t.after(() => listener.close());
    await assert.rejects(within(connectControl(listener.address), 'the refusal'), { code: 'connection_lost' });
  });
});

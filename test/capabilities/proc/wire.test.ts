/**
 * The proc messages on the wire: every line of other implementations is valid and gets a reply of the right form, over every
 * transport, and a plain client gets exactly the events of A2E 1.0, after the reply.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { procPlugin } from '../../../src/capabilities/proc/plugin.ts';
import * as requests from '../../../src/capabilities/proc/proc.generated.ts';
import * as replies from '../../../src/capabilities/proc/proc.replies.generated.ts';
import { createHost } from '../../../src/host/host.ts';
import { messageSetOf } from '../../support/message-set.ts';
import type { Peer } from '../../support/peer.ts';
import { plainPeer } from '../../support/plain-peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { allTransports, doorOf, type TransportName } from '../../support/sites.ts';

const { vectors, checks, mustBeValid } = messageSetOf('proc', requests, replies);

test('every line of the set is valid, with unknown fields too', () => mustBeValid(18));

function peerOf(t: TestContext, transport: Exclude<TransportName, 'stdio'>): Promise<Peer> {
  const host = createHost({ plugins: [procPlugin({ programs: ['sh', 'sleep', 'cat'] })] });
  return plainPeer(t, transport, host, { asked: 'procs', granted: 'proc' });
}

/** Sends a request and returns its reply; events before it are a failure. */
async function ask(peer: Peer, message: Message): Promise<Message> {
  peer.send({ version: '1.0', ts: 1, ...message });
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id !== message.id) continue;
    assert.ok(next.type === 'error' || next.type === message.type.replace(/req$/, 'resp'), JSON.stringify(next));
    assert.ok(next.type === 'error' || checks.get(next.type)?.(next), JSON.stringify(next));
    return next;
  }
}

/** Returns the next events of a request. */
async function eventsOf(peer: Peer, id: string, count: number): Promise<Message[]> {
  const events: Message[] = [];
  while (events.length < count) {
    const next = (await peer.next()) as Message;
    if (next.req_id === id) events.push(next);
  }
  return events;
}

for (const transport of allTransports) {
  if (transport === 'stdio') continue;
  test(`a plain client over ${transport} starts, reads, writes, ends and asks`, { timeout: 60_000 }, async (t) => {
    const peer = await peerOf(t, transport);
    const spawned = await ask(peer, {
      type: 'proc/spawn/req',
      id: 's1',
      cmd: ['sh', '-c', 'read -r line; echo "got $line"; echo oops >&2; exit 2'],
    });
    assert.deepEqual([spawned.ok, spawned.error, spawned.pid > 0], [true, '', true]);
    const { proc_id } = spawned;
    const written = await ask(peer, { type: 'proc/write/req', id: 'w1', proc_id, data: 'a line\n', eof: true });
    assert.deepEqual([written.ok, written.proc_id, written.pid], [true, proc_id, spawned.pid]);
    const events = await eventsOf(peer, 's1', 3);
    const seen = events.map(({ type, seq, proc_id: of, stream_type, data }) => ({ type, seq, of, stream_type, data }));
    const common = { type: 'proc/read/event', of: proc_id };
    const [one, two] = [
      { stream_type: 'stdout', data: { text: 'got a line\n' } },
      { stream_type: 'stderr', data: { text: 'oops\n' } },
    ];
    // Two pipes have no common order.
    const both = seen[0]?.stream_type === 'stdout' ? [one, two] : [two, one];
    assert.deepEqual(
      seen.map(({ seq, ...rest }) => [seq, rest]),
      [...both, { stream_type: 'stderr', data: { code: 2 } }].map((event, at) => [at, { ...common, ...event }]),
    );
    const status = await ask(peer, { type: 'proc/status/req', id: 't1', proc_id });
    assert.deepEqual([status.proc_id, status.status, status.error], [proc_id, 'failed', 'exit code 2']);

    const long = await ask(peer, {
      type: 'proc/spawn/req',
      id: 's2',
      cmd: ['sleep', '600'],
      stdin_mode: 'null',
      timeout: 600,
    });
    const running = await ask(peer, { type: 'proc/status/req', id: 't2', proc_id: '' });
    assert.deepEqual([running.proc_id, running.status, running.procs.length], ['', 'running', 2]);
    const killed = await ask(peer, { type: 'proc/kill/req', id: 'k1', proc_id: long.proc_id, signal: 'SIGINT' });
    assert.deepEqual([killed.ok, killed.state], [true, 'stopped']);
    const after = await ask(peer, { type: 'proc/status/req', id: 't3', proc_id: long.proc_id });
    assert.deepEqual([after.status, after.error], ['killed', 'SIGINT']);
  });
}

test('what is refused says so in the form that plain clients read', async (t) => {
  const peer = await peerOf(t, 'memory');
  const refused = async (cmd: readonly string[]) => {
    const { ok, error, pid, proc_id } = await ask(peer, { type: 'proc/spawn/req', id: `s${cmd.length}`, cmd });
    assert.deepEqual([ok, pid, proc_id], [false, 0, '']);
    return error;
  };
  assert.equal(await refused([]), 'Empty command');
  assert.equal(await refused(['ls']), 'Command not allowed');
  const write = await ask(peer, { type: 'proc/write/req', id: 'w', proc_id: 'none', data: 'x' });
  assert.deepEqual(
    [write.ok, write.pid, write.error],
    [false, 0, 'unknown_proc: there is no process "none": processes end with their session and with their host'],
  );
  const kill = await ask(peer, { type: 'proc/kill/req', id: 'k', proc_id: 'none' });
  assert.deepEqual([kill.ok, kill.state], [false, '']);
  const status = await ask(peer, { type: 'proc/status/req', id: 't', proc_id: 'none' });
  assert.deepEqual(
    [status.status, status.error],
    ['not_found', 'unknown_proc: there is no process "none": processes end with their session and with their host'],
  );
  const read = await ask(peer, { type: 'proc/read/req', id: 'r', proc_id: 'none' });
  assert.deepEqual([read.type, read.code], ['error', 'unknown_proc']);
});

test('every request of the set gets one reply of its type', async (t) => {
  const peer = await peerOf(t, 'memory');
  for (const message of vectors.filter(({ type }) => type.endsWith('/req'))) {
    assert.equal((await ask(peer, message)).type, message.type.replace(/req$/, 'resp'));
  }
});

test('a cancelled stream ends, and its process runs on', async (t) => {
  const host = createHost({ plugins: [procPlugin({ programs: ['cat'] })] });
  await host.start();
  const door = await doorOf('memory', host);
  const peer = await door.dial();
  t.after(() => host.close(0));
  peer.send({ type: 'handshake/req', id: 'h', agent_caps: ['proc'], extensions: { 'handfast/cancel': {} } });
  await peer.next();
  const { proc_id } = await ask(peer, { type: 'proc/spawn/req', id: 's', cmd: ['cat'] });
  peer.send({ type: 'cancel', id: 'c', req_id: 's' });
  await ask(peer, { type: 'proc/write/req', id: 'w', proc_id, data: 'unread\n' });
  const { status } = await ask(peer, { type: 'proc/status/req', id: 't', proc_id });
  assert.equal(status, 'running');
  const { proc } = await ask(peer, { type: 'proc/read/req', id: 'r', proc_id });
  assert.equal(proc.proc_id, proc_id);
  const [event] = await eventsOf(peer, 'r', 1);
  assert.deepEqual(event?.data, { text: 'unread\n', seq: 0 });
});

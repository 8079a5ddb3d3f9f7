import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { dialSocket } from '../support/carriers.ts';
import { type HostChild, startHostProcess } from '../support/host-child.ts';
import type { Peer } from '../support/peer.ts';
import type { Message } from '../support/raw-agent.ts';

/** In a separate process: a host that reads entries of its own reading never lets its event loop run on. */
let host: HostChild;
before(async () => {
  host = await startHostProcess();
});
after(() => host.stop());

const dial = (): Promise<Peer> => dialSocket(parseTcpAddress(host.tcp));
const extensions = { 'handfast/journal': {}, 'handfast/cancel': {} };
const follow = (id: string, extra: Message = {}): Message => ({
  type: 'journal/follow/req',
  id,
  follow: true,
  ...extra,
});

/** Returns journal events of a reader about anything except reading. */
const told = (peer: Peer, reader: string): Message[] =>
  peer.messages.filter(({ type, req_id }) => type === 'journal/event' && req_id === reader);

/** Waits until the host sends nothing more, or has sent far too much. */
async function quiet(peer: Peer, most: number): Promise<void> {
  const said = (): number => peer.messages.filter(({ type }) => type !== 'pong').length;
  for (let before = -1; before !== said() && said() < most; ) {
    before = said();
    await peer.ping();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('readers of a journal do not read of each other’s reading', () => {
  test('two that follow their own session', async () => {
    const peer = await dial();
    await peer.shake({ extensions });
    peer.send(follow('left'));
    peer.send(follow('right'));
    peer.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: { text: 'once' } });
    await peer.answer('c');
    const ofTheCall = (reader: string): Message[] => told(peer, reader).filter(({ data }) => data.request === 'c');
    for (const reader of ['left', 'right'])
      await peer.until(() => ofTheCall(reader).length >= 2, `what ${reader} reads`);
    await quiet(peer, 500);
    for (const reader of ['left', 'right']) {
      assert.deepEqual(
        ofTheCall(reader).map(({ data }) => data.kind),
        ['request', 'reply'],
      );
    }
    assert.ok(peer.messages.length < 50, `${peer.messages.length} messages for one call`);
  });

  test('several that read what is there, all at once', async () => {
    const peer = await dial();
    await peer.shake({ extensions });
    for (let at = 0; at < 5; at++) peer.send({ type: 'tool/call/req', id: `c${at}`, tool_name: 'echo', arguments: {} });
    for (const id of ['a', 'b', 'c', 'd']) peer.send({ type: 'journal/follow/req', id, limit: 100_000 });
    await peer.answer('d');
    await quiet(peer, 2_000);
    assert.ok(peer.messages.length < 200, `${peer.messages.length} messages for five calls`);
  });

  test('two sessions that follow each other', async () => {
    const [left, right] = [await dial(), await dial()];
    const leftId = (await left.shake({ extensions })).session_id;
    const rightId = (await right.shake({ extensions })).session_id;
    left.send(follow('f', { session_id: rightId }));
    right.send(follow('f', { session_id: leftId }));
    left.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: {} });
    await left.answer('c');
    const ofTheCall = (): Message[] => told(right, 'f').filter(({ data }) => data.request === 'c');
    await right.until(() => ofTheCall().length >= 2, 'what the other one reads');
    await quiet(right, 500);
    assert.equal(ofTheCall().length, 2);
    assert.ok(left.messages.length + right.messages.length < 100, 'they tell each other what they told each other');
  });
});

test('following ends with the input of its reader; all other requests get their replies', async () => {
  const peer = await dial();
  await peer.shake({ extensions });
  peer.send(follow('f'));
  peer.send({ type: 'journal/follow/req', id: 'all' });
  await peer.answer('all');
  peer.send({ type: 'tool/call/req', id: 'c', tool_name: 'echo', arguments: {} });
  peer.end();
  await peer.closed();
  const reply = (id: string) => peer.messages.find(({ req_id, type }) => req_id === id && type !== 'journal/event');
  assert.equal(reply('c')?.type, 'tool/call/resp');
  assert.deepEqual((reply('f')?.detail as Message)?.reason, 'connection_lost');
});

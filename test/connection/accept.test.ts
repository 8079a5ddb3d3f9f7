/**
 * The gate in front of accepted links: the messages that wait behind a handshake that is being decided, and their
 * bound.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acceptor, type PendingLink } from '../../src/connection/accept.ts';
import { memoryPair } from '../../src/transport/memory.ts';

type Message = Record<string, unknown>;
const limits = { handshakeTimeoutMs: 60_000, maxPending: 8, maxDepth: 64, maxMessageBytes: 1024 };

/** Returns a gate that decides about its handshake from its first message on. */
function deciding(): { gate: PendingLink; acceptor: Acceptor } {
  const gates: PendingLink[] = [];
  const onMessage = (_message: Message, pending: PendingLink): void => {
    gates.push(pending);
    pending.bufferMessages();
  };
  const acceptor = new Acceptor([{ speaks: () => true, onMessage, malformed() {} }], limits);
  const [, server] = memoryPair();
  const open = server.open.bind(server);
  server.open = (receiver) => {
    open(receiver);
    receiver.message({ type: 'hello' });
  };
  acceptor.accept(server);
  return { gate: gates[0] as PendingLink, acceptor };
}

test('what a transport still delivers while a handshake is decided waits, in order, and comes behind it', () => {
  const { gate, acceptor } = deciding();
  for (let n = 0; n < 256; n++) gate.message({ n });
  const received: unknown[] = [];
  gate.accept({ attach() {}, message: (message) => received.push((message as Message).n) });
  assert.deepEqual(
    received,
    Array.from({ length: 256 }, (_, n) => n),
  );
  assert.equal(acceptor.pending, 0);
});

test('more than 256 messages before the handshake is decided end the link', () => {
  const { gate, acceptor } = deciding();
  for (let n = 0; n < 256; n++) gate.message({ n });
  assert.deepEqual([gate.waiting, acceptor.pending], [true, 1]);
  gate.message({ n: 256 });
  assert.deepEqual([gate.waiting, acceptor.pending], [false, 0]);
});

test('a receiver that pauses the link when it gets it is not overruled by the end of the handshake', () => {
  const { gate } = deciding();
  const paused: boolean[] = [];
  gate.link.pause = (value) => void paused.push(value);
  gate.accept({ attach: (link) => link.pause(true), message() {} });
  assert.equal(paused.at(-1), true);
});

test('a link that comes after a burst gets a place, and the burst loses all that it had too many', async () => {
  const silent = { speaks: () => true, onMessage() {}, malformed() {} };
  const acceptor = new Acceptor([silent], limits);
  const dropped = new Set<unknown>();
  const arrive = () => {
    const [, link] = memoryPair();
    // For a peer with an address: a link that was just accepted is not dropped.
    Object.assign(link, { transport: 'tcp', peer: '192.0.2.1:4000', destroy: () => dropped.add(link) });
    acceptor.accept(link);
    return link;
  };
  for (let n = 0; n < 2 * limits.maxPending; n++) arrive();
  assert.equal(acceptor.pending, 2 * limits.maxPending);
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
  const late = arrive();
  acceptor.close();
  assert.deepEqual([dropped.has(late), dropped.size], [false, limits.maxPending + 1]);
});

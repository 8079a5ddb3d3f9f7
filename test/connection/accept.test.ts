/** The gate in front of accepted links: what waits behind a handshake that is being decided, and how much of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Acceptor, type PendingLink } from '../../src/connection/accept.ts';
import { memoryPair } from '../../src/transport/memory.ts';

type Message = Record<string, unknown>;
const limits = { handshakeTimeoutMs: 60_000, maxPending: 8, maxDepth: 64, maxMessageBytes: 1024 };

/** A gate that decides about its handshake from its first message on. */
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

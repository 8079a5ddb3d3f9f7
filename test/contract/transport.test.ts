/**
 * Checks every transport against the contract in `src/transport/link.ts`. `test/transport/` tests the peculiarities of
 * each; `transports.ts` lists them.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Link, Message } from '../../src/transport/link.ts';
import { PATIENCE_MS, Recorder, turns, within } from './recorder.ts';
import { type LinkPair, type PairOptions, type RawPeer, rawTransports, transports } from './transports.ts';

const MIB = 1024 * 1024;

/** Sends an object the way the link wants it. */
function send(link: Link, message: Message): void {
  link.send(link.text ? JSON.stringify(message) : message);
}

/** Returns a message whose JSON text has exactly this many bytes. */
function messageOf(bytes: number): Message {
  return { pad: 'x'.repeat(bytes - '{"pad":""}'.length) };
}

for (const transport of transports) {
  describe(`the contract of links, over ${transport.name}`, () => {
    const withPair = async (run: (pair: LinkPair) => Promise<void>, options?: PairOptions): Promise<void> => {
      const pair = await transport.pair(options);
      try {
        await run(pair);
      } finally {
        await pair.dispose();
      }
    };

    test('10,000 messages arrive in order, both ways at once', () =>
      withPair(async ({ client, server }) => {
        const atClient = Recorder.on(client);
        const atServer = Recorder.on(server);
        for (let n = 0; n < 10_000; n++) {
          send(client, { n });
          send(server, { n });
          // Some within one turn of the event loop, some not.
          if (n % 1000 === 999) await turns(1);
        }
        await Promise.all([atClient.count(10_000), atServer.count(10_000)]);
        for (const { messages, problems } of [atClient, atServer]) {
          assert.ok(messages.every((message, at) => message.n === at));
          assert.equal(messages.length, 10_000);
          assert.deepEqual(problems, []);
        }
      }));

    test('what was sent before the other side opened is kept, and nothing arrives before open returns', () =>
      withPair(async ({ client, server }) => {
        send(client, { n: 1 });
        await turns();
        let opened = false;
        const early: boolean[] = [];
        const recorder = new Recorder(() => early.push(!opened));
        server.open(recorder);
        opened = true;
        send(client, { n: 2 });
        await recorder.count(2);
        assert.deepEqual(early, [false, false]);
      }));

    for (const mib of [1, 3.5]) {
      test(`a message of ${mib} MiB arrives both ways, and one behind it`, () =>
        withPair(
          async ({ client, server }) => {
            const atClient = Recorder.on(client);
            const atServer = Recorder.on(server);
            const sent = [messageOf(mib * MIB), { n: 2 }];
            for (const link of [client, server]) for (const message of sent) send(link, message);
            await Promise.all([atClient.count(2), atServer.count(2)]);
            assert.deepEqual(atClient.messages, sent);
            assert.deepEqual(atServer.messages, sent);
          },
          { maxMessageBytes: 4 * MIB },
        ));
    }

    test('a message over the limit is reported once and the next one arrives', () =>
      withPair(
        async ({ client, server }) => {
          if (!client.text) return;
          const atServer = Recorder.on(server);
          const atClient = Recorder.on(client);
          for (const link of [client, server]) {
            send(link, messageOf(5001));
            send(link, { n: 1 });
            send(link, messageOf(5000));
          }
          await Promise.all([atServer.count(2), atClient.count(2)]);
          for (const { problems, messages } of [atServer, atClient]) {
            assert.deepEqual(problems, [{ reason: 'too_large', limit: 5000 }]);
            assert.deepEqual(messages, [{ n: 1 }, messageOf(5000)]);
          }
        },
        { maxMessageBytes: 5000 },
      ));

    test('the limit can be changed while the link is open', () =>
      withPair(
        async ({ client, server, sync }) => {
          if (!client.text) return;
          const atServer = Recorder.on(server, () => server.setMaxMessageBytes(9000));
          send(client, messageOf(2000));
          send(client, messageOf(500));
          await atServer.count(1);
          await sync();
          send(client, messageOf(9000));
          await atServer.count(2);
          assert.deepEqual(atServer.problems, [{ reason: 'too_large', limit: 1000 }]);
        },
        { maxMessageBytes: 1000 },
      ));

    test('text beyond ASCII arrives as it was, line separators included', () =>
      withPair(async ({ client, server }) => {
        const atServer = Recorder.on(server);
        const atClient = Recorder.on(client);
        const message = { text: 'naïve 漢字 🙂 \u2028\u2029\u0085\u007f \r\n \ufffd', ключ: '\ud800' };
        send(client, message);
        send(server, message);
        await Promise.all([atServer.count(1), atClient.count(1)]);
        assert.deepEqual(atServer.messages, [message]);
        assert.deepEqual(atClient.messages, [message]);
      }));

    test('a replaced receiver hears nothing more, and the new one all that follows', () =>
      withPair(async ({ client, server }) => {
        const second = new Recorder();
        const first = new Recorder((message) => {
          if (message.n === 4) server.open(second);
        });
        server.open(first);
        for (let n = 0; n < 10; n++) send(client, { n });
        await second.until(() => second.messages.some(({ n }) => n === 9), 'the last message');
        const heard = [...first.messages, ...second.messages].map(({ n }) => n);
        assert.deepEqual(heard, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert.equal(first.messages.length, 5);
      }));

    test('a paused side hears nothing until it continues', () =>
      withPair(async ({ client, server, sync }) => {
        const atServer = Recorder.on(server);
        server.pause(true);
        await sync();
        for (let n = 0; n < 100; n++) send(client, { n });
        await within(turns(20), 'some turns');
        await sync();
        assert.equal(atServer.messages.length, 0);
        server.pause(false);
        await atServer.count(100);
        assert.deepEqual(
          atServer.messages.map(({ n }) => n),
          Array.from({ length: 100 }, (_, n) => n),
        );
      }));

    test('a side that is paused in the turn in which it was opened hears nothing', () =>
      withPair(async ({ client, server, sync }) => {
        const atClient = Recorder.on(client);
        client.pause(true);
        await sync();
        for (let n = 0; n < 100; n++) send(server, { n });
        await sync();
        await within(turns(50), 'some turns');
        assert.equal(atClient.messages.length, 0);
        client.pause(false);
        await atClient.count(100);
      }));

    test('a sender sees that the other side does not read, and drained waits until it does', () =>
      withPair(async ({ client, server, sync }) => {
        const atServer = Recorder.on(server);
        server.pause(true);
        await sync();
        const message = messageOf(16 * 1024);
        let sent = 0;
        while (client.buffered < 256 * 1024 && sent < 4000) {
          send(client, message);
          sent += 1;
          if (sent % 16 === 0) await turns(1);
        }
        assert.ok(client.buffered >= 256 * 1024, `${client.buffered} bytes are buffered after ${sent} messages`);
        let drained = false;
        const draining = client.drained(64 * 1024).then(() => {
          drained = true;
        });
        await turns(20);
        assert.equal(drained, false);
        server.pause(false);
        await within(draining, 'the sender to be drained');
        assert.ok(client.buffered <= 64 * 1024);
        await within(client.drained(), 'the sender to be drained wholly');
        assert.equal(client.buffered, 0);
        await atServer.count(sent);
      }));

    test('a sender that awaits drained never holds more than its bound, however slow the reader', () =>
      withPair(async ({ client, server }) => {
        const bound = 256 * 1024;
        const message = messageOf(10 * 1024);
        let highest = 0;
        let reading = true;
        const atServer = Recorder.on(server, () => {
          // Pauses and continues repeatedly.
          if (!reading) return;
          reading = false;
          server.pause(true);
          setImmediate(() => {
            reading = true;
            server.pause(false);
          });
        });
        for (let sent = 0; sent < 1500; sent++) {
          if (client.buffered >= bound) await within(client.drained(bound / 2), 'room');
          send(client, message);
          highest = Math.max(highest, client.buffered);
        }
        assert.ok(highest < bound + 11 * 1024, `${highest} bytes were held`);
        await atServer.count(1500);
      }));

    test('closing sends what is queued first, and both sides end in good order', () =>
      withPair(async ({ client, server }) => {
        const atServer = Recorder.closing(server);
        const atClient = Recorder.closing(client);
        const large = messageOf(MIB);
        for (let n = 0; n < 5; n++) send(client, large);
        send(client, { last: true });
        const closing = client.close('done', PATIENCE_MS);
        await within(closing, 'the close');
        const causes = await Promise.all([atClient.end(), atServer.end()]);
        assert.equal(atServer.messages.length, 6);
        assert.deepEqual(atServer.messages.at(-1), { last: true });
        assert.deepEqual(
          causes.map(({ clean }) => clean),
          [true, true],
        );
        assert.equal(causes[0]?.reason, 'done');
      }));

    test('closing twice is one close, and sending afterwards does nothing', () =>
      withPair(async ({ client, server }) => {
        const atServer = Recorder.closing(server);
        const atClient = Recorder.on(client);
        send(client, { n: 1 });
        const first = client.close('done', PATIENCE_MS);
        send(client, { n: 2 });
        assert.equal(client.close('again'), first);
        await within(first, 'the close');
        send(client, { n: 3 });
        client.pause(true);
        client.pause(false);
        client.destroy();
        assert.equal(client.close(), first);
        await within(client.drained(), 'drained');
        await Promise.all([atServer.end(), atClient.end()]);
        await turns();
        assert.deepEqual(atServer.messages, [{ n: 1 }]);
        assert.equal(atServer.causes.length + atClient.causes.length, 2);
        assert.equal(atServer.lateCalls + atClient.lateCalls, 0);
      }));

    test('closing takes no longer than its grace when the other side continues', () =>
      withPair(async ({ client, server, sync }) => {
        const atServer = Recorder.on(server);
        const atClient = Recorder.on(client);
        server.pause(true);
        await sync();
        const message = messageOf(64 * 1024);
        for (let sent = 0; client.buffered < MIB && sent < 4000; sent++) {
          send(client, message);
          if (sent % 16 === 15) await turns(1);
        }
        assert.ok(client.buffered > 0);
        await within(client.close('enough', 50), 'the close');
        const cause = await atClient.end();
        assert.equal(cause.clean, false);
        assert.match(cause.reason, /within 50 ms/);
        server.pause(false);
        assert.equal((await endOf(atServer, server)).clean, false);
      }));

    test('a dropped link tells both sides exactly once, and nothing after', () =>
      withPair(async ({ client, server }) => {
        const atServer = Recorder.on(server);
        const atClient = Recorder.on(client);
        send(client, { n: 1 });
        await atServer.count(1);
        client.destroy('no more');
        client.destroy('again');
        send(client, { n: 2 });
        const cause = await atClient.end();
        assert.equal(cause.clean, false);
        assert.match(cause.reason, /^no more/);
        assert.equal((await endOf(atServer, server)).clean, false);
        await within(client.close(), 'closing a dropped link');
        await within(client.drained(), 'draining a dropped link');
        await turns();
        for (const recorder of [atClient, atServer]) {
          assert.equal(recorder.causes.length, 1);
          assert.equal(recorder.lateCalls, 0);
        }
      }));

    test('a link that the other side drops settles everybody who waits on it', () =>
      withPair(async ({ client, server, sync }) => {
        const atClient = Recorder.on(client);
        Recorder.on(server);
        server.pause(true);
        await sync();
        const message = messageOf(64 * 1024);
        for (let sent = 0; client.buffered < MIB && sent < 4000; sent++) {
          send(client, message);
          if (sent % 16 === 15) await turns(1);
        }
        const waiting = client.drained();
        server.destroy();
        await within(waiting, 'drained');
        const cause = await endOf(atClient, client);
        assert.equal(cause.clean, false);
        send(client, { n: 1 });
        assert.equal(client.buffered, 0);
        await turns();
        assert.equal(atClient.causes.length, 1);
        assert.equal(atClient.lateCalls, 0);
      }));

    test('a receiver that drops the link inside a call hears nothing of the rest', () =>
      withPair(async ({ client, server, sync }) => {
        const atClient: Recorder = Recorder.on(client, (message) => {
          if (message.n === 2) client.destroy();
        });
        Recorder.on(server);
        for (let n = 0; n < 10; n++) send(server, { n });
        await sync();
        await atClient.end();
        await turns();
        assert.deepEqual(
          atClient.messages.map(({ n }) => n),
          [0, 1, 2],
        );
        assert.equal(atClient.lateCalls, 0);
      }));

    test('opening a link that is already closed reports its end', () =>
      withPair(async ({ client, server }) => {
        client.destroy();
        Recorder.on(server);
        await within(client.close(), 'the close');
        const late = Recorder.on(client);
        assert.equal((await late.end()).clean, false);
      }));

    if (transport.halfCloses) {
      test('a side whose peer closes receives the end once, and what it still sends is dropped', () =>
        withPair(async ({ client, server }) => {
          const atClient = Recorder.on(client);
          const atServer = Recorder.on(server);
          send(client, { n: 1 });
          const closing = client.close('done', PATIENCE_MS);
          await atServer.until(() => atServer.endings === 1, 'the end of the peer');
          send(server, { n: 2 });
          void server.close('done', PATIENCE_MS);
          await within(closing, 'the close');
          const [ours, theirs] = await Promise.all([atClient.end(), atServer.end()]);
          assert.deepEqual([ours.clean, theirs.clean], [true, true]);
          assert.deepEqual(atClient.messages, []);
          assert.equal(atServer.endings, 1);
        }));
    }
  });
}

/**
 * Returns the end of a link whose peer has vanished. Some transports cannot distinguish a vanished peer from one that
 * only ended its side; then only a sent message shows it.
 */
async function endOf(recorder: Recorder, link: Link): Promise<{ clean: boolean; reason: string }> {
  const speak = setInterval(() => send(link, { anybody: 'there' }), 5);
  try {
    return await recorder.end();
  } finally {
    clearInterval(speak);
  }
}

for (const { name, raw } of rawTransports) {
  describe(`the contract of links over bytes, ${name}`, () => {
    const withPeer = async (run: (peer: RawPeer) => Promise<void>, options?: PairOptions): Promise<void> => {
      const peer = await raw(options);
      try {
        await run(peer);
      } finally {
        await peer.dispose();
      }
    };

    /** Reads the peer's input until `condition` holds. */
    const readUntil = async (peer: RawPeer, condition: (text: string) => boolean): Promise<string> => {
      const pieces: Buffer[] = [];
      const read = (async () => {
        for await (const piece of peer.input) {
          pieces.push(piece as Buffer);
          if (condition(Buffer.concat(pieces).toString('latin1'))) break;
        }
      })();
      await within(read, 'the peer to read');
      return Buffer.concat(pieces).toString('latin1');
    };

    test('input in single bytes is read exactly, characters that are cut included', () =>
      withPeer(async (peer) => {
        const recorder = Recorder.on(peer.link);
        const text = '{"text":"naïve 漢字 🙂"}\r\n\n{"n":2}\n';
        for (const byte of Buffer.from(text)) {
          peer.output.write(Buffer.of(byte));
          await turns(1);
        }
        await recorder.count(2);
        assert.deepEqual(recorder.messages, [{ text: 'naïve 漢字 🙂' }, { n: 2 }]);
      }));

    test('lines that are no UTF-8 are reported and the next one arrives', () =>
      withPeer(async (peer) => {
        const recorder = Recorder.on(peer.link);
        peer.output.write(Buffer.concat([Buffer.from('{"a":"'), Buffer.of(0xc3, 0x28), Buffer.from('"}\n{"n":1}\n')]));
        await recorder.count(1);
        assert.deepEqual(recorder.problems, [{ reason: 'bad_utf8' }]);
        assert.deepEqual(recorder.messages, [{ n: 1 }]);
      }));

    test('a line far over the limit is reported before it ends, and the next one arrives', () =>
      withPeer(
        async (peer) => {
          const recorder = Recorder.on(peer.link);
          peer.output.write('y'.repeat(3000));
          await recorder.until(() => recorder.problems.length === 1, 'the report');
          for (let piece = 0; piece < 64; piece++) peer.output.write('y'.repeat(64 * 1024));
          peer.output.write('\n{"n":1}\n');
          await recorder.count(1);
          assert.deepEqual(recorder.problems, [{ reason: 'too_large', limit: 2000 }]);
          assert.deepEqual(recorder.messages, [{ n: 1 }]);
        },
        { maxMessageBytes: 2000 },
      ));

    test('a peer that ends its side, in the middle of a last line too, still gets its answers', () =>
      withPeer(async (peer) => {
        const recorder = Recorder.on(peer.link);
        peer.output.write('{"n":1}\n{"n":2}');
        peer.output.end();
        await recorder.until(() => recorder.endings === 1, 'the end of the peer');
        assert.deepEqual(recorder.messages, [{ n: 1 }, { n: 2 }]);
        await turns();
        assert.deepEqual(recorder.causes, []);
        peer.link.send('{"answer":1}');
        peer.link.send('{"answer":2}');
        const closing = peer.link.close('done', PATIENCE_MS);
        const text = await readUntil(peer, (so_far) => so_far.endsWith('2}\n'));
        assert.equal(text, '{"answer":1}\n{"answer":2}\n');
        await within(closing, 'the close');
        assert.equal(recorder.endings, 1);
        assert.equal(recorder.lateCalls, 0);
      }));

    test('what is sent is ASCII with one newline a message', () =>
      withPeer(async (peer) => {
        Recorder.on(peer.link);
        peer.link.send(JSON.stringify({ text: 'naïve 漢字 🙂 \u2028' }));
        peer.link.send('{"n":2}');
        const text = await readUntil(peer, (so_far) => so_far.split('\n').length === 3);
        assert.equal(text, '{"text":"na\\u00efve \\u6f22\\u5b57 \\ud83d\\ude42 \\u2028"}\n{"n":2}\n');
      }));

    test('a peer that vanishes ends the link exactly once', () =>
      withPeer(async (peer) => {
        const recorder = Recorder.on(peer.link);
        peer.output.write('{"n":1}\n');
        await recorder.count(1);
        peer.cut();
        const cause = await endOf(recorder, peer.link);
        assert.equal(cause.clean, false);
        await turns();
        assert.equal(recorder.causes.length, 1);
        assert.equal(recorder.lateCalls, 0);
      }));
  });
}

/**
 * A peer that sends and does not read: it is not read from, so that its waiting output stays bounded. Real sockets.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as dial } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createHost, tool, toolsPlugin } from '../../src/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { listenTcp, parseTcpAddress } from '../../src/transport/socket.ts';

const CALLS = 1_500;
const BODY = 16 * 1024;
const SEND_BUFFER = 256 * 1024;

test('a peer that does not read its replies is not read from, and gets all of them when it reads', async (t) => {
  let ran = 0;
  const bulky = tool({
    name: 'bulky',
    description: 'Gives back a long text',
    run: () => {
      ran++;
      return 'y'.repeat(BODY);
    },
  });
  const host = createHost({
    plugins: [toolsPlugin({ tools: [bulky] })],
    limits: { sendBufferBytes: SEND_BUFFER, slowConsumerMs: 600_000, writeStallMs: 600_000 },
  });
  await host.start();
  t.after(() => host.close(0));
  const links: Link[] = [];
  const listener = await listenTcp({ host: '127.0.0.1', port: 0 }, (link) => {
    links.push(link);
    host.accept(link);
  });
  t.after(() => listener.close());
  const socket = dial(parseTcpAddress(listener.address));
  t.after(() => socket.destroy());
  const replies: string[] = [];
  let all = Promise.withResolvers<void>();
  const wanted = { count: 1 };
  createInterface({ input: socket }).on('line', (line) => {
    replies.push(line);
    if (replies.length === wanted.count) all.resolve();
  });
  socket.write('{"type":"handshake/req","id":"h","agent_caps":["tools"]}\n');
  await all.promise;

  socket.pause();
  wanted.count = 1 + CALLS;
  all = Promise.withResolvers<void>();
  for (let id = 0; id < CALLS; id++) {
    const padding = 'x'.repeat(1024);
    socket.write(
      `{"type":"tool/call/req","id":"c-${id}","tool_name":"bulky","arguments":{},"correlation_id":"${padding}"}\n`,
    );
  }
  // Until the host has stopped reading, or has run everything.
  for (let before = -1; before !== ran; await delay(200)) before = ran;
  const [link] = links as [Link];
  assert.ok(ran < CALLS, `all ${ran} calls ran for a peer that reads none of their replies`);
  assert.ok(link.buffered < 8 * SEND_BUFFER, `${link.buffered} bytes wait`);

  socket.resume();
  await Promise.race([all.promise, once(socket, 'close')]);
  assert.equal(replies.length, 1 + CALLS);
  assert.ok(
    replies.slice(1).every((line) => line.includes('"tool/call/resp"')),
    'every call has its result',
  );
});

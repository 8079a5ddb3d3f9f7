/**
 * `bare`: JSON.stringify, newline, write, newline scan with Buffer.indexOf, JSON.parse, Map look-up by id; one write a
 * message. In memory it is the JSON loop in both directions, over HTTP one POST a call. The cost of a protocol is
 * measured against it.
 */
import { lineScanner } from './carriers.ts';
import { type Contender, childFile, type Session } from './contender.ts';
import { PostClient, servePosts } from './http-loop.ts';
import { answer, connectInMemory, connectLoop, LoopClient, serveLoop } from './json-loop.ts';
import { handshakeRequest, idSource } from './messages.ts';

async function connectHttp(port: number): Promise<Session> {
  const posts = new PostClient(port);
  const single: LoopClient = new LoopClient((body) => {
    void posts.post(body).then((text) => single.receive(text));
  });
  const streaming: LoopClient = new LoopClient((body) => {
    posts.stream(body, (text) => streaming.receive(text));
  });
  await single.handshake();
  return {
    echo: async (text, n) => (await single.call('echo', { text, n })).data.data?.text ?? '',
    flood: async (count, seen) => {
      await streaming.call('flood', { count }, seen);
    },
    close: async () => posts.close(),
  };
}

export const contender: Contender = {
  name: 'bare',
  transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
  serve: (transport) => {
    if (transport !== 'http') return serveLoop(transport, false);
    const nextId = idSource();
    return servePosts((body, send, last) => {
      // The reply of a call is the only text that is not an event.
      answer(body, nextId, (text) => (text.startsWith('{"type":"tool/event"') ? send(text) : last(text)));
    });
  },
  connect: async (target) => {
    if (target.transport === 'memory') return connectInMemory();
    if (target.transport === 'http') return connectHttp(target.port);
    return connectLoop(target, false);
  },
  start: {
    args: [childFile('one-line.mjs')],
    opening: `${JSON.stringify(handshakeRequest('1'))}\n`,
    answers: '"ok":true',
  },
  scanner: async (onText) => lineScanner(onText),
};

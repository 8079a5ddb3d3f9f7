/**
 * A model provider that serves streamed chat completions on a loopback port, in a separate process: forked by
 * `first-chunk.ts`. The first chunk of an answer has the arrival time of its request and its own time of writing.
 *
 * Between the two it waits: the handling of a request must be over before the first chunk is sent.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { LOOPBACK } from '../contenders/contender.ts';
import type { ProviderHello } from './first-chunk.ts';

const THINKING_MS = 15;
/** Chunks behind the first one. */
const MORE = 4;

/** Returns milliseconds since the epoch, finer than the clock of the day. */
const now = (): number => performance.timeOrigin + performance.now();

function event(delta: object, finish: string | null = null): string {
  const chunk = {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'bench',
    choices: [{ index: 0, delta, finish_reason: finish }],
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

const server = createServer((request, response) => {
  request.resume().on('end', async () => {
    const arrived = now();
    if (request.method !== 'POST') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'bench', object: 'model' }] }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    await pause(THINKING_MS);
    response.write(event({ role: 'assistant', content: `${arrived} ${now()} ` }));
    for (let more = 0; more < MORE; more++) {
      await pause(1);
      response.write(event({ content: 'and so on ' }));
    }
    response.write(event({}, 'stop'));
    response.end('data: [DONE]\n\n');
  });
});
server.listen(0, LOOPBACK, () => {
  process.send?.({ url: `http://${LOOPBACK}:${(server.address() as AddressInfo).port}/v1` } satisfies ProviderHello);
});
process.on('disconnect', () => process.exit(0));

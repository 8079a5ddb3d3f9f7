/**
 * `limit`: the bare loop with all messages of one turn of the event loop in one write, or in one WebSocket frame with
 * newlines between them, a long turn in several. The practical limit of JSON over each transport.
 */
import type { Contender } from './contender.ts';
import { connectLoop, serveLoop } from './json-loop.ts';

export const contender: Contender = {
  name: 'limit',
  transports: ['stdio', 'tcp', 'websocket'],
  serve: (transport) => serveLoop(transport, true),
  connect: (target) => connectLoop(target, true),
};

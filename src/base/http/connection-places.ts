/**
 * Keeps connections that ask nothing from holding every place of an HTTP server: past a bound on those without a request, and
 * past the bound on all, a new one takes the place of the one that has waited longest.
 *
 * Used by the HTTP port of the server and by the fleet's own listeners.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { currentTurn } from '../../wire/turn-share.ts';

/** Connections that have not sent a whole head of a request. They have seconds for it. */
const MAX_SILENT = 256;
/** Connections beyond the bound, for the moment until another is evicted. */
const SPARE = 64;

/** Bounds the connections of a server that does not listen yet. Upgraded ones are counted, and never evicted here. */
export function boundConnections(server: Server, maxConnections: number): void {
  // In the order in which they began to wait. The number is the turn of the event loop in which that was.
  const silent = new Map<Socket, number>();
  const idle = new Map<Socket, number>();
  let open = 0;
  /** What a connection sent at once is read in the turn after that in which it was accepted. */
  const evictOldest = (waiting: Map<Socket, number>): boolean => {
    const [oldest] = waiting;
    if (oldest === undefined || currentTurn() < oldest[1] + 2) return false;
    waiting.delete(oldest[0]);
    oldest[0].destroy();
    return true;
  };
  server.maxConnections = maxConnections + SPARE;
  server.on('connection', (socket) => {
    open++;
    if (silent.size >= MAX_SILENT) evictOldest(silent);
    else if (open > maxConnections) void (evictOldest(silent) || evictOldest(idle));
    silent.set(socket, currentTurn());
    socket.once('close', () => {
      open--;
      silent.delete(socket);
      idle.delete(socket);
    });
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    silent.delete(socket);
    idle.delete(socket);
    response.once('close', () => {
      if (!socket.destroyed) idle.set(socket, currentTurn());
    });
  });
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    silent.delete(socket);
    idle.delete(socket);
  });
}

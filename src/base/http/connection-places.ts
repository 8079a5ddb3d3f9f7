/**
 * Keeps connections that ask nothing from holding every place of an HTTP server: past a bound on those without a request, and
 * past the bound on all, a new one takes the place of the one that has waited longest.
 *
 * Used by the HTTP port of the server and by the fleet's own listeners.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Connections that have not sent a whole head of a request: past so many, the oldest goes once it had its time. */
const MAX_SILENT = 256;
const HEAD_MS = 1_000;
/** What a connection may wait while every place is held: what it sent at once has been read by then. */
const FULL_MS = 50;
/** Connections beyond the bound, for the moment until another is evicted. */
const SPARE = 64;

/** Bounds the connections of a server that does not listen yet. Upgraded ones are counted, and never evicted here. */
export function boundConnections(server: Server, maxConnections: number): void {
  // In the order in which they began to wait, and since when, in milliseconds.
  const silent = new Map<Socket, number>();
  const idle = new Map<Socket, number>();
  let open = 0;
  const evictOldest = (waiting: Map<Socket, number>, ms: number): boolean => {
    const [oldest] = waiting;
    if (oldest === undefined || performance.now() < oldest[1] + ms) return false;
    waiting.delete(oldest[0]);
    oldest[0].destroy();
    return true;
  };
  server.maxConnections = maxConnections + SPARE;
  server.on('connection', (socket) => {
    open++;
    if (open > maxConnections) void (evictOldest(silent, FULL_MS) || evictOldest(idle, FULL_MS));
    else if (silent.size >= MAX_SILENT) evictOldest(silent, HEAD_MS);
    silent.set(socket, performance.now());
    socket.once('close', () => {
      open--;
      silent.delete(socket);
      idle.delete(socket);
    });
  });
  // One function for all responses, and no wrapper that would remove it: a response closes once.
  const closed = function (this: ServerResponse): void {
    const { socket } = this.req;
    if (!socket.destroyed) idle.set(socket, performance.now());
  };
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (silent.size > 0) silent.delete(socket);
    idle.delete(socket);
    response.on('close', closed);
  });
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    silent.delete(socket);
    idle.delete(socket);
  });
}

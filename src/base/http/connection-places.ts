/**
 * Prevents idle connections from holding every place of an HTTP server: past a bound on connections without a request,
 * and past the bound on all, a new one takes the place of the one that has waited longest.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Linked, LinkedList } from '../linked-list.ts';

/**
 * Bound on connections that have not sent the whole head of a request: past it, the oldest one that had its time is
 * closed.
 */
const MAX_SILENT = 256;
const HEAD_MS = 1_000;
/** Time that a connection may wait while every place is held: its first bytes have been read by then. */
const FULL_MS = 50;
/** Connections beyond the bound, for the moment until another is evicted. */
const SPARE = 64;

/** Bounds the connections of a server that does not listen yet. Upgraded ones are counted, and never evicted here. */
export function boundConnections(server: Server, maxConnections: number): void {
  const places = new WeakMap<Socket, Place>();
  const silent = new LinkedList<Place>();
  const idle = new LinkedList<Place>();
  let open = 0;
  const evictOldest = (waiting: LinkedList<Place>, ms: number): boolean => {
    const { first } = waiting;
    if (first === undefined || performance.now() < first.since + ms) return false;
    waiting.delete(first);
    first.socket.destroy();
    return true;
  };
  server.maxConnections = maxConnections + SPARE;
  server.on('connection', (socket) => {
    open++;
    if (open > maxConnections) void (evictOldest(silent, FULL_MS) || evictOldest(idle, FULL_MS));
    else if (silent.size >= MAX_SILENT) evictOldest(silent, HEAD_MS);
    const place = new Place(socket);
    places.set(socket, place);
    silent.add(place);
    socket.once('close', () => {
      open--;
      place.leave();
    });
  });
  // One function for all responses, and no wrapper that would remove it: a response closes once.
  const closed = function (this: ServerResponse): void {
    const { socket } = this.req;
    const place = places.get(socket);
    if (place === undefined || socket.destroyed) return;
    place.since = performance.now();
    idle.add(place);
  };
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    places.get(socket)?.leave();
    response.on('close', closed);
  });
  server.on('upgrade', ({ socket }: IncomingMessage) => places.get(socket)?.leave());
}

/** A connection, in the list of those with which it waits. */
class Place implements Linked<Place> {
  list: LinkedList<Place> | undefined;
  previous: Place | undefined;
  next: Place | undefined;
  readonly socket: Socket;
  /** Start of the wait, milliseconds. */
  since = performance.now();

  constructor(socket: Socket) {
    this.socket = socket;
  }

  leave(): void {
    this.list?.delete(this);
  }
}

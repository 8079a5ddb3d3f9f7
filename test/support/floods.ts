/**
 * Floods of one client, and what they cost its neighbours. The flood is sent by `flood-process.ts`; the neighbours are
 * measured here, in a process that does nothing else. Used by `test/faults/fairness.slow.test.ts` and by `bench/fairness.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseTcpAddress } from '../../src/transport/socket.ts';
import { dialSocket, dialWebSocket } from './carriers.ts';
import type { Peer } from './peer.ts';
import type { ServerChild } from './serve-child.ts';

/** The transport of a flood. */
export type FloodTransport = 'tcp' | 'unix' | 'websocket' | 'http';

/** Input that one client sends as fast as it is read. */
export interface Flood {
  readonly name: string;
  readonly transport: FloodTransport;
  /** The first message; the flood starts with the reply to it. */
  readonly opening?: string;
  /** One piece of the flood. */
  readonly piece: string;
  /** Number of times it is sent. */
  readonly count: number;
  /** Pieces that make one WebSocket frame, or one body; 0: one that holds all. Default 1. */
  readonly packed?: number;
  /** Kind of the WebSocket frames. Default 1, text. */
  readonly opcode?: number;
}

const MIB = 1024 * 1024;
const REQUESTS = 25_000;

/** Returns a handshake of either dialect. */
const openings = (token: string) => ({
  a2e: `${JSON.stringify({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], auth_token: token })}\n`,
  rpc: `${JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'rpc.handshake', params: { token } })}\n`,
});

const PING = '{"type":"ping","id":"p"}\n';
const RPC_PING = '{"jsonrpc":"2.0","id":1,"method":"system.ping"}\n';
const CALL = '{"type":"tool/list/req","id":"1"}\n';

/** Returns every flood of F-99, on each transport. `times` makes them longer. */
export function floods(token: string, times = 1): Flood[] {
  const { a2e, rpc } = openings(token);
  const [junk, empty] = [(times * MIB) / 2, Math.floor((times * MIB) / 3)];
  const requests = times * REQUESTS;
  const all: Flood[] = [];
  for (const transport of ['tcp', 'unix', 'websocket', 'http'] as const) {
    // Each body of HTTP costs its client a request, as each of its frames costs a WebSocket client little.
    const packed = transport === 'http' ? { packed: 0 } : transport === 'websocket' ? { packed: 1_000 } : {};
    const add = (name: string, flood: Pick<Flood, 'piece' | 'count' | 'opening'>): void => {
      all.push({ name: `${transport}: ${name}`, transport, ...packed, ...flood });
    };
    add('x before the handshake', { piece: 'x\n', count: junk });
    add('{} before the handshake', { piece: '{}\n', count: empty });
    add('pings before the handshake', { piece: PING, count: requests });
    add('x', { opening: a2e, piece: 'x\n', count: junk });
    add('{}', { opening: a2e, piece: '{}\n', count: empty });
    add('pings', { opening: a2e, piece: PING, count: requests });
    add('requests', { opening: a2e, piece: CALL, count: requests });
    if (transport === 'http') continue;
    add('x, session RPC', { opening: rpc, piece: 'x\n', count: junk });
    add('x ended by returns, session RPC', { opening: rpc, piece: 'x\r', count: junk });
    add('pings, session RPC', { opening: rpc, piece: RPC_PING, count: requests });
  }
  const websocket = { transport: 'websocket', opening: a2e } as const;
  all.push({ ...websocket, name: 'websocket: a frame for each x', piece: 'x', count: junk / 2 });
  all.push({ ...websocket, name: 'websocket: ping frames', piece: '', count: junk / 2, opcode: 9 });
  const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: HOST\r\n\r\n`;
  all.push({
    name: 'http: pipelined requests',
    transport: 'http',
    piece: head('/health'),
    count: requests,
    packed: -1,
  });
  return all;
}

/** The effect on the neighbours. */
export interface Felt {
  /** Round trips of the neighbours during the flood. */
  readonly pings: number;
  readonly worstMs: number;
  /** From the first byte of the flood to the last, or to the moment its client was cut off. */
  readonly floodMs: number;
  /** Bytes the server sent to the flooding client. */
  readonly repliedBytes: number;
  /** True when the server ended the flooding connection. */
  readonly ended: boolean;
}

/** A round trip of one neighbour. */
type Trip = () => Promise<void>;

/** Neighbours on different addresses, each with its own connection. */
export async function neighbours(server: ServerChild): Promise<{ trips: Trip[]; close(): void }> {
  const a2e = await dialSocket(parseTcpAddress(server.tcp));
  await a2e.shake({ auth_token: server.token });
  const rpc = await dialWebSocket(server.rpc);
  rpc.send({ jsonrpc: '2.0', id: 0, method: 'rpc.handshake', params: { token: server.token } });
  await rpc.next();
  const ask = async (peer: Peer, message: object): Promise<void> => {
    peer.send(message as Record<string, unknown>);
    await peer.next();
  };
  return {
    trips: [
      () => ask(a2e, { type: 'ping', id: 'n' }),
      () => ask(rpc, { jsonrpc: '2.0', id: 1, method: 'system.ping' }),
      async () => void (await (await fetch(`${server.http}/health`)).text()),
    ],
    close() {
      a2e.cut();
      rpc.cut();
    },
  };
}

/** Runs a flood, for `limitMs` at most, while every neighbour asks again as soon as it has its reply. */
export async function feel(server: ServerChild, flood: Flood, limitMs: number): Promise<Felt> {
  const { trips, close } = await neighbours(server);
  const script = fileURLToPath(new URL('./flood-process.ts', import.meta.url));
  const address = { tcp: server.tcp, unix: server.unix, websocket: server.ws, http: server.http }[flood.transport];
  const client = spawn(process.execPath, [script, address, JSON.stringify(flood)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(client, 'exit');
  await once(client, 'message');
  let over = false;
  let [pings, worstMs] = [0, 0];
  const measured = trips.map(async (trip) => {
    while (!over) {
      const from = performance.now();
      await trip();
      worstMs = Math.max(worstMs, performance.now() - from);
      pings++;
      // Every few milliseconds: the neighbours must not be the load.
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  });
  const from = performance.now();
  const result = once(client, 'message');
  client.send('start');
  const timer = setTimeout(() => client.connected && client.send('stop'), limitMs);
  const [{ repliedBytes, ended }] = (await result) as [Pick<Felt, 'repliedBytes' | 'ended'>];
  clearTimeout(timer);
  const floodMs = performance.now() - from;
  over = true;
  await Promise.all(measured);
  client.kill();
  await exited;
  close();
  return { pings, worstMs, floodMs, repliedBytes, ended };
}

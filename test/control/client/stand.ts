/**
 * A composed server of sessions behind every kind of address, with a scripted backend, for the tests of the client.
 */
import type { TestContext } from 'node:test';
import { type ConnectOptions, connect as connectControl } from '../../../src/control-client/connect.ts';
import type { ControlClient } from '../../../src/control-client/control.ts';
import type { ControlEvent, EventGap } from '../../../src/control-client/control-event.ts';
import { httpServer } from '../../../src/server/http/http.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { listenTcp, parseTcpAddress } from '../../../src/transport/socket.ts';
import { webSocketAcceptor } from '../../../src/transport/websocket.ts';
import { within } from '../../contract/recorder.ts';
import { type Relay, startRelay } from '../../support/relay.ts';
import { type Composed, type ComposedOptions, composed } from '../support/composed-control.ts';
import { type ScriptedBackend, type ScriptedBackendOptions, scriptedBackend } from '../support/scripted-backend.ts';

export const TOKEN = 'canary-55ab-token';

export type Item = ControlEvent | EventGap;

export interface Stand extends Composed {
  readonly backend: ScriptedBackend;
  /** Addresses of the server. */
  readonly webSocket: string;
  readonly tcp: string;
  connect(address?: string, options?: ConnectOptions): Promise<ControlClient>;
  /** Starts a relay that cuts; returns it and the TCP address of the server behind it. */
  relay(budget?: () => number): Promise<{ readonly relay: Relay; readonly address: string }>;
}

export interface StandOptions extends ComposedOptions {
  readonly scripted?: ScriptedBackendOptions;
  /** A token is asked for on sockets. */
  readonly guarded?: boolean;
}

/** Starts a server; it and everything connected to it ends with the test. */
export async function stand(t: TestContext, { scripted, guarded, ...options }: StandOptions = {}): Promise<Stand> {
  const backend = scriptedBackend(scripted);
  const auth = createAuthenticator([{ principal: { name: 'ann', admin: true }, digests: [tokenDigest(TOKEN)] }]);
  const base = await composed(t, {
    backend: backend.name,
    backends: [backend],
    ...(guarded && { auth }),
    ...options,
  });
  const { rpc } = base.server;
  const tcp = await listenTcp({ port: 0 }, (link) => rpc.accept(link));
  const http = await httpServer({
    webSocket: webSocketAcceptor(),
    accept: (link) => link.destroy(),
    rpc: { webSocket: webSocketAcceptor({ maxMessageBytes: rpc.maxMessageBytes }), accept: (link) => rpc.accept(link) },
  });
  t.after(() => Promise.all([tcp.close(), http.close()]));
  return {
    ...base,
    backend,
    webSocket: `${http.address.replace('http', 'ws')}/rpc`,
    tcp: tcp.address,
    async connect(address, connecting = {}) {
      const control = await connectControl(address ?? rpc, connecting);
      t.after(() => control.close());
      return control;
    },
    async relay(budget) {
      const relay = await startRelay(parseTcpAddress(tcp.address), budget);
      t.after(() => relay.close());
      return { relay, address: `tcp://127.0.0.1:${relay.port}` };
    },
  };
}

/** Reads until an item fits, it included. */
export async function readUntil(events: AsyncIterable<Item>, fits: (event: ControlEvent) => boolean): Promise<Item[]> {
  const read: Item[] = [];
  const reading = async (): Promise<Item[]> => {
    for await (const item of events) {
      read.push(item);
      if (item.type !== 'gap' && fits(item)) break;
    }
    return read;
  };
  return within(reading(), 'the events');
}

export const seqs = (items: readonly Item[]): number[] =>
  items.map((item) => (item.type === 'gap' ? Number.NaN : item.seq));

/** Returns all numbers from one to another. */
export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

export const isEnd = (turnId: string) => (event: ControlEvent) =>
  ['session.completed', 'session.interrupted', 'session.error'].includes(event.type) &&
  (event.payload as { turn_id?: string }).turn_id === turnId;

/**
 * The methods the wire side answers itself: the handshake, the methods about the connection and its events, and the end of the
 * server.
 *
 * @see docs/protocol/session-rpc.md#methods
 */

import type { ResultOf } from '../../protocol/rpc-reader.ts';
import {
  debugSet,
  eventsSubscribe,
  eventsUnsubscribe,
  type HandshakeResult,
  handshake,
  ping,
  shutdown,
  systemClients,
} from '../../protocol/session-rpc.ts';
import { may } from '../../session/rights.ts';
import { type Handled, handles, type RpcCall } from '../contract/handlers.ts';
import type { ConnectedClient } from './connected-client.ts';
import { type ClientHello, greetingOf } from './handshake.ts';

/** The part of the server that these methods need. */
export interface MethodsOwner {
  clientOf(call: RpcCall): ConnectedClient;
  clients(): Iterable<ConnectedClient>;
  welcome(client: ConnectedClient, greeting: ClientHello): HandshakeResult;
  pong(): ResultOf<typeof ping>;
  stopBehind(call: RpcCall, reason: string): Promise<void>;
}

export function connectionMethods(server: MethodsOwner): readonly Handled[] {
  return [
    handles(handshake, (params, call) => {
      const client = server.clientOf(call);
      const answer = server.welcome(client, greetingOf(params));
      // Events that had to wait for the handshake wait for its answer too.
      call.afterAnswer(() => client.events.open());
      return answer;
    }),

    handles(ping, () => server.pong()),

    handles(debugSet, ({ super_debug }, call) => {
      server.clientOf(call).events.debug = super_debug;
      return { super_debug };
    }),

    handles(eventsSubscribe, (params, call) => server.clientOf(call).events.subscribe(params, call)),

    handles(eventsUnsubscribe, ({ subscription_id }, call) => ({
      removed: server.clientOf(call).events.unsubscribe(subscription_id),
    })),

    handles(systemClients, (_params, { caller: { principal } }) => ({
      clients: [...server.clients()]
        // Other clients are shown only to principals who may see everything.
        .filter((client) => may(principal, 'observe', client.principal.name))
        .map(({ caller, connectedAt, events }) => ({
          connection_id: caller.connectionId,
          client_name: caller.clientName,
          client_version: caller.clientVersion,
          principal: caller.principal.name,
          transport: caller.transport,
          connected_at: new Date(connectedAt).toISOString(),
          subscriptions: events.list(),
        })),
    })),

    handles(shutdown, async ({ reason }, call) => {
      await server.stopBehind(call, reason ?? 'shutdown');
      return { accepted: true, ...(reason !== undefined && { reason }) };
    }),
  ];
}

/**
 * The methods of session RPC 1.0.0 and Handfast's additions, as values made of the schemas in `session-rpc.schema.ts`,
 * and the results that have a name.
 *
 * The server and the client share them.
 * @see docs/protocol/session-rpc.md#methods
 */
import type { ResultOf } from './rpc-reader.ts';
import type * as methods from './session-rpc.generated.ts';

export * from './session-rpc.generated.ts';

/** Version of this server; strict handshakes compare it exactly. */
export const SESSION_RPC_VERSION = '1.0.0';

export type HandshakeResult = ResultOf<typeof methods.handshake>;
export type SteerResult = ResultOf<typeof methods.sessionSteer>;
export type AuthStatus = ResultOf<typeof methods.authStatus>;
export type ModelListResult = ResultOf<typeof methods.modelList>;
export type HistoryListResult = ResultOf<typeof methods.historyList>;

/** Methods that every connection may call. */
export const openMethods: readonly string[] = ['rpc.handshake', 'system.ping'];

/**
 * Methods that only read, or set state that ends with the connection: repeating one has no more effect than calling it
 * once.
 */
export const readingMethods: readonly string[] = [
  'state.get',
  'debug.set',
  'session.get',
  'session.list',
  'session.queue.list',
  'session.messages',
  'session.turns',
  'session.export',
  'history.list',
  'history.get',
  'events.subscribe',
  'events.unsubscribe',
  'approval.list',
  'skills.list',
  'tools.list',
  'model.list',
  'model.status',
  'model.openrouter.providers',
  'limits.get',
  'auth.status',
  'onboarding.status',
  'system.clients',
];

/** Methods whose requests may be longer than others: prompts carry images, and an import is all of a session. */
export const longMethods: ReadonlySet<string> = new Set(['session.send', 'session.import']);

const repeatable = new Set([...openMethods, ...readingMethods]);

/**
 * Returns true for a method that may be called again when its reply is lost: a repetition has no more effect than one
 * call.
 */
export const isRepeatable = (method: string): boolean => repeatable.has(method);

/**
 * Delivers the results of a managed receiver by calling the orchestrator's own receiver. The worker's outbox retries until
 * the orchestrator acknowledges.
 *
 * @see docs/protocol/fleet.md#http
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../base/log.ts';
import type { TokenSource } from '../../../connection/token.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { endpointBelow, type HttpClient, peerUrl } from '../plain/http-client.ts';
import { MAX_BODY_BYTES } from '../plain/http-server.ts';
import { withToken } from '../plain/token.ts';
import { RPC_PATH, readReply, sendMessage } from './messages.ts';

/** Destination of the results of one orchestrator's tasks. */
export interface Callback {
  /** Base address of the orchestrator's receiver. */
  readonly url: string;
  /** Read for each call, and again when it was refused. */
  readonly token?: TokenSource;
}

export interface CallbackDeps {
  readonly client: HttpClient;
  readonly log: Log;
  readonly timeoutMs: number;
  readonly newId: () => string;
}

export interface LateReply {
  readonly text: string;
  readonly data: readonly FleetMessage[];
  readonly contextId: string;
  readonly messageId: string;
}

/** Sends a reply; resolves when the orchestrator has stored it durably. */
export async function callBack({ url, token }: Callback, reply: LateReply, deps: CallbackDeps): Promise<void> {
  const { client, log, timeoutMs, newId } = deps;
  const to = endpointBelow(peerUrl(url), RPC_PATH);
  const body = bounded(newId(), reply);
  const response = await withToken(token, { peer: to.origin, log }, (headers) =>
    client.exchange({ method: 'POST', to, headers, body, timeoutMs, maxBytes: MAX_BODY_BYTES }),
  );
  const { status } = response;
  if (status !== 200) throw fail('connection_lost', `${to.origin} responded with status ${status}`, { status });
  const read = readReply(response.body);
  if (read.kind === 'message') return;
  const reason = read.kind === 'malformed' ? read.reason : read.text;
  throw fail('connection_lost', `${to.origin} did not accept the reply: ${reason}`);
}

/** Returns the body of the call. Where text and data together are too long, the data alone, which is complete. */
function bounded(id: string, reply: LateReply): string {
  const whole = sendMessage(id, reply);
  if (Buffer.byteLength(whole) <= MAX_BODY_BYTES || reply.data.length === 0) return whole;
  return sendMessage(id, { ...reply, text: 'The reply is in the data of this message.' });
}

/**
 * How a managed receiver hands its results over: by a call to the orchestrator's own receiver. Tried by the worker's outbox
 * until it is taken.
 *
 * Used by `reply-channel.ts`. @see docs/protocol/fleet.md#http
 */
import { Buffer } from 'node:buffer';
import type { Log } from '../../../base/log.ts';
import type { FleetMessage } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import { endpointBelow, type HttpClient, peerUrl } from '../plain/http-client.ts';
import { type TokenSource, withToken } from '../plain/token.ts';
import { MAX_BODY_BYTES, RPC_PATH, readAnswer, sendMessage } from './messages.ts';

/** Where results of the tasks of one orchestrator go. */
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

/** A reply that goes out. */
export interface LateReply {
  readonly text: string;
  readonly data: readonly FleetMessage[];
  readonly contextId: string;
  readonly messageId: string;
}

/** Sends a reply; resolves when the orchestrator has it for good. */
export async function callBack({ url, token }: Callback, reply: LateReply, deps: CallbackDeps): Promise<void> {
  const { client, log, timeoutMs, newId } = deps;
  const target = endpointBelow(peerUrl(url), RPC_PATH);
  const body = bounded(newId(), reply);
  const answer = await withToken(token, { peer: target.origin, log }, (headers) =>
    client.exchange({ method: 'POST', to: target, headers, body, timeoutMs, maxBytes: MAX_BODY_BYTES }),
  );
  if (answer.status !== 200) {
    throw fail('connection_lost', `${target.origin} answered ${answer.status}`, { status: answer.status });
  }
  const said = readAnswer(answer.body);
  if (said.kind === 'message') return;
  const why = said.kind === 'unreadable' ? said.why : said.text;
  throw fail('connection_lost', `${target.origin} did not take the reply: ${why}`);
}

/** The body of the call; where text and data do not fit both, the data, which says all of it. */
function bounded(id: string, reply: LateReply): string {
  const whole = sendMessage(id, reply);
  if (Buffer.byteLength(whole) <= MAX_BODY_BYTES || reply.data.length === 0) return whole;
  return sendMessage(id, { ...reply, text: 'The reply is in the data of this message.' });
}

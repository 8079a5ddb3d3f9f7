/**
 * The orchestrator as a receiver of the upstream dialect: managed workers call back here with their replies.
 *
 * Used by `orchestrator-bus.ts`, which serves it on whatever port configuration names.
 * @see docs/protocol/fleet.md#http
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Log } from '../../../base/log.ts';
import { LOCAL_PRINCIPAL } from '../../../session/auth.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import { answer, bodyOf, callerOf, type Guard, pathOf } from '../plain/http-server.ts';
import type { OpenTask } from '../plain/open-tasks.ts';
import { cardOf } from './card.ts';
import {
  CARD_PATH,
  errorAnswer,
  HEALTH_PATH,
  type HttpMessage,
  messageAnswer,
  RPC,
  RPC_PATH,
  readRequest,
} from './messages.ts';
import type { RecalledTask } from './orchestrator-bus.ts';
import type { HttpPeer } from './peer.ts';

export interface ReplyReceiverOptions {
  readonly name: string;
  readonly version: string | undefined;
  readonly url: () => string;
  readonly peers: readonly HttpPeer[];
  readonly guard: Guard;
  readonly recall?: (peerId: string, contextId: string) => Promise<RecalledTask | undefined>;
  readonly log: Log;
  /** False: not yet, or not any more. */
  readonly running: () => boolean;
  readonly newId: () => string;
}

export class ReplyReceiver {
  readonly #options: ReplyReceiverOptions;

  constructor(options: ReplyReceiverOptions) {
    this.#options = options;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#route(request, response).catch((thrown: unknown) => {
      this.#options.log.error('a request failed', { path: pathOf(request), error: asError(thrown).message });
      answer(response, 500, { error: 'the request failed' });
    });
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { name, version, url, peers, guard, running } = this.#options;
    const path = pathOf(request);
    const method = path === RPC_PATH ? 'POST' : 'GET';
    if (![CARD_PATH, HEALTH_PATH, RPC_PATH].includes(path))
      return answer(response, 404, { error: 'there is nothing here' });
    if (request.method !== method) return answer(response, 405, { error: `use ${method}` }, { Allow: method });
    if (path === CARD_PATH) {
      return answer(response, 200, cardOf({ name, url: url(), version, features: [], token: guard.auth.hasTokens }));
    }
    if (path === HEALTH_PATH) {
      const ok = running();
      return answer(response, ok ? 200 : 503, { ok, version: version ?? null, peer_count: peers.length });
    }
    const principal = await callerOf(guard, request, response);
    if (principal === undefined) {
      request.resume();
      return;
    }
    const body = await bodyOf(request, response);
    if (body === undefined) return;
    if (!running()) return answer(response, 503, { error: 'the orchestrator is not running' });
    const read = readRequest(body);
    if (read.kind === 'error') return answer(response, 200, errorAnswer(read.id, read.code, read.message));
    const problem = await this.#take(principal, read.message);
    const said =
      problem === undefined
        ? messageAnswer(read.id, {
            text: 'Received.',
            contextId: read.message.contextId ?? this.#options.newId(),
            messageId: this.#options.newId(),
          })
        : errorAnswer(read.id, problem.code, problem.text);
    answer(response, 200, said);
  }

  /** Takes a reply; what is returned is why it could not be, and then it should be sent again. */
  async #take(principal: Principal, message: HttpMessage): Promise<{ code: number; text: string } | undefined> {
    const peer = this.#peerOf(principal, message);
    if (peer === undefined) return { code: RPC.failed, text: `inbox: no worker here is ${principal.name}` };
    try {
      const open = await this.#taskOf(peer, message);
      if (open !== undefined) await peer.hearing.reply(open, message);
      else if (!(await peer.hearing.handleUnsolicited(message))) {
        this.#options.log.warn('a reply belongs to no task', { peer: peer.peerId, context: message.contextId });
        return { code: RPC.failed, text: 'inbox: no task waits in this context' };
      }
      return undefined;
    } catch (thrown) {
      const { code, message: error } = asError(thrown);
      this.#options.log.warn('a reply was not kept', { peer: peer.peerId, code, error });
      return { code: RPC.failed, text: 'inbox: the reply could not be kept' };
    }
  }

  /** By its token; this user's own processes are told apart by what they talk about. */
  #peerOf(principal: Principal, { contextId, data }: HttpMessage): HttpPeer | undefined {
    const { peers } = this.#options;
    const named = peers.find(({ peerId }) => peerId === principal.name);
    if (principal !== LOCAL_PRINCIPAL) return named;
    if (peers.length === 1) return peers[0];
    const about = (peer: HttpPeer): boolean =>
      peer.tasks.inContext(contextId ?? '') !== undefined ||
      data.some((one) => peer.tasks.get(String((one as { readonly task_id?: unknown }).task_id)) !== undefined);
    const senders = new Set(data.map((one) => (one as { envelope?: { sender?: unknown } }).envelope?.sender));
    return peers.find(about) ?? peers.find(({ peerId }) => senders.has(peerId)) ?? named;
  }

  async #taskOf(peer: HttpPeer, { contextId }: HttpMessage): Promise<OpenTask | undefined> {
    if (contextId === null) return undefined;
    const known = peer.tasks.inContext(contextId);
    if (known !== undefined) return known;
    const recalled = await this.#options.recall?.(peer.peerId, contextId);
    return recalled === undefined ? undefined : peer.tasks.add({ ...recalled, contextId });
  }
}

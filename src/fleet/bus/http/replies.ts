/**
 * The orchestrator as a receiver of the upstream dialect: managed workers call here with their replies.
 *
 * The server mounts it on the addresses of its configuration.
 * @see docs/protocol/fleet.md#http
 */
import type { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { clientAddress } from '../../../base/http/client-address.ts';
import { isLogged, type Log } from '../../../base/log.ts';
import { createAuthenticator } from '../../../session/auth.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError } from '../../../wire/errors.ts';
import { CARD_PATH } from '../plain/card.ts';
import { type Authenticated, HttpServer, respond, type ServerAccess } from '../plain/http-server.ts';
import type { GivenTask, OpenTask } from '../plain/open-tasks.ts';
import { errorResponse, RPC } from '../plain/rpc.ts';
import { mayWork } from '../worker-rights.ts';
import { cardOf } from './card.ts';
import { HEALTH_PATH, type HttpMessage, messageResponse, RPC_PATH, readRequest } from './messages.ts';
import type { HttpPeer } from './peer.ts';
import { PeerTokens, type PeerTokensOptions } from './peer-tokens.ts';

/** The open task of a peer in a context, from the task store: for an orchestrator that was restarted since the dispatch. */
export type Recall = (peerId: string, contextId: string) => Promise<Omit<GivenTask, 'contextId'> | undefined>;

export interface ReplyReceiverOptions extends ServerAccess {
  readonly name: string;
  readonly version?: string;
  readonly url: () => string;
  readonly peers: readonly HttpPeer[];
  /** The token each peer is called with. */
  readonly tokens: PeerTokensOptions['peers'];
  readonly recall?: Recall;
  readonly log: Log;
  /** False before the start of the bus and after its stop. */
  readonly running: () => boolean;
  readonly newId: () => string;
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
}

/** Advice for receivers that call back: the settings here, and those at a receiver that sends no token. */
const CONFIGURE =
  "token_env or token_file of the peer in fleet.yaml, as the receiver's own token; or a token under auth.tokens with the grant fleet.worker for the name of the peer";
const CONFIGURE_RECEIVER =
  'the token that the receiver sends when it calls back, and its environment: hermes_auth_token_env in its a2a_receiver.json, or token_env of the callback of a Handfast receiver; the same token as token_env or token_file of the peer in fleet.yaml';

export class ReplyReceiver {
  readonly #options: ReplyReceiverOptions;
  readonly #server: HttpServer;
  readonly #tokens: PeerTokens;
  #refusals = 0;

  constructor(options: ReplyReceiverOptions) {
    this.#options = options;
    const { name, version, url, peers, running, tokens, monotonic } = options;
    const auth = options.auth ?? createAuthenticator([]);
    this.#tokens = new PeerTokens({ auth, peers: tokens, monotonic });
    this.#server = new HttpServer({
      ...options,
      auth: this.#tokens,
      onRefused: (request, status) => {
        const address = clientAddress(request);
        if (request.headers.authorization !== undefined) {
          return this.#refused("a receiver's call was refused: its token is wrong", { address, status });
        }
        this.#refused(
          "a receiver's call was refused: it sent no token",
          { address, status, agent: request.headers['user-agent'] },
          CONFIGURE_RECEIVER,
        );
      },
      routes: {
        [CARD_PATH]: {
          open: (_, response) =>
            respond(
              response,
              200,
              cardOf({ name, url: url(), version, features: [], token: this.#server.auth.hasTokens }),
            ),
        },
        [HEALTH_PATH]: {
          open: (_, response) => {
            const ok = running();
            respond(response, ok ? 200 : 503, { ok, version: version ?? null, peer_count: peers.length });
          },
        },
        [RPC_PATH]: { needs: 'messages', post: (call, body) => this.#receive(call, body) },
      },
    });
  }

  /** Handles a call. Never rejects. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#tokens.refresh();
    return this.#server.handle(request, response);
  }

  #refused(message: string, fields: Readonly<Record<string, unknown>>, configure = CONFIGURE): void {
    this.#refusals += 1;
    if (!isLogged(this.#refusals)) return;
    this.#options.log.warn(message, { ...fields, configure, count: this.#refusals });
  }

  async #receive({ response, principal }: Authenticated, body: Buffer): Promise<void> {
    const { running, newId } = this.#options;
    if (!running()) return respond(response, 503, { error: 'the orchestrator is not running' });
    const read = readRequest(body);
    if (read.kind === 'error') return respond(response, 200, errorResponse(read.id, read.code, read.message));
    const problem = await this.#accept(principal, read.message);
    if (problem !== undefined) return respond(response, 200, errorResponse(read.id, RPC.failed, `inbox: ${problem}`));
    const contextId = read.message.contextId ?? newId();
    respond(response, 200, messageResponse(read.id, { text: 'Received.', contextId, messageId: newId() }));
  }

  /** Accepts a reply. Returns the reason it was not stored; the worker sends it again then. */
  async #accept(principal: Principal, message: HttpMessage): Promise<string | undefined> {
    const { log } = this.#options;
    const peer = this.#peerOf(principal, message);
    if (peer === undefined) {
      const { name } = principal;
      this.#refused("a receiver's reply was refused: its token may not reply as any peer here", {
        principal: name,
        grant: 'fleet.worker',
      });
      return `no worker here is ${name}`;
    }
    try {
      const open = await this.#taskOf(peer, message);
      if (open !== undefined) await peer.inbound.reply(open, message);
      else if (!(await peer.inbound.handleUnsolicited(message))) {
        log.warn('reply belongs to no task', { peer: peer.peerId, context: message.contextId });
        return 'no task waits in this context';
      }
      return undefined;
    } catch (thrown) {
      const { code, message: error } = asError(thrown);
      log.warn('reply was not stored', { peer: peer.peerId, code, error });
      return 'the reply could not be kept';
    }
  }

  /** Returns the peer its principal may be; of several, the one whose task it replies to. */
  #peerOf(principal: Principal, { contextId, data }: HttpMessage): HttpPeer | undefined {
    const peers = this.#options.peers.filter(({ peerId }) => mayWork(principal, peerId));
    if (peers.length === 1) return peers[0];
    const named = peers.find(({ peerId }) => peerId === principal.name);
    const repliesFor = ({ inbound: { tasks } }: HttpPeer): boolean =>
      tasks.inContext(contextId ?? '') !== undefined ||
      data.some((one) => tasks.get(String((one as { readonly task_id?: unknown }).task_id)) !== undefined);
    const senders = new Set(data.map((one) => (one as { envelope?: { sender?: unknown } }).envelope?.sender));
    return peers.find(repliesFor) ?? peers.find(({ peerId }) => senders.has(peerId)) ?? named;
  }

  async #taskOf({ peerId, inbound: { tasks } }: HttpPeer, { contextId }: HttpMessage): Promise<OpenTask | undefined> {
    if (contextId === null) return undefined;
    const known = tasks.inContext(contextId);
    if (known !== undefined) return known;
    const recalled = await this.#options.recall?.(peerId, contextId);
    return recalled === undefined ? undefined : tasks.add({ ...recalled, contextId });
  }
}

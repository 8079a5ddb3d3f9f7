/**
 * One worker on NATS, as the orchestrator sees it. Dispatches are stored on its queue; messages about a running task are
 * requests to it, stored on the control stream.
 */
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { FleetPeer, SendOptions } from '../peer.ts';
import type { NatsLink } from './connection.ts';
import { pack } from './payload.ts';
import type { ControlRequests } from './requests.ts';
import { subjects, tokenOf } from './subjects.ts';

/** The members of the bus that its peers use. */
export interface PeerContext {
  readonly link: NatsLink;
  readonly requests: ControlRequests;
  /** Throws when this orchestrator may not send any more. */
  readonly check: () => void;
}

export class NatsPeer implements FleetPeer {
  readonly peerId: string;
  readonly binding = 'nats';
  readonly address: string;
  readonly structured = true;
  readonly durable = true;
  /** Grows and shrinks with its announces. */
  features: ReadonlySet<Feature> = new Set();
  /** True between `joined` and `left`. */
  present = false;
  readonly #agent: string;
  readonly #context: PeerContext;

  constructor(peerId: string, agent: string, context: PeerContext) {
    this.peerId = peerId;
    this.#agent = agent;
    this.#context = context;
    this.address = `${context.link.address}/${subjects.dispatch(agent)}`;
  }

  get reachable(): boolean {
    return this.present && this.#context.link.up;
  }

  async send(message: FleetMessage, how: SendOptions): Promise<void> {
    const { link, requests, check } = this.#context;
    check();
    if (!this.present) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    switch (message.type) {
      case 'TASK_DISPATCH':
        return storeDispatch(link, subjects.dispatch(this.#agent), message, { check, signal: how.signal });
      case 'TASK_CANCEL':
      case 'TASK_STEER':
      case 'TASK_POLL':
      case 'TASK_ANSWER':
        return requests.send(subjects.control(this.#agent, tokenOf(message.task_id)), message, this, check, how.signal);
      case 'ANNOUNCE_REQUEST':
        // The reply is the profile.
        return link.notify(subjects.requests(this.#agent), pack(message));
      default:
        // The stream stores results, and a profile needs no acceptance: a worker needs no message.
        return;
    }
  }
}

/** Stores a dispatch on a queue; however often it is sent, an attempt is there once. */
export async function storeDispatch(
  link: NatsLink,
  subject: string,
  message: TaskDispatch,
  terms: { readonly check: () => void; readonly signal?: AbortSignal },
): Promise<void> {
  const attempt = message.envelope?.attempt ?? 1;
  await link.publish(subject, pack(message), `${message.task.task_id}#${attempt}`, terms);
}

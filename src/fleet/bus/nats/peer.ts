/**
 * One worker on NATS, as the orchestrator sees it. Dispatches are stored on its queue; messages about a running task are
 * requests to it, stored on the control stream.
 */
import type { Feature, FleetMessage, TaskDispatch } from '../../../protocol/fleet.ts';
import { fail } from '../../../wire/errors.ts';
import type { FleetPeer, SendOptions, Whereabouts } from '../peer.ts';
import type { Attempts, DispatchQueue } from './attempts.ts';
import type { NatsLink } from './connection.ts';
import { pack } from './payload.ts';
import type { ControlRequests } from './requests.ts';
import { consumers, subjects, tokenOf } from './subjects.ts';

/** The members of the bus that its peers use. */
export interface PeerContext {
  readonly link: NatsLink;
  readonly attempts: Attempts;
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

  get #queue(): DispatchQueue {
    return { subject: subjects.dispatch(this.#agent), consumer: consumers.agent(this.#agent) };
  }

  get reachable(): boolean {
    return this.present && this.#context.link.up;
  }

  find(message: TaskDispatch): Promise<Whereabouts> {
    return this.#context.attempts.find(this.#queue, message);
  }

  async send(message: FleetMessage, how: SendOptions): Promise<void> {
    const { link, attempts, requests, check } = this.#context;
    check();
    if (!this.present) throw fail('unreachable', `${this.peerId} is not connected`, { peer: this.peerId });
    switch (message.type) {
      case 'TASK_DISPATCH':
        return void (await attempts.store(this.#queue, message, how.signal));
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

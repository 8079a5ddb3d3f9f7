/**
 * The messages of one plain peer on their way to the orchestrator: read, checked, and forwarded until they are stored.
 *
 * `http/inbound.ts` and `a2a/inbound.ts` read the messages of their wire.
 */

import { Backoff, type BackoffOptions } from '../../../base/backoff.ts';
import { sleep } from '../../../base/sleep.ts';
import { fail } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Incoming } from '../../messages/decoded.ts';
import { forwardToOrchestrator, logNotStored } from '../forward.ts';
import { OpenTasks } from './open-tasks.ts';
import type { PlainPeerOwner } from './orchestrator-bus.ts';
import type { HealthCheckedPeer } from './peer-health.ts';

export class PlainInbound {
  readonly tasks = new OpenTasks();
  protected readonly peer: HealthCheckedPeer;
  protected readonly owner: PlainPeerOwner;
  readonly #accepted: ReadonlySet<Incoming['type']>;

  /** `accepted`: types of messages this wire brings from workers; others are dropped. */
  constructor(peer: HealthCheckedPeer, owner: PlainPeerOwner, accepted: readonly Incoming['type'][]) {
    this.peer = peer;
    this.owner = owner;
    this.#accepted = new Set(accepted);
  }

  /** Reads a message of the fleet protocol. Undefined: it is malformed, which is reported, or none that workers send. */
  protected read(value: unknown): Incoming | undefined {
    const decoded = decodeValue(value);
    if (decoded.valid) return this.#accepted.has(decoded.message.type) ? decoded.message : undefined;
    const codes = decoded.errors.map(({ code }) => code);
    this.owner.events.malformed(this.peer, codes);
    return undefined;
  }

  /** Resolves when the orchestrator has stored the message, where it must be stored. */
  async forward(message: Incoming): Promise<void> {
    if (this.owner.stopping.aborted) throw fail('interrupted', 'the orchestrator is stopping');
    await forwardToOrchestrator(this.owner.events, this.peer, message);
  }

  forwardInBackground(message: Incoming): void {
    if (this.owner.stopping.aborted) return;
    this.forward(message).catch((thrown: unknown) => this.#notStored(message, thrown));
  }

  /** Forwards a result until the orchestrator has stored it. Never rejects. */
  async forwardUntilStored(result: Incoming, retry?: BackoffOptions): Promise<void> {
    const { stopping } = this.owner;
    const delay = new Backoff(retry);
    while (!stopping.aborted) {
      try {
        return await this.forward(result);
      } catch (thrown) {
        this.#notStored(result, thrown);
      }
      await sleep(delay.next(), stopping);
    }
  }

  #notStored(message: Incoming, thrown: unknown): void {
    logNotStored(this.owner.log, this.peer, message, thrown);
  }
}

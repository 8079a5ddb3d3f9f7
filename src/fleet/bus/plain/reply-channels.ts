/**
 * The reply channels of a worker that is served to plain clients: one for each name, made and attached when it is first used.
 */
import type { ReplyChannel, WorkerPort } from '../reply-channel.ts';

export class ReplyChannels<C extends ReplyChannel> {
  readonly #worker: WorkerPort;
  readonly #make: (name: string) => C;
  readonly #attached = new Map<string, { readonly channel: C; readonly detach: () => void }>();

  constructor(worker: WorkerPort, make: (name: string) => C) {
    this.#worker = worker;
    this.#make = make;
  }

  get(name: string): C {
    let found = this.#attached.get(name);
    if (found === undefined) {
      const channel = this.#make(name);
      found = { channel, detach: this.#worker.attach(channel) };
      this.#attached.set(name, found);
    }
    return found.channel;
  }

  /** Detaches all from the worker; results wait in its outbox. */
  close(): void {
    for (const { detach } of this.#attached.values()) detach();
    this.#attached.clear();
  }
}

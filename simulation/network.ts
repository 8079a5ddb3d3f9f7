/**
 * The network between an orchestrator and its workers: messages take a moment, and some get lost, arrive twice, or
 * arrive late and overtake others. No message passes to or from a process that is cut off or dead.
 */
import type { Random } from './random.ts';
import type { Faults } from './setting.ts';
import type { Site } from './site.ts';
import type { VirtualTime } from './virtual-time.ts';

const MEAN_DELAY_MS = 15;

export class Network {
  readonly #time: VirtualTime;
  readonly #random: Random;
  readonly #faults: Faults;
  #calm = false;
  /** True while the orchestrator listens. */
  listening = true;

  constructor(time: VirtualTime, random: Random, faults: Faults) {
    this.#time = time;
    this.#random = random;
    this.#faults = faults;
  }

  get isCalm(): boolean {
    return this.#calm;
  }

  /** Stops losing messages. */
  calm(): void {
    this.#calm = true;
  }

  toWorker(site: Site, deliver: () => void): void {
    if (!site.reachable) return;
    for (const delay of this.#delays()) {
      this.#time.after(delay, () => {
        if (site.reachable) deliver();
      });
    }
  }

  toOrchestrator(site: Site, deliver: () => void): void {
    if (!site.reachable) return;
    for (const delay of this.#delays()) {
      this.#time.after(delay, () => {
        if (this.listening && !site.cut) deliver();
      });
    }
  }

  /** Returns the delays, one for each copy that arrives. */
  #delays(): number[] {
    const { lost, twice, late, lateMs } = this.#faults;
    if (this.#calm) return [this.#random.around(MEAN_DELAY_MS)];
    if (this.#random.chance(lost)) return [];
    const copies = this.#random.chance(twice) ? 2 : 1;
    return Array.from({ length: copies }, () => {
      if (this.#random.chance(late)) return this.#random.between(lateMs[0], lateMs[1]);
      return this.#random.around(MEAN_DELAY_MS);
    });
  }
}

/**
 * The workers that are present, by the profiles bucket: reports each when it appears, whenever it writes its profile again, and
 * when it has left or stopped writing.
 *
 * A worker that stops without a goodbye is missed by this machine's own clock, not by the clocks of others.
 */
import { setNewest } from '../../../base/evict-oldest.ts';
import { decode } from '../../messages/decode.ts';
import type { Announced } from '../../messages/decoded.ts';
import type { Bucket, Entry } from './bucket.ts';
import { unpack } from './payload.ts';

/** Workers that have left and are remembered as such. */
const MAX_REMOVED = 10_000;

export interface ProfileEvents {
  /** Called when a worker wrote its profile. The argument is the token of its key. */
  present(agent: string, announce: Announced): void;
  /** `asleep`: it sent SESSION_BYE. */
  absent(agent: string, reason: string, asleep: boolean): void;
  unreadable(agent: string, codes: readonly string[]): void;
}

interface Sighting {
  readonly revision: number;
  /** Monotonic milliseconds after which it counts as lost. */
  readonly until: number;
}

export interface ProfilesOptions {
  readonly ttlS: number;
  readonly monotonic?: () => number;
}

export class Profiles {
  readonly #bucket: Bucket;
  readonly #events: ProfileEvents;
  readonly #ttlMs: number;
  readonly #monotonic: () => number;
  readonly #seen = new Map<string, Sighting>();
  /** Latest revision of keys that are not present, so that a watch that starts again does not bring them back. */
  readonly #removed = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #stop: (() => void) | undefined;

  constructor(bucket: Bucket, events: ProfileEvents, { ttlS, monotonic = () => performance.now() }: ProfilesOptions) {
    this.#bucket = bucket;
    this.#events = events;
    this.#ttlMs = ttlS * 1000;
    this.#monotonic = monotonic;
  }

  /** Resolves when the present workers have been reported. */
  async start(): Promise<void> {
    this.#stop = await this.#bucket.watch('*', (entry) => this.#receive(entry));
    this.#timer = setInterval(() => this.#sweep(), Math.min(1000, this.#ttlMs / 4)).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#stop?.();
  }

  #receive({ key, value, revision, update, removed }: Entry): void {
    const last = this.#seen.get(key)?.revision ?? this.#removed.get(key) ?? 0;
    // A watch that starts again repeats earlier reports.
    if (revision === last) return;
    if (removed) return this.#left(key, revision, 'its profile has expired', false);
    let decoded: ReturnType<typeof decode>;
    try {
      decoded = decode(unpack(value));
    } catch {
      return this.#events.unreadable(key, ['E_NOT_JSON']);
    }
    if (!decoded.valid) {
      const codes = decoded.errors.map(({ code }) => code);
      return this.#events.unreadable(key, codes);
    }
    const { message } = decoded;
    if (message.type === 'SESSION_BYE') return this.#left(key, revision, message.reason, true);
    if (message.type !== 'SESSION_ANNOUNCE') return this.#events.unreadable(key, ['E_TYPE']);
    // The age of the first entry is unknown; a worker that is present writes again within a third of the ttl.
    const holdsMs = update ? this.#ttlMs : this.#ttlMs / 2;
    this.#seen.set(key, { revision, until: this.#monotonic() + holdsMs });
    this.#removed.delete(key);
    this.#events.present(key, message);
  }

  #left(key: string, revision: number, reason: string, asleep: boolean): void {
    const was = this.#seen.delete(key);
    setNewest(this.#removed, key, revision, MAX_REMOVED);
    if (was) this.#events.absent(key, reason, asleep);
  }

  #sweep(): void {
    const now = this.#monotonic();
    for (const [key, { revision, until }] of this.#seen) {
      if (until > now) continue;
      this.#left(key, revision, `no sign of life for ${Math.round(this.#ttlMs / 1000)} s`, false);
    }
  }
}

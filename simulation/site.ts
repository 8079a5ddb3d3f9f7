/**
 * The real state of a worker, known to others or not: its process, its servers, its tree, its clock, and their faults.
 * Faults occur by themselves, the same for both contenders.
 */
import { Random } from './random.ts';
import type { Setting } from './setting.ts';
import type { VirtualTime } from './virtual-time.ts';
import { POOLS, SERVERS, TOOLS } from './workload.ts';

/** A run on a worker, as its site ends it. */
export interface RunAtSite {
  /** Kills it with the process it runs in. */
  kill(): void;
  /** Called when a server that it may need stopped working. */
  serverDied(name: string): void;
  /** True if the task changes files. */
  readonly writes: boolean;
}

export interface SiteEvents {
  crashed(site: Site): void;
  restarted(site: Site): void;
  /** Called when the worker can be reached again. */
  mended(site: Site): void;
}

const TIERS = ['haiku', 'haiku', 'sonnet', 'sonnet', 'sonnet', 'sonnet', 'opus', 'opus', 'unknown'] as const;
const RANKS: Readonly<Record<string, number>> = { haiku: 1, sonnet: 2, opus: 3, unknown: 2 };
/** Share of workers that have each server. */
const SERVER_SUPPLY = [0.85, 0.6, 0.5, 0.6, 0.4, 0.25, 0.25, 0.25];
const ILL_WORDS = ['timeout', 'error', 'auth_required'] as const;
const TIDY_AFTER_MS = 15 * 60_000;

export class Site {
  readonly index: number;
  readonly name: string;
  readonly tier: string;
  readonly rank: number;
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  readonly window: number | null;
  readonly overhead: number;
  readonly capacity: number;
  readonly pools: readonly string[];
  /** Says which of its servers are there before it spends anything. */
  readonly revealing: boolean;
  /** Time by which its wall clock is ahead. */
  readonly skewMs: number;
  /** Server → its real health. */
  readonly health = new Map<string, string>();
  readonly runs = new Set<RunAtSite>();
  up = true;
  cut = false;
  dirty: boolean;
  incarnation = 1;
  readonly #time: VirtualTime;
  readonly #faults: Setting['faults'];
  readonly #random: Random;
  #events: SiteEvents | undefined;
  #quiet = false;

  constructor(index: number, setting: Setting, time: VirtualTime) {
    const random = new Random(setting.seed).fork(1000 + index);
    this.index = index;
    this.name = `w-${index}`;
    this.tier = random.pick(TIERS);
    this.rank = RANKS[this.tier]!;
    this.servers = SERVERS.filter((_, at) => random.chance(SERVER_SUPPLY[at]!));
    this.tools = TOOLS.filter((_, at) => random.chance(at < 2 ? 0.97 : 0.7));
    this.window = random.chance(0.1) ? null : random.pick([128_000, 200_000, 200_000, 1_000_000]);
    this.overhead = 8000 + random.below(10_000);
    this.capacity = random.pick([2, 3, 3, 4]);
    this.pools = random.chance(0.8) ? ['main'] : POOLS;
    this.revealing = random.chance(0.5);
    const { faults } = setting;
    this.skewMs = random.chance(faults.skewed) ? random.between(-3_600_000, 3_600_000) : random.between(-400, 400);
    this.dirty = random.chance(0.03);
    const illShare = faults.illMs / (faults.wellMs + faults.illMs);
    for (const name of this.servers) this.health.set(name, random.chance(illShare) ? random.pick(ILL_WORDS) : 'ok');
    this.#time = time;
    this.#faults = faults;
    this.#random = random;
  }

  /** Lets faults happen from now on. */
  begin(events: SiteEvents): void {
    this.#events = events;
    const { crashEveryMs, cutEveryMs } = this.#faults;
    this.#plan(crashEveryMs, () => this.crash());
    this.#plan(cutEveryMs, () => this.#cutOff());
    for (const name of this.servers) this.#planHealth(name);
    if (this.dirty) this.#tidyLater();
  }

  /** Stops new faults; existing ones are repaired in their time. */
  calm(): void {
    this.#quiet = true;
  }

  get reachable(): boolean {
    return this.up && !this.cut;
  }

  /** Returns true if the worker lacks a requirement of a task now. */
  unmet(required: readonly string[], tools: readonly string[]): boolean {
    return required.some((name) => this.health.get(name) !== 'ok') || tools.some((name) => !this.tools.includes(name));
  }

  /** Kills its process, with all its work. */
  crash(): void {
    if (!this.up) return;
    this.up = false;
    for (const run of [...this.runs]) {
      if (run.writes && this.#random.chance(0.3)) this.dirty = true;
      run.kill();
    }
    this.#events?.crashed(this);
    const [least, most] = this.#faults.downMs;
    this.#time.after(this.#random.between(least, most), () => {
      this.up = true;
      this.incarnation += 1;
      if (this.dirty) this.#tidyLater();
      this.#events?.restarted(this);
    });
  }

  #cutOff(): void {
    if (this.cut) return;
    this.cut = true;
    const [least, most] = this.#faults.cutMs;
    this.#time.after(this.#random.between(least, most), () => {
      this.cut = false;
      this.#events?.mended(this);
    });
  }

  #tidyLater(): void {
    this.#time.after(this.#random.around(TIDY_AFTER_MS), () => {
      this.dirty = false;
    });
  }

  /** Plans a fault repeatedly, as long as faults may occur. */
  #plan(everyMs: number, happen: () => void): void {
    this.#time.after(this.#random.around(everyMs), () => {
      if (this.#quiet) return;
      happen();
      this.#plan(everyMs, happen);
    });
  }

  #planHealth(name: string): void {
    const ill = this.health.get(name) !== 'ok';
    this.#time.after(this.#random.around(ill ? this.#faults.illMs : this.#faults.wellMs), () => {
      if (!ill && this.#quiet) return;
      this.health.set(name, ill ? 'ok' : this.#random.pick(ILL_WORDS));
      if (!ill) for (const run of [...this.runs]) run.serverDied(name);
      this.#planHealth(name);
    });
  }
}

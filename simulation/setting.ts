/**
 * The setting of a simulation: its size, its load, and its faults. Every number of a report follows from this and the
 * seed.
 */

/** Faults. Times are milliseconds, shares 0…1. */
export interface Faults {
  /** A worker's process dies once in this time on average, and is away for between these. */
  readonly crashEveryMs: number;
  readonly downMs: readonly [number, number];
  /** An MCP server of a worker is well and ill for so long on average. */
  readonly wellMs: number;
  readonly illMs: number;
  /** A worker is cut off from the orchestrator once in this time on average, for between these; both continue. */
  readonly cutEveryMs: number;
  readonly cutMs: readonly [number, number];
  /** Number of workers whose clock is off, by up to an hour either way. */
  readonly skewed: number;
  /** Messages that never arrive, arrive twice, or arrive late by between these. */
  readonly lost: number;
  readonly twice: number;
  readonly late: number;
  readonly lateMs: readonly [number, number];
  /** Number of deaths of the orchestrator in a run, and the time it is away. */
  readonly restarts: number;
  readonly restartMs: readonly [number, number];
  /** Tasks that kill the process that runs them. */
  readonly poison: number;
  /** Runs that fail by themselves. */
  readonly failing: number;
}

export interface Setting {
  readonly seed: number;
  readonly workers: number;
  readonly tasks: number;
  /** Share of the fleet's capacity that tasks ask for on average; waves go above and below. */
  readonly load: number;
  /** Time a task needs at a worker of the right tier, on average. */
  readonly runMs: number;
  /** Tasks a user calls off at some moment. */
  readonly canceled: number;
  /** Tasks of which a second run does no harm. */
  readonly retrySafe: number;
  readonly faults: Faults;
  /** Steps between checks of all open tasks and all workers; single events are checked when they happen. */
  readonly sweepEvery: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A large fleet on an ordinary bad day. */
export const FULL: Setting = {
  seed: 1,
  workers: 1000,
  tasks: 50_000,
  load: 0.78,
  runMs: 75_000,
  canceled: 0.004,
  retrySafe: 0.5,
  faults: {
    crashEveryMs: 3 * HOUR,
    downMs: [15_000, 2 * MINUTE],
    wellMs: 3 * HOUR,
    illMs: 20 * MINUTE,
    cutEveryMs: 4 * HOUR,
    cutMs: [20_000, 3 * MINUTE],
    skewed: 0.03,
    lost: 0.003,
    twice: 0.003,
    late: 0.002,
    lateMs: [2000, 60_000],
    restarts: 3,
    restartMs: [3000, 20_000],
    poison: 0.0001,
    failing: 0.02,
  },
  sweepEvery: 5000,
};

/** Returns a few workers for which everything fails all the time; one of many seeds. */
export function tiny(seed: number): Setting {
  return {
    ...FULL,
    seed,
    workers: 3 + (seed % 7),
    tasks: 24 + (seed % 17),
    load: 0.5 + (seed % 5) * 0.2,
    runMs: 40_000,
    canceled: 0.08,
    faults: {
      crashEveryMs: 8 * MINUTE,
      downMs: [2000, 90_000],
      wellMs: 6 * MINUTE,
      illMs: 2 * MINUTE,
      cutEveryMs: 6 * MINUTE,
      cutMs: [5000, 2 * MINUTE],
      skewed: 0.3,
      lost: 0.06,
      twice: 0.06,
      late: 0.06,
      lateMs: [1000, 90_000],
      restarts: 2,
      restartMs: [500, 60_000],
      poison: 0.03,
      failing: 0.05,
    },
    sweepEvery: 1,
  };
}

/** Returns a few workers with far more work than they can do, and few faults: a test of turns. */
export function crowded(seed: number): Setting {
  const setting = tiny(seed);
  const rare = 10 * HOUR;
  const faults = { ...setting.faults, crashEveryMs: rare, cutEveryMs: rare, wellMs: rare, restarts: 1 };
  return { ...setting, workers: 6, tasks: 120, load: 3, faults };
}

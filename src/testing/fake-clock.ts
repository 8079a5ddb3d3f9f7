/**
 * Time that a test moves: wall clock, monotonic clock and timers of one shot, all moved by `advance`.
 */
import { setImmediate as turn } from 'node:timers/promises';

interface Timer {
  readonly at: number;
  readonly number: number;
  readonly run: () => void;
}

/** Milliseconds everywhere. Its members fit the options `now`, `monotonic` and `timer` of orchestrators and workers. */
export interface FakeClock {
  /** Returns epoch milliseconds. */
  readonly now: () => number;
  /** Returns the milliseconds since the clock was created. */
  readonly monotonic: () => number;
  /** Sets a timer of one shot and returns the function that clears it. */
  readonly timer: (run: () => void, ms: number) => () => void;
  /** Timers that are set. */
  readonly timers: number;
  /** Moves time, timer by timer: the consequences of one timer have happened before the next one fires. */
  advance(ms: number): Promise<void>;
}

export interface FakeClockOptions {
  /** Wall clock at the start, epoch milliseconds. Default noon of 2026-06-01, UTC. */
  readonly startMs?: number;
  /** Resolves when everything that needs no time has happened. Default: a few turns of the event loop. */
  readonly settle?: () => Promise<void>;
}

/** Turns of the event loop that promises and streams in memory need to settle. */
const SETTLE_TURNS = 4;

async function turns(): Promise<void> {
  for (let n = 0; n < SETTLE_TURNS; n += 1) await turn();
}

/** Returns a clock that does not move by itself. */
export function fakeClock(options: FakeClockOptions = {}): FakeClock {
  const { startMs = Date.UTC(2026, 5, 1, 12), settle = turns } = options;
  const timers = new Set<Timer>();
  let elapsedMs = 0;
  let made = 0;
  const due = (end: number): Timer | undefined =>
    [...timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at || one.number - other.number)[0];
  return {
    now: () => startMs + elapsedMs,
    monotonic: () => elapsedMs,
    timer(run, ms) {
      const timer = { at: elapsedMs + Math.max(0, ms), number: made++, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    get timers() {
      return timers.size;
    },
    async advance(ms) {
      const end = elapsedMs + ms;
      await settle();
      for (let next = due(end); next !== undefined; next = due(end)) {
        timers.delete(next);
        elapsedMs = Math.max(elapsedMs, next.at);
        next.run();
        await settle();
      }
      elapsedMs = end;
      await settle();
    },
  };
}

/** Adds return, length and duration to the info of the step that ends an episode, as Gymnasium's `RecordEpisodeStatistics`. */
import type { Environment } from '../environment.ts';
import { wrap } from './wrap.ts';

export interface StatisticsOptions {
  /** The member of `info`. */
  readonly key?: string;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

/** Adds `info.episode` to the last step: `r` the sum of rewards, `l` the number of steps, `t` the seconds since the reset. */
export function episodeStatistics(
  inner: Environment,
  { key = 'episode', now = () => performance.now() }: StatisticsOptions = {},
): Environment {
  let total = 0;
  let length = 0;
  let startedAt = now();
  return wrap(inner, {
    onReset(start) {
      total = 0;
      length = 0;
      startedAt = now();
      return start;
    },
    onStep(step) {
      total += step.reward;
      length += 1;
      if (!step.terminated && !step.truncated) return step;
      const seconds = Math.round((now() - startedAt) * 1000) / 1e6;
      return { ...step, info: { ...step.info, [key]: { r: total, l: length, t: seconds } } };
    },
    save: () => ({ total, length, elapsedMs: now() - startedAt }),
    load: (state) => {
      total = Number(state.total);
      length = Number(state.length);
      startedAt = now() - Number(state.elapsedMs);
    },
  });
}

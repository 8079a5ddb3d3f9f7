/** Truncates an episode after a number of steps, as Gymnasium's `TimeLimit` does. Applied to every kind that has a limit. */
import type { Environment } from '../environment.ts';
import { wrap } from './wrap.ts';

/** Returns the environment with at most `maxSteps` steps in an episode. */
export function timeLimit(inner: Environment, maxSteps: number): Environment {
  let steps = 0;
  return wrap(inner, {
    onReset(start) {
      steps = 0;
      return start;
    },
    onStep(step) {
      steps += 1;
      return steps < maxSteps ? step : { ...step, truncated: true };
    },
    save: () => ({ steps }),
    load: (state) => {
      steps = Number(state.steps);
    },
  });
}

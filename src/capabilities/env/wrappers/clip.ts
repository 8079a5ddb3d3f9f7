/** Keeps actions or rewards within bounds, as Gymnasium's `ClipAction` and `ClipReward`. */
import type { Environment } from '../environment.ts';
import { failure } from '../errors.ts';
import { Box } from '../spaces/box.ts';
import { flatten, nest } from '../spaces/numbers.ts';
import { wrap } from './wrap.ts';

/** Accepts actions of any size and brings them to the bounds of the action space, which is a Box. */
export function clipAction(inner: Environment): Environment {
  const space = inner.actionSpace;
  if (!(space instanceof Box))
    throw failure('invalid_options', `clip_action needs a Box of actions; this environment has ${space.kind}`);
  const { shape, dtype, low, high } = space;
  return wrap(inner, {
    actionSpace: new Box(-Infinity, Infinity, { shape, dtype }),
    action(action) {
      const flat = flatten(action, shape);
      // The environment refuses a value that is no array of this shape.
      if (flat === undefined) return action;
      return nest(
        flat.map((value, at) => Math.min(Math.max(value, low[at]!), high[at]!)),
        shape,
      );
    },
  });
}

/** Brings rewards to at least `min` and at most `max`. */
export function clipReward(inner: Environment, { min = -Infinity, max = Infinity }): Environment {
  if (min > max) throw failure('invalid_options', `clip_reward needs min not above max; got ${min} and ${max}`);
  return wrap(inner, { onStep: (step) => ({ ...step, reward: Math.min(Math.max(step.reward, min), max) }) });
}

/** Shows the newest observations together, as Gymnasium's `FrameStackObservation`. */
import type { Environment } from '../environment.ts';
import { failure } from '../errors.ts';
import { Box } from '../spaces/box.ts';
import { Discrete } from '../spaces/discrete.ts';
import { MultiBinary } from '../spaces/multi-binary.ts';
import { MultiDiscrete } from '../spaces/multi-discrete.ts';
import { nest } from '../spaces/numbers.ts';
import type { Space } from '../spaces/space.ts';
import { wrap } from './wrap.ts';

export interface FrameStackOptions {
  readonly size: number;
  /** Padding before the first observation of an episode: that observation again, or zeros. */
  readonly padding?: 'reset' | 'zero';
}

/** Makes observations arrays of the newest `size`, the oldest first. For Box, Discrete, MultiBinary and MultiDiscrete. */
export function frameStack(inner: Environment, { size, padding = 'reset' }: FrameStackOptions): Environment {
  const space = inner.observationSpace;
  if (!isStackable(space))
    throw failure('invalid_options', `frame_stack needs observations of numbers; this environment has ${space.kind}`);
  const shape = 'shape' in space ? space.shape : [];
  const zero = nest(new Array<number>(shape.reduce((count, length) => count * length, 1)).fill(0), shape);
  let frames: unknown[] = [];
  return wrap(inner, {
    observationSpace: space.batched(size),
    onReset(start) {
      const before = padding === 'zero' ? zero : start.observation;
      frames = [...new Array<unknown>(size - 1).fill(before), start.observation];
      return { ...start, observation: [...frames] };
    },
    onStep(step) {
      frames = [...frames.slice(1), step.observation];
      return { ...step, observation: [...frames] };
    },
    save: () => ({ frames }),
    load: (state) => {
      frames = [...(state.frames as unknown[])];
    },
  });
}

const isStackable = (space: Space): space is Space & (Box | Discrete | MultiBinary | MultiDiscrete) =>
  space instanceof Box || space instanceof Discrete || space instanceof MultiBinary || space instanceof MultiDiscrete;

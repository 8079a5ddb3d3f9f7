/** Passes every start and step to a recorder, unchanged, for datasets of episodes. */
import type { Environment, ResetRequest, Start, Step } from '../environment.ts';
import { wrap } from './wrap.ts';

/** Receives starts and steps, in order. */
export interface EpisodeRecorder {
  started(start: Start, request: ResetRequest): void;
  stepped(action: unknown, step: Step): void;
}

/** Returns the environment with a recorder. */
export function record(inner: Environment, recorder: EpisodeRecorder): Environment {
  return wrap(inner, {
    onReset(start, request) {
      recorder.started(start, request);
      return start;
    },
    onStep(step, action) {
      recorder.stepped(action, step);
      return step;
    },
  });
}

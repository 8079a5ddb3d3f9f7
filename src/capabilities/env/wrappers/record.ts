/** Passes every start and step to a recorder, unchanged: what datasets of episodes are made from. */
import type { Environment, ResetRequest, Start, Step } from '../environment.ts';
import { wrap } from './wrap.ts';

/** Receives what happens, in order. */
export interface EpisodeRecorder {
  started(start: Start, request: ResetRequest): void;
  stepped(action: unknown, step: Step): void;
}

/** The same environment, watched. */
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

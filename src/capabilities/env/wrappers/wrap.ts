/**
 * What all wrappers share: an environment around another one, which changes actions, starts and steps on their way. Results of
 * an environment that returns at once are changed at once; promises are waited for.
 */
import type { JsonObject } from '../../../wire/json.ts';
import { membersOf } from '../../../wire/json.ts';
import {
  type Environment,
  type RenderMode,
  type ResetRequest,
  type Soon,
  type Start,
  type Step,
  then,
} from '../environment.ts';
import type { Space } from '../spaces/space.ts';

/** What one wrapper changes; everything else passes through. */
export interface WrapperParts {
  readonly actionSpace?: Space;
  readonly observationSpace?: Space;
  /** The action that the inner environment gets. */
  action?(action: unknown): unknown;
  onReset?(start: Start, request: ResetRequest): Start;
  onStep?(step: Step, action: unknown): Step;
  /** The wrapper's own state, as JSON, and back. */
  save?(): JsonObject;
  load?(state: JsonObject): void;
  close?(): Soon<void>;
}

/** An environment with these changes around `inner`. It has snapshots if `inner` has them. */
export function wrap(inner: Environment, parts: WrapperParts): Environment {
  const { renderModes, render, snapshot, restore, affordances, generator, continueFrom } = inner;
  return {
    actionSpace: parts.actionSpace ?? inner.actionSpace,
    observationSpace: parts.observationSpace ?? inner.observationSpace,
    reset(request = {}) {
      const start = inner.reset(request);
      return parts.onReset === undefined ? start : then(start, (value) => parts.onReset!(value, request));
    },
    step(action, call) {
      const step = inner.step(parts.action === undefined ? action : parts.action(action), call);
      return parts.onStep === undefined ? step : then(step, (value) => parts.onStep!(value, action));
    },
    ...(renderModes && { renderModes }),
    ...(render && { render: (mode: RenderMode) => render.call(inner, mode) }),
    ...(affordances && { affordances: () => affordances.call(inner) }),
    ...(snapshot && { snapshot: () => ({ wrapper: parts.save?.() ?? {}, inner: snapshot.call(inner) }) }),
    ...(restore && {
      restore: (state: JsonObject) => {
        restore.call(inner, membersOf(state.inner));
        parts.load?.(membersOf(state.wrapper));
      },
    }),
    ...(generator && { generator: () => generator.call(inner) }),
    ...(continueFrom && { continueFrom: (state: string) => continueFrom.call(inner, state) }),
    close: () => then(parts.close?.(), () => inner.close?.()) as Soon<void>,
  };
}

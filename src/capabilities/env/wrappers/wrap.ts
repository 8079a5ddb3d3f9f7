/**
 * The common part of all wrappers: an environment around another one, which changes passing actions, starts and steps. Results
 * of an environment that returns at once are changed at once; promises are awaited.
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

/** The changes of one wrapper; everything else passes through. */
export interface WrapperParts {
  readonly actionSpace?: Space;
  readonly observationSpace?: Space;
  /** Returns the action for the inner environment. */
  action?(action: unknown): unknown;
  onReset?(start: Start, request: ResetRequest): Start;
  onStep?(step: Step, action: unknown): Step;
  /** Returns the wrapper's own state as JSON; `load` restores it. */
  save?(): JsonObject;
  load?(state: JsonObject): void;
  close?(): Soon<void>;
}

/** Returns an environment with these changes around `inner`. It has snapshots if `inner` has them. */
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

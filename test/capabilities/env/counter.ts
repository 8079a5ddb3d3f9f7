/**
 * An environment for tests: counts up and down, optionally late, with a separate generator. The numbers 0 and 1 are its
 * actions.
 */
import type { Environment, EnvironmentKind } from '../../../src/capabilities/env/environment.ts';
import type { Space } from '../../../src/capabilities/env/spaces/space.ts';

/** Returns the space of the integers from 0 to `n - 1`, written by hand: the tests of the wire need no more. */
const integers = (n: number): Space<number> => ({
  kind: 'Discrete',
  describe: () => ({ type: 'Discrete', n, start: 0 }),
  jsonSchema: () => ({ type: 'integer', minimum: 0, maximum: n - 1 }),
  contains: (value): value is number => Number.isInteger(value) && (value as number) >= 0 && (value as number) < n,
  sampler(seed) {
    const draw = generator(seed ?? 1);
    return () => draw() % n;
  },
  toWire: (value) => value,
  fromWire: (value) =>
    (Number.isInteger(value) && (value as number) >= 0 && (value as number) < n ? value : undefined) as number,
});

/** Returns a small linear generator whose state is one number. */
function generator(seed: number): (() => number) & { state: number } {
  const draw = Object.assign(
    () => {
      draw.state = (draw.state * 1103515245 + 12345) % 2147483648;
      return draw.state >> 8;
    },
    { state: seed },
  );
  return draw;
}

export interface CounterOptions {
  /** The count that ends the episode. */
  readonly target?: number;
  /** True: results are promises. */
  readonly late?: boolean;
  /** The step that throws. */
  readonly breaksAt?: number;
}

/** Environments that were made and not closed. */
export const open = new Set<Environment>();

function counter({ target = 3, late = false, breaksAt }: CounterOptions): Environment {
  let draw = generator(1);
  let count = 0;
  let steps = 0;
  const soon = <Value>(value: Value): Value | Promise<Value> =>
    late ? new Promise((resolve) => setImmediate(() => resolve(value))) : value;
  const environment: Environment = {
    actionSpace: integers(2),
    observationSpace: integers(1000),
    renderModes: ['ansi', 'rgb_array'],
    reset({ seed, options } = {}) {
      if (seed !== null && seed !== undefined) draw = generator(seed);
      count = Number(options?.start ?? draw() % 2);
      steps = 0;
      return soon({ observation: count, info: { drawn: draw.state } });
    },
    step(action) {
      steps += 1;
      if (steps === breaksAt) throw new Error('the counter broke');
      count = Math.max(0, count + (action === 1 ? 1 : -1));
      const observation = count;
      return soon({
        observation,
        reward: observation / 2,
        terminated: observation >= target,
        truncated: false,
        info: { draw: draw() },
      });
    },
    render: (mode) =>
      mode === 'ansi' ? `count ${count}` : { width: 2, height: 1, pixels: new Uint8Array([255, 0, 0, 0, 0, 255]) },
    affordances: () => [{ action: 1, description: 'count up' }],
    snapshot: () => ({ state: draw.state, count, steps }),
    restore(snapshot) {
      draw = generator(Number(snapshot.state));
      count = Number(snapshot.count);
      steps = Number(snapshot.steps);
    },
    close() {
      open.delete(environment);
    },
  };
  open.add(environment);
  return environment;
}

export const counterKind: EnvironmentKind = {
  id: 'Counter-v0',
  about: 'Counts up and down',
  maxEpisodeSteps: 20,
  makeOptions: {
    type: 'object',
    properties: { target: { type: 'integer' }, late: { type: 'boolean' }, breaksAt: { type: 'integer' } },
    additionalProperties: false,
  },
  resetOptions: { type: 'object', properties: { start: { type: 'integer' } } },
  make: (options) => counter(options as CounterOptions),
};

export const programKind: EnvironmentKind = { ...counterKind, id: 'Program-v0', runsCode: true };

/**
 * A host with environments for the tests over every transport: numbers that JSON lacks, steps that wait. Run as a program, it
 * speaks on stdin and stdout.
 */
import type { Environment, EnvironmentKind } from '../../../src/capabilities/env/environment.ts';
import { envPlugin } from '../../../src/capabilities/env/plugin.ts';
import { environmentKinds } from '../../../src/capabilities/env/registry.ts';
import { spaceOf } from '../../../src/capabilities/env/spaces/space-of.ts';
import { createHost, type Host } from '../../../src/host/host.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { stdioLink } from '../../../src/transport/stdio.ts';
import { counterKind } from './counter.ts';

const none = { type: 'object', properties: {}, additionalProperties: false };

/** Observes every number that JSON does not have. */
const oddKind: EnvironmentKind = {
  id: 'Odd-v0',
  about: 'Numbers that JSON does not have',
  makeOptions: none,
  resetOptions: { type: 'object' },
  make: (): Environment => {
    const bounds = { low: '-Infinity', high: 'Infinity', shape: [2], dtype: 'float32' };
    const box = spaceOf({ type: 'Box', ...bounds });
    const start = { observation: [Number.POSITIVE_INFINITY, Math.fround(0.1)], info: {} };
    return {
      actionSpace: box,
      observationSpace: box,
      renderModes: [],
      reset: () => start,
      step: (action) => ({
        observation: [Number.NaN, (action as number[])[0]],
        reward: Number.NaN,
        terminated: false,
        truncated: false,
        info: {},
      }),
      render: () => '',
    };
  },
};

/**
 * Durations of a step of {@link slowKind}, by action: at once; in the middle of a cut; until it is aborted, or longer than
 * that.
 */
const STEP_MS = [0, 300, 60_000, 1_500] as const;

/** Steps take time. Those of action 2 end when they are aborted, and then did not happen; the others continue. */
const slowKind: EnvironmentKind = {
  id: 'Slow-v0',
  about: 'Steps that take time',
  makeOptions: none,
  resetOptions: { type: 'object' },
  make: (): Environment => {
    let steps = 0;
    return {
      actionSpace: spaceOf({ type: 'Discrete', n: STEP_MS.length }),
      observationSpace: spaceOf({ type: 'Discrete', n: 1_000_000 }),
      renderModes: [],
      reset() {
        steps = 0;
        return { observation: 0, info: {} };
      },
      async step(action, call) {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, STEP_MS[action as 0]);
        if (action === 2) call?.signal.addEventListener('abort', () => reject(call.signal.reason), { once: true });
        try {
          await promise;
        } finally {
          clearTimeout(timer);
        }
        steps += 1;
        return { observation: steps, reward: 1, terminated: false, truncated: false, info: {} };
      },
      render: () => '',
    };
  },
};

/** @param resumable false: no journal, so that a lost link ends the session */
export async function wireHost(resumable = true): Promise<Host> {
  const kinds = [...environmentKinds, counterKind, oddKind, slowKind];
  const plugins = [envPlugin({ environments: kinds, durability: 'none', storedSteps: 5 })];
  const host = createHost({ plugins, ...(resumable && { journal: memoryJournal() }) });
  await host.start();
  return host;
}

if (import.meta.main) {
  const link = stdioLink();
  const host = await wireHost();
  host.accept(link);
}

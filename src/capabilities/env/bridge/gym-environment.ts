/**
 * Environments of the user's Python as environments of the host. Each is a separate process (`process.ts`), started when the
 * environment is made. They run code, so that only the configuration offers them and only a grant by name allows them.
 *
 * Values pass as JSON in both directions: the spaces check actions, and values from Python are not decoded further.
 */
import { isDeepStrictEqual } from 'node:util';
import { counted } from '../../../base/counted.ts';
import type { HandfastError } from '../../../wire/errors.ts';
import { isObject, type JsonObject, membersOf } from '../../../wire/json.ts';
import { type CheckReport, type CheckRule, DETERMINISM, finding, type GymnasiumVerdict } from '../check/findings.ts';
import type { Environment, EnvironmentKind, RenderMode } from '../environment.ts';
import { failure } from '../errors.ts';
import { limitReached } from '../refusals.ts';
import type { Image } from '../rendering/image.ts';
import { numberFromWire } from '../spaces/numbers.ts';
import type { Space } from '../spaces/space.ts';
import { spaceOf } from '../spaces/space-of.ts';
import { GymProcess } from './process.ts';

/** One environment of Python that the host offers. */
export interface GymEnvironmentOptions {
  /** Argument of `gymnasium.make`: `CartPole-v1`, or `module:Env-v0`. */
  readonly name: string;
  /** Value of `env_name`. Default: `gym/` and the name. */
  readonly id?: string;
  /** Python's keyword arguments of `make`, below those of a request. */
  readonly make?: JsonObject;
  /** A module that is imported first, because it registers the environment. */
  readonly module?: string;
  /** The Python that has gymnasium. Default `python3`. */
  readonly python?: string;
  /** Names of variables that its process inherits. */
  readonly inherits?: readonly string[];
}

export interface GymLimits {
  /** Maximum number of concurrent processes. */
  readonly maxProcesses: number;
  /** Longest wait for a reply of Python, milliseconds. */
  readonly replyMs: number;
}

/** Returns the kinds of several environments; they share one limit of processes. */
export function gymKinds(environments: readonly GymEnvironmentOptions[], limits: GymLimits): EnvironmentKind[] {
  const { maxProcesses, replyMs } = limits;
  let running = 0;
  return environments.map((options): EnvironmentKind => {
    const { name, id = `gym/${name}`, make = {}, module, python = 'python3', inherits = [] } = options;
    const bodyOf = (given: JsonObject): JsonObject => {
      if (given.render_mode === WINDOW && make.render_mode !== WINDOW) throw opensWindow(id);
      return { name, options: { ...make, ...given }, ...(module !== undefined && { module }) };
    };
    const start = (): Promise<GymProcess> => {
      if (running >= maxProcesses) {
        throw limitReached(
          `${counted(maxProcesses, 'environment runs in its process', 'environments run in separate processes')} already; close one`,
          {
            max_processes: maxProcesses,
          },
        );
      }
      running += 1;
      const onEnd = (): void => {
        running -= 1;
      };
      return GymProcess.start({ python, inherits, replyMs, onEnd });
    };
    return {
      id,
      about: `${name} of Gymnasium, in a process of ${python}`,
      makeOptions: { type: 'object', description: 'keyword arguments of gymnasium.make' },
      resetOptions: { type: 'object', description: 'options of reset' },
      runsCode: true,
      async make(given) {
        const body = bodyOf(given);
        const process = await start();
        try {
          return gymEnvironment(process, await process.call('make', body));
        } catch (thrown) {
          await process.close();
          throw thrown;
        }
      },
      async check(given, { seed, steps, signal }) {
        const body = { ...bodyOf(given), seed, steps };
        await using first = await start();
        // Without a second process, the faults that it would find are not found.
        await using second = running < maxProcesses ? await start() : undefined;
        signal?.addEventListener('abort', () => void Promise.all([first.close(), second?.close()]), { once: true });
        // In two processes the hashes of texts differ, and with them the order of sets.
        const again = second?.call('trace', body).catch(() => undefined);
        return reportOf(await first.call('check', body), await again);
      },
    };
  });
}

/** The mode of Gymnasium that draws into a window of the machine on which the environment runs. */
const WINDOW = 'human';

/** Callers are on other machines: the configuration of the host decides whether windows open on it. */
const opensWindow = (id: string): HandfastError =>
  failure(
    'invalid_options',
    `render_mode "${WINDOW}" would open a window on the machine of the host; use "rgb_array" or "ansi", or let its configuration make ${id} with render_mode: ${WINDOW}`,
    { path: '/render_mode' },
  );

/** Combines the reports of two processes: the checks of one, and the comparison of both traces. */
function reportOf(checked: JsonObject, again: JsonObject = { trace: [] }): CheckReport {
  const findings = (checked.findings as readonly { rule: CheckRule; step: number | null; found: string }[]).map(
    ({ rule, step, found }) => finding(rule, step, found),
  );
  const [one, other] = [checked.trace, again.trace] as (readonly unknown[])[];
  const at = (other ?? []).findIndex((move, index) => !isDeepStrictEqual(move, one?.[index]));
  // An environment that differs in one process also differs in two.
  if (at >= 0 && !findings.some(({ rule }) => DETERMINISM.includes(rule))) {
    findings.push(finding('other-process', at, 'another process had another result'));
  }
  const gymnasium = checked.gymnasium as GymnasiumVerdict;
  if (gymnasium.problem !== null && findings.length === 0) {
    findings.push(finding('gymnasium', null, gymnasium.problem));
  }
  return { findings, gymnasium };
}

function gymEnvironment(process: GymProcess, made: JsonObject): Environment {
  const actionSpace = spaceOf(made.action_space);
  const renderModes: readonly RenderMode[] =
    made.render_mode === 'ansi' || made.render_mode === 'rgb_array' ? [made.render_mode] : [];
  return {
    actionSpace,
    observationSpace: asSent(spaceOf(made.observation_space)),
    renderModes,
    async reset({ seed = null, options = {} } = {}) {
      const { observation, info } = await process.call('reset', { seed, options });
      return { observation, info: membersOf(info) };
    },
    async step(action) {
      const reply = await process.call('step', { action: actionSpace.toWire(action) });
      return {
        observation: reply.observation,
        reward: numberFromWire(reply.reward) ?? Number.NaN,
        terminated: reply.terminated === true,
        truncated: reply.truncated === true,
        info: membersOf(reply.info),
      };
    },
    async render() {
      const reply = await process.call('render');
      return isObject(reply) && typeof reply.text === 'string' ? reply.text : imageFrom(reply);
    },
    generator: async () => String((await process.call('generator')).state),
    async continueFrom(state) {
      await process.call('continue', { state });
    },
    close: () => process.close(),
  };
}

/** Returns a space whose values in memory equal their JSON: values from Python pass unchanged. */
function asSent(space: Space): Space {
  return {
    kind: space.kind,
    describe: () => space.describe(),
    jsonSchema: () => space.jsonSchema(),
    contains: (value): value is unknown => space.fromWire(value) !== undefined,
    sampler(seed) {
      const sample = space.sampler(seed);
      return (mask) => space.toWire(sample(mask));
    },
    toWire: (value) => value,
    fromWire: (value) => (space.fromWire(value) === undefined ? undefined : value),
  };
}

const imageFrom = ({ width, height, pixels }: JsonObject): Image => ({
  width: Number(width),
  height: Number(height),
  pixels: Buffer.from(String(pixels), 'base64'),
});

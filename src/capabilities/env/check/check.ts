/**
 * Checks an environment of this process: plays it several times with one seed and compares, and inspects everything it returns.
 * It finds the faults that Gymnasium's checker finds, over whole episodes, and faults that a single inspection does not show:
 * data that is changed after several steps, state that is shared with the caller, pictures that advance the generator,
 * snapshots that lose state.
 *
 * Hosts run it for `env/check/req`, authors in their tests. Each rule is in `findings.ts`.
 */
import { isDeepStrictEqual } from 'node:util';
import { isObject, type JsonObject } from '../../../wire/json.ts';
import type { Environment, EnvironmentKind } from '../environment.ts';
import { makeEnvironment } from '../registry.ts';
import type { Image } from '../rendering/image.ts';
import type { Space } from '../spaces/space.ts';
import { spaceOf } from '../spaces/space-of.ts';
import { type CheckReport, type CheckRequest, type CheckRule, DETERMINISM, Findings } from './findings.ts';
import { firstDifference, type Move, MoveFailed, type RolloutParts, rollout, shown, type Trace } from './rollout.ts';

export const DEFAULT_STEPS = 200;
/** Default for environments that run programs: a step may take seconds. */
export const DEFAULT_PROGRAM_STEPS = 20;
export const MAX_STEPS = 1000;

/** Number of elements drawn from each space. */
const SAMPLES = 20;
/** Number of results that are compared again later. */
const MAX_REMEMBERED = 64;
/** Every n-th move is drawn, and continued from a snapshot. */
const RENDER_EVERY = 5;
const SNAPSHOT_EVERY = 7;

/**
 * Checks a new environment, without its time limit. Rejects with `env.invalid_options` when it cannot be made with `make`, and
 * with the reason of `signal`.
 *
 * @param make arguments of its construction
 */
export async function checkEnvironment(
  kind: EnvironmentKind,
  make: JsonObject = {},
  {
    seed = 0,
    steps = kind.runsCode === true && kind.check === undefined ? DEFAULT_PROGRAM_STEPS : DEFAULT_STEPS,
    signal,
  }: Partial<CheckRequest> = {},
): Promise<CheckReport> {
  const request = { seed, steps, signal };
  if (kind.check !== undefined) return kind.check(make, request);
  await using check = new Check(kind, make, request);
  await check.run();
  return { findings: check.findings.all };
}

class Check implements AsyncDisposable {
  readonly findings = new Findings();
  readonly #kind: EnvironmentKind;
  readonly #make: JsonObject;
  readonly #request: CheckRequest;
  readonly #made: Environment[] = [];
  /** The actions of the first rollout, for the others to repeat. */
  readonly #actions = new Map<number, unknown>();

  constructor(kind: EnvironmentKind, make: JsonObject, request: CheckRequest) {
    this.#kind = kind;
    this.#make = make;
    this.#request = request;
  }

  async run(): Promise<void> {
    const { findings } = this;
    const first = await this.#environment();
    if (!this.#spaces(first)) return;
    const trace = await this.#first(first);
    // Results of another form cannot be compared.
    if (trace !== undefined && !findings.has('result', 'raises')) {
      if (this.#kind.nondeterministic !== true) await this.#compare(first, trace);
      if (!findings.has(...DETERMINISM, 'reuse')) await this.#snapshots();
    }
    await this.#render(trace);
    await this.#close();
  }

  /** Makes a fresh environment; `run` closes all of them. */
  async #environment(): Promise<Environment> {
    const environment = await makeEnvironment(this.#kind, this.#make, { timeLimit: false });
    this.#made.push(environment);
    return environment;
  }

  /** Returns true when the environment has usable spaces. */
  #spaces({ actionSpace, observationSpace }: Environment): boolean {
    const problem = spaceProblem('action', actionSpace) ?? spaceProblem('observation', observationSpace);
    if (problem !== undefined) this.findings.add('spaces', null, problem);
    return problem === undefined;
  }

  /** Plays, and inspects each result; undefined when a failure ended the rollout. */
  async #first(environment: Environment): Promise<Trace | undefined> {
    const sample = environment.actionSpace.sampler(this.#request.seed);
    const remembered: { readonly at: number; readonly result: unknown; readonly text: string }[] = [];
    const mustBeTheSame = (): void => {
      const { at, result, text } = remembered.shift()!;
      const now = textOf(result);
      if (now !== text) this.findings.add('reuse', at, `step ${at} returned ${text}, which is ${now} by now`);
    };
    const trace = await this.#rollout(environment, {
      action: (at) => {
        const action = this.#action(environment, at, sample);
        this.#actions.set(at, copyOf(action));
        return action;
      },
      onMove: (move) => {
        this.#look(move, environment.observationSpace);
        const given = this.#actions.get(move.at);
        if (!isDeepStrictEqual(given, move.action))
          this.findings.add('action-changed', move.at, `it was ${shown(given)}, and is ${shown(move.action)}`);
        remembered.push({ at: move.at, result: move.result, text: textOf(move.result) });
        if (remembered.length > MAX_REMEMBERED) mustBeTheSame();
        return !this.findings.has('result');
      },
    });
    while (remembered.length > 0) mustBeTheSame();
    return trace;
  }

  /** Returns samples and suggestions in turn: samples alone hardly make progress in a task of many steps. */
  #action(environment: Environment, at: number, sample: () => unknown): unknown {
    const drawn = sample();
    const suggested = environment.affordances?.() ?? [];
    const { actionSpace } = environment;
    for (const { action, description } of suggested) {
      if (!actionSpace.contains(action))
        this.findings.add(
          'suggestions',
          at,
          `${description}: ${shown(action)} is not in ${shown(actionSpace.describe())}`,
        );
    }
    const chosen = at % 2 === 0 ? undefined : suggested[(at >> 1) % Math.max(1, suggested.length)]?.action;
    return chosen !== undefined && actionSpace.contains(chosen) ? chosen : drawn;
  }

  #look({ at, kind, result }: Move, space: Space): void {
    const { findings } = this;
    const expected =
      kind === 'reset' ? ['observation', 'info'] : ['observation', 'reward', 'terminated', 'truncated', 'info'];
    const missing = isObject(result) ? expected.filter((name) => !(name in result)) : expected;
    if (missing.length > 0)
      return findings.add('result', at, `${kind} returned ${shown(result)}, without ${missing.join(', ')}`);
    const { observation, reward, terminated, truncated, info } = result as JsonObject;
    if (!space.contains(observation))
      findings.add('observation', at, `${shown(observation)} is not in ${shown(space.describe())}`);
    else if (!isDeepStrictEqual(space.fromWire(space.toWire(observation)), observation))
      findings.add('dtype', at, `${shown(observation)} arrives as ${shown(space.fromWire(space.toWire(observation)))}`);
    if (!isPlain(info)) findings.add('info', at, shown(info));
    if (kind === 'reset') return;
    if (typeof reward !== 'number' || !Number.isFinite(reward)) findings.add('reward', at, shown(reward));
    if (typeof terminated !== 'boolean' || typeof truncated !== 'boolean')
      findings.add('flags', at, `terminated ${shown(terminated)}, truncated ${shown(truncated)}`);
  }

  /** Plays again with the same seed and actions: in a fresh environment, in the used one, and with a caller that writes. */
  async #compare(first: Environment, trace: Trace): Promise<void> {
    const { findings } = this;
    const fresh = firstDifference(trace, await this.#again(await this.#environment()));
    if (fresh !== undefined) return findings.add(determinismRule(fresh), fresh.at, fresh.found);
    const used = firstDifference(trace, await this.#again(first));
    if (used !== undefined) findings.add('leftover', used.at, used.found);
    if (findings.has('reuse')) return;
    const written = firstDifference(
      trace,
      await this.#again(await this.#environment(), {
        onMove({ result, action }) {
          const { observation, info } = result as JsonObject;
          for (const part of [observation, info, action]) overwrite(part);
          return true;
        },
      }),
    );
    if (written !== undefined)
      findings.add('owned', written.at, `after the caller wrote into what it had: ${written.found}`);
  }

  async #snapshots(): Promise<void> {
    const environment = await this.#environment();
    if (environment.snapshot === undefined) return;
    const other = await this.#environment();
    let failure: string | undefined;
    let saved = false;
    const trace = await this.#again(environment, {
      onMove: async ({ at, kind, result, action }) => {
        if (saved && kind === 'step' && this.#kind.nondeterministic !== true) {
          const continued = await other.step(copyOf(action));
          const [one, two] = [shown(continued), shown(result)];
          if (one !== two) failure = `step ${at} led to ${two}, and to ${one} after the snapshot before it`;
        }
        saved = false;
        if (failure !== undefined) this.findings.add('snapshot', at, failure);
        if (at % SNAPSHOT_EVERY !== 0) return failure === undefined;
        const snapshot = environment.snapshot!();
        const sent = JSON.parse(JSON.stringify(snapshot)) as JsonObject;
        if (!isDeepStrictEqual(sent, snapshot)) failure = `${shown(snapshot)} arrives as ${shown(sent)}`;
        else other.restore?.(sent);
        saved = failure === undefined;
        if (failure !== undefined) this.findings.add('snapshot', at, failure);
        return failure === undefined;
      },
    });
    if (trace.length === 0) this.findings.add('snapshot', null, 'nothing could be played');
  }

  async #render(trace: Trace | undefined): Promise<void> {
    const environment = await this.#environment();
    const { renderModes = [] } = environment;
    if (renderModes.length === 0 || trace === undefined) return;
    const drawn = await this.#again(environment, {
      onMove: async ({ at }) => {
        if (at % RENDER_EVERY !== 0) return true;
        for (const mode of renderModes) {
          const problem = await Promise.resolve()
            .then(() => environment.render!(mode))
            .then(
              (picture) => pictureProblem(mode, picture),
              (thrown: unknown) => `${mode} fails: ${messageOf(thrown)}`,
            );
          if (problem !== undefined) this.findings.add('render', at, problem);
        }
        return true;
      },
    });
    if (this.#kind.nondeterministic === true || this.findings.has(...DETERMINISM)) return;
    const difference = firstDifference(trace, drawn);
    if (difference !== undefined) this.findings.add('render-changes', difference.at, difference.found);
  }

  async #close(): Promise<void> {
    const environment = await this.#environment();
    try {
      await environment.close?.();
    } catch (thrown) {
      return this.findings.add('close', null, `close fails: ${messageOf(thrown)}`);
    }
    try {
      await environment.close?.();
    } catch (thrown) {
      this.findings.add('close', null, `the second close fails: ${messageOf(thrown)}`);
    }
  }

  /** Repeats the first rollout. An exception is a finding, and ends it. */
  async #again(environment: Environment, parts: Pick<RolloutParts, 'onMove'> = {}): Promise<Trace> {
    const actions = this.#actions;
    return (await this.#rollout(environment, { action: (at) => copyOf(actions.get(at)), ...parts })) ?? [];
  }

  async #rollout(environment: Environment, parts: RolloutParts): Promise<Trace | undefined> {
    try {
      return await rollout(environment, this.#request, parts);
    } catch (thrown) {
      if (!(thrown instanceof MoveFailed)) throw thrown;
      this.findings.add('raises', thrown.at, `${thrown.message}, for ${shown(thrown.action)}`);
      return undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Exceptions of closing are a separate finding.
    await Promise.allSettled(this.#made.map(async (environment) => environment.close?.()));
  }
}

/** Returns the rule that a first difference breaks. */
const determinismRule = ({ at, kind }: { readonly at: number; readonly kind: Move['kind'] }): CheckRule => {
  if (kind === 'step') return 'same-steps';
  return at === 0 ? 'same-seed' : 'next-reset';
};

function spaceProblem(name: string, space: Space): string | undefined {
  try {
    spaceOf(space.describe());
    const sample = space.sampler(0);
    for (let count = 0; count < SAMPLES; count += 1) {
      const value = sample();
      if (!space.contains(value)) return `the ${name} space does not contain its sample ${shown(value)}`;
      if (space.fromWire(space.toWire(value)) === undefined)
        return `the ${name} space does not know ${shown(value)} again once it was sent`;
    }
    return undefined;
  } catch (thrown) {
    return `the ${name} space fails: ${messageOf(thrown)}`;
  }
}

function pictureProblem(mode: string, picture: unknown): string | undefined {
  if (mode === 'ansi') return typeof picture === 'string' ? undefined : `ansi returned ${shown(picture)}, not a text`;
  const { width, height, pixels } = Object(picture) as Partial<Image>;
  const isImage = Number.isInteger(width) && Number.isInteger(height) && pixels instanceof Uint8Array;
  if (!isImage) return `${mode} returned ${shown(picture)}, not an image`;
  if (pixels.length === width! * height! * 3) return undefined;
  return `${mode} returned ${pixels.length} bytes for ${width} × ${height} pixels`;
}

/** Returns true for values that JSON carries unchanged. */
const isPlain = (info: unknown): boolean => {
  try {
    return isObject(info) && isDeepStrictEqual(JSON.parse(JSON.stringify(info)), info);
  } catch {
    return false;
  }
};

/** Returns observation and info of a result as text: the data that a caller stores. */
const textOf = (result: unknown): string => {
  const { observation, info } = Object(result) as { observation?: unknown; info?: unknown };
  return shown({ observation, info });
};

/** A number that no environment returns by chance. */
const WRITTEN = 7777;

/** Writes into every writable member. */
function overwrite(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
  const record = value as Record<string, unknown>;
  for (const [name, member] of Object.entries(record)) {
    if (typeof member === 'object') overwrite(member);
    else record[name] = typeof member === 'number' ? WRITTEN : undefined;
  }
}

const copyOf = <Value>(value: Value): Value => structuredClone(value);

const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

/**
 * The common base of the environments in this folder: a generator that `reset` seeds or continues, checks before a step, render
 * modes, snapshots. Each subclass has the rules of one task.
 */
import { inspect } from 'node:util';
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import type { Pcg64State } from '../../../base/random/pcg64.ts';
import type { JsonObject } from '../../../wire/json.ts';
import type { Environment, RenderMode, ResetRequest, Start, Step } from '../environment.ts';
import { failure } from '../errors.ts';
import type { Image } from '../rendering/image.ts';
import type { Space } from '../spaces/space.ts';

/** The empty info of a step. It is shared, hence frozen. */
export const NO_INFO: JsonObject = Object.freeze({});

export abstract class SeededEnvironment<Observation, Action> implements Environment<Observation, Action> {
  abstract readonly actionSpace: Space<Action>;
  abstract readonly observationSpace: Space<Observation>;
  readonly renderModes: readonly RenderMode[] = ['ansi', 'rgb_array'];
  #random: Generator | undefined;

  abstract reset(request?: ResetRequest): Start<Observation>;
  abstract step(action: Action): Step<Observation>;
  /** Returns the state as text: Gymnasium's, if it has one. */
  protected abstract text(): string;
  protected abstract picture(): Image;
  /** Returns the state beside the generator as JSON; `load` restores it. */
  protected abstract save(): JsonObject;
  protected abstract load(state: JsonObject): void;

  render(mode: RenderMode): string | Image {
    this.random;
    return mode === 'ansi' ? this.text() : this.picture();
  }

  snapshot(): JsonObject {
    return { random: this.#random?.state ?? null, ...(this.#random !== undefined && { state: this.save() }) };
  }

  restore({ random, state }: JsonObject): void {
    this.#random = undefined;
    if (random === null) return;
    this.#random = new Generator(0);
    this.#random.state = random as unknown as Pcg64State;
    this.load(state as JsonObject);
  }

  /** The generator of this episode. Throws `runtime_error` before the first reset. */
  protected get random(): Generator {
    if (this.#random === undefined) throw failure('runtime_error', 'the environment was never reset');
    return this.#random;
  }

  /** Seeds the generator, or continues it. */
  protected reseed(seed: number | null | undefined): Generator {
    if (typeof seed === 'number') this.#random = new Generator(seed);
    this.#random ??= new Generator(randomSeed());
    return this.#random;
  }

  /** Refuses an action outside of the space. */
  protected check(action: Action): void {
    if (!this.actionSpace.contains(action)) throw unknownAction(this.actionSpace, action);
  }
}

/** Returns the `unknown_action` error for a value that is no element of the space. */
export function unknownAction(space: Space, action: unknown) {
  const shown = inspect(action, { depth: 2, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 80 }).slice(0, 120);
  return failure('unknown_action', `not an action of ${JSON.stringify(space.describe())}: ${shown}`);
}

/** Reads Gymnasium's reset options `low` and `high`: bounds of the uniform distribution of the first state. */
export function resetBounds(options: JsonObject = {}, low: number, high: number): readonly [number, number] {
  const given = [options.low ?? low, options.high ?? high].map((value) => Number(value));
  const [from, to] = given as [number, number];
  if (!(Number.isFinite(from) && Number.isFinite(to) && from <= to))
    throw failure(
      'invalid_options',
      `options.low and options.high are numbers, low not above high; got ${from}, ${to}`,
    );
  return [from, to];
}

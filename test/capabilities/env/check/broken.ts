/** Environments with one fault each, by the rule that finds it: a walk on a line, and its fault. */
import { Generator } from '../../../../src/base/random/generator.ts';
import type {
  Environment,
  EnvironmentKind,
  RenderMode,
  ResetRequest,
  Start,
  Step,
} from '../../../../src/capabilities/env/environment.ts';
import { Box } from '../../../../src/capabilities/env/spaces/box.ts';
import { Discrete } from '../../../../src/capabilities/env/spaces/discrete.ts';
import type { Space } from '../../../../src/capabilities/env/spaces/space.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

/** A correct environment. */
class Walk implements Environment<number[], number> {
  readonly actionSpace: Space<number> = new Discrete(3);
  readonly observationSpace: Space<number[]> = new Box<number[]>([-50, 0], [50, 1000]);
  readonly renderModes: readonly RenderMode[] = ['ansi', 'rgb_array'];
  random = new Generator(0);
  place = 0;
  steps = 0;

  reset({ seed }: ResetRequest = {}): Start<number[]> {
    if (typeof seed === 'number') this.random = new Generator(seed);
    this.place = this.random.uniform(-1, 1);
    this.steps = 0;
    return { observation: this.look(), info: {} };
  }

  step(action: number): Step<number[]> {
    this.steps += 1;
    this.place += action - 1 + this.random.uniform(-0.1, 0.1);
    return { observation: this.look(), reward: -1, terminated: Math.abs(this.place) > 6, truncated: false, info: {} };
  }

  look(): number[] {
    return [Math.fround(Math.min(50, Math.max(-50, this.place))), this.steps];
  }

  render(mode: RenderMode) {
    return mode === 'ansi' ? `${this.place}` : { width: 2, height: 1, pixels: new Uint8Array(6).fill(this.steps) };
  }

  snapshot(): JsonObject {
    return { random: this.random.state, place: this.place, steps: this.steps };
  }

  restore({ random, place, steps }: JsonObject): void {
    this.random.state = random as Generator['state'];
    this.place = Number(place);
    this.steps = Number(steps);
  }

  close(): void {}
}

class Spaces extends Walk {
  override readonly actionSpace = new Discrete(3, { start: 0 });
  constructor() {
    super();
    // Samples that the space itself does not contain.
    Object.assign(this, { actionSpace: { ...described(this.actionSpace), sampler: () => () => 3 } });
  }
}

class Raises extends Walk {
  override step(action: number) {
    if (action === 2) throw new RangeError('no third wheel');
    return super.step(action);
  }
}

class ReturnsLess extends Walk {
  override step(action: number) {
    const { observation, reward, terminated, info } = super.step(action);
    return { observation, reward, terminated, info } as unknown as Step<number[]>;
  }
}

class OutsideLater extends Walk {
  override look() {
    return [Math.fround(this.place), this.steps > 4 ? -1 : this.steps];
  }
}

class WrongShape extends Walk {
  override look() {
    return [...super.look(), 0];
  }
}

class Float64 extends Walk {
  override look() {
    return [this.place, this.steps];
  }
}

class NotANumber extends Walk {
  override step(action: number) {
    return { ...super.step(action), reward: this.steps === 3 ? Number.NaN : 0 };
  }
}

class FlagsAreNumbers extends Walk {
  override step(action: number) {
    return { ...super.step(action), truncated: 0 as unknown as boolean };
  }
}

class InfoIsAList extends Walk {
  override step(action: number) {
    return { ...super.step(action), info: [this.place] as unknown as JsonObject };
  }
}

class InfoHasADate extends Walk {
  override reset(request?: ResetRequest) {
    return { ...super.reset(request), info: { since: new Date(0) } as unknown as JsonObject };
  }
}

class Reuses extends Walk {
  readonly array = [0, 0];
  override look() {
    return Object.assign(this.array, super.look());
  }
}

/** The same array returns after eight calls: three calls in a row look innocent. */
class ReusesAfterEight extends Walk {
  readonly ring = Array.from({ length: 8 }, () => [0, 0]);
  count = 0;
  override look() {
    return Object.assign(this.ring[this.count++ % 8] as number[], super.look());
  }
}

class Owned extends Walk {
  state = [0, 0];
  override reset(request?: ResetRequest) {
    const start = super.reset(request);
    this.state = start.observation;
    return start;
  }
  override step(action: number) {
    // A new array each time, but the returned one is read again.
    this.state = [Math.fround((this.state[0] as number) / 2 + action), this.steps];
    return { ...super.step(action), observation: this.state };
  }
  override snapshot() {
    return { ...super.snapshot(), state: [...this.state] };
  }
  override restore(snapshot: JsonObject) {
    super.restore(snapshot);
    this.state = snapshot.state as number[];
  }
}

/** Actions are lists here. */
class ChangesActions extends Walk {
  override readonly actionSpace = new Box<number[]>(-1, 1, { shape: [1] }) as unknown as Space<number>;
  override step(action: number) {
    const list = action as unknown as number[];
    list[0] = Math.sign(list[0] as number);
    return super.step(1 + (list[0] as number));
  }
}

class IgnoresSeeds extends Walk {
  override reset() {
    return super.reset({ seed: Math.floor(Math.random() * 1e9) });
  }
}

/** Gymnasium's issue 1084: deterministic with a seed, and random without one after it. */
class RandomWithoutSeed extends Walk {
  override reset(request: ResetRequest = {}) {
    const { seed } = request;
    const start = super.reset(request);
    this.place = typeof seed === 'number' ? this.place : Math.random();
    return { ...start, observation: this.look() };
  }
}

/** One array for all observations hides that equal seeds start differently: Gymnasium's issue 1681. */
class ReusesAndIgnoresSeeds extends IgnoresSeeds {
  readonly array = [0, 0];
  override look() {
    return Object.assign(this.array, super.look());
  }
}

/** The first step after a reset is deterministic, later ones are not. */
class RandomLater extends Walk {
  override step(action: number) {
    const step = super.step(action);
    if (this.steps > 3) this.place += Math.random() / 1000;
    return step;
  }
}

class Leftover extends Walk {
  wind = 0;
  override step(action: number) {
    this.wind += 0.01;
    this.place += this.wind;
    return super.step(action);
  }
  override snapshot() {
    return { ...super.snapshot(), wind: this.wind };
  }
  override restore(snapshot: JsonObject) {
    super.restore(snapshot);
    this.wind = Number(snapshot.wind);
  }
}

class SuggestsTooMuch extends Walk {
  affordances() {
    return [{ action: 3, description: 'fly' }];
  }
}

class DrawsTooLittle extends Walk {
  override render(mode: RenderMode) {
    return mode === 'ansi' ? 'here' : { width: 2, height: 2, pixels: new Uint8Array(6) };
  }
}

class DrawsRandomly extends Walk {
  override render(mode: RenderMode) {
    this.random.uniform(0, 1);
    return super.render(mode);
  }
}

class ForgetsItsGenerator extends Walk {
  override snapshot() {
    return { ...super.snapshot(), random: new Generator(0).state } as unknown as JsonObject;
  }
}

class SnapshotOfAMap extends Walk {
  override snapshot() {
    return { ...super.snapshot(), seen: new Map() } as unknown as JsonObject;
  }
}

class ClosesOnce extends Walk {
  closed = false;
  override close() {
    if (this.closed) throw new Error('there is nothing to close');
    this.closed = true;
  }
}

const described = (space: Space) => ({
  kind: space.kind,
  describe: () => space.describe(),
  jsonSchema: () => space.jsonSchema(),
  contains: (value: unknown) => space.contains(value),
  toWire: (value: unknown) => value,
  fromWire: (value: unknown) => space.fromWire(value),
});

/** Rule → environments that break it. */
const faults: Readonly<Record<string, readonly (new () => Walk)[]>> = {
  spaces: [Spaces],
  raises: [Raises],
  result: [ReturnsLess],
  observation: [OutsideLater, WrongShape],
  dtype: [Float64],
  reward: [NotANumber],
  flags: [FlagsAreNumbers],
  info: [InfoIsAList, InfoHasADate],
  reuse: [Reuses, ReusesAfterEight, ReusesAndIgnoresSeeds],
  owned: [Owned],
  'action-changed': [ChangesActions],
  'same-seed': [IgnoresSeeds, ReusesAndIgnoresSeeds],
  'next-reset': [RandomWithoutSeed],
  'same-steps': [RandomLater],
  leftover: [Leftover],
  suggestions: [SuggestsTooMuch],
  render: [DrawsTooLittle],
  'render-changes': [DrawsRandomly],
  snapshot: [ForgetsItsGenerator, SnapshotOfAMap],
  close: [ClosesOnce],
};

const kindOf = (make: new () => Walk): EnvironmentKind => ({
  id: `broken/${make.name}`,
  about: 'A walk with a fault',
  maxEpisodeSteps: 30,
  makeOptions: { type: 'object', properties: {}, additionalProperties: false },
  resetOptions: { type: 'object' },
  make: () => new make() as unknown as Environment,
});

export const correct: EnvironmentKind = kindOf(Walk);

/** Each fault with its rule. */
export const brokenKinds: readonly (readonly [rule: string, kind: EnvironmentKind])[] = Object.entries(faults).flatMap(
  ([rule, kinds]) => kinds.map((make) => [rule, kindOf(make)] as const),
);

/** MountainCar: a car too weak for the hill gathers speed in the valley. Gymnasium's `MountainCar-v0`, formula by formula. */
import type { JsonObject } from '../../../wire/json.ts';
import type { ResetRequest, Start, Step } from '../environment.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Box } from '../spaces/box.ts';
import { Discrete } from '../spaces/discrete.ts';
import { NO_INFO, resetBounds, SeededEnvironment } from './seeded-environment.ts';

const MIN_POSITION = -1.2;
const MAX_POSITION = 0.6;
const MAX_SPEED = 0.07;
const GOAL_POSITION = 0.5;
const FORCE = 0.001;
const GRAVITY = 0.0025;

type Observation = [position: number, velocity: number];

const clip = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);
const height = (position: number): number => Math.sin(3 * position) * 0.45 + 0.55;

export class MountainCar extends SeededEnvironment<Observation, number> {
  readonly actionSpace = new Discrete(3);
  readonly observationSpace = new Box<Observation>([MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]);
  readonly #goalVelocity: number;
  #position = 0;
  #velocity = 0;

  /** @param options `goal_velocity`: the least velocity at the goal */
  constructor({ goal_velocity = 0 }: JsonObject = {}) {
    super();
    this.#goalVelocity = Number(goal_velocity);
  }

  reset({ seed, options }: ResetRequest = {}): Start<Observation> {
    const [low, high] = resetBounds(options, -0.6, -0.4);
    this.#position = this.reseed(seed).uniform(low, high);
    this.#velocity = 0;
    return { observation: this.#observe(), info: NO_INFO };
  }

  step(action: number): Step<Observation> {
    this.check(action);
    this.random;
    const pushed = this.#velocity + ((action - 1) * FORCE + Math.cos(3 * this.#position) * -GRAVITY);
    this.#velocity = clip(pushed, -MAX_SPEED, MAX_SPEED);
    this.#position = clip(this.#position + this.#velocity, MIN_POSITION, MAX_POSITION);
    // The wall on the left stops the car.
    if (this.#position === MIN_POSITION && this.#velocity < 0) this.#velocity = 0;
    const terminated = this.#position >= GOAL_POSITION && this.#velocity >= this.#goalVelocity;
    return { observation: this.#observe(), reward: -1, terminated, truncated: false, info: NO_INFO };
  }

  #observe(): Observation {
    return [Math.fround(this.#position), Math.fround(this.#velocity)];
  }

  protected text(): string {
    return `car at ${this.#position.toFixed(4)}, velocity ${this.#velocity.toFixed(4)}; goal at ${GOAL_POSITION}\n`;
  }

  protected picture(): Image {
    const canvas = new Canvas(600, 400, [255, 255, 255]);
    const scale = 600 / (MAX_POSITION - MIN_POSITION);
    const x = (position: number): number => (position - MIN_POSITION) * scale;
    const y = (position: number): number => 400 - height(position) * scale;
    const step = (MAX_POSITION - MIN_POSITION) / 99;
    for (let at = 0; at < 99; at += 1) {
      const [from, to] = [MIN_POSITION + at * step, MIN_POSITION + (at + 1) * step];
      canvas.line(x(from), y(from), x(to), y(to), [0, 0, 0]);
    }
    const turn = Math.cos(3 * this.#position);
    const point = (along: number, up: number): [number, number] => [
      x(this.#position) + along * Math.cos(turn) - up * Math.sin(turn),
      y(this.#position) - along * Math.sin(turn) - up * Math.cos(turn),
    ];
    // The car hovers above the line, on its wheels.
    const raised = (along: number, up: number): [number, number] => {
      const [px, py] = point(along, up);
      return [px, py - 10];
    };
    canvas.polygon([raised(-20, 0), raised(-20, 20), raised(20, 20), raised(20, 0)], [0, 0, 0]);
    for (const along of [10, -10]) canvas.circle(...raised(along, 0), 8, [128, 128, 128]);
    const flag = x(GOAL_POSITION);
    const foot = y(GOAL_POSITION);
    canvas.line(flag, foot, flag, foot - 50, [0, 0, 0]);
    canvas.polygon(
      [
        [flag, foot - 50],
        [flag, foot - 40],
        [flag + 25, foot - 45],
      ],
      [204, 204, 0],
    );
    return canvas.image;
  }

  protected save(): JsonObject {
    return { state: [this.#position, this.#velocity] };
  }

  protected load({ state }: JsonObject): void {
    [this.#position, this.#velocity] = state as Observation;
  }
}

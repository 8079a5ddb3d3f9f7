/**
 * CartPole: push a cart to the left or to the right so that the pole on it stays up. Gymnasium's `CartPole-v1`, formula by formula.
 */
import type { JsonObject } from '../../../wire/json.ts';
import type { ResetRequest, Start, Step } from '../environment.ts';
import { failure } from '../errors.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Box } from '../spaces/box.ts';
import { Discrete } from '../spaces/discrete.ts';
import { NO_INFO, resetBounds, SeededEnvironment, unknownAction } from './seeded-environment.ts';

const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = POLE_MASS + 1;
/** Half of the pole. */
const LENGTH = 0.5;
const POLE_MASS_LENGTH = POLE_MASS * LENGTH;
const FORCE = 10;
/** Seconds between states. */
const TAU = 0.02;
const MAX_ANGLE = (12 * 2 * Math.PI) / 360;
const MAX_POSITION = 2.4;

type Observation = [position: number, velocity: number, angle: number, angularVelocity: number];

const high = [MAX_POSITION * 2, Infinity, MAX_ANGLE * 2, Infinity];
const observationSpace = new Box<Observation>(
  high.map((bound) => -bound),
  high,
);
const actionSpace = new Discrete(2);

export class CartPole extends SeededEnvironment<Observation, number> {
  readonly actionSpace = actionSpace;
  readonly observationSpace = observationSpace;
  readonly #suttonBarto: boolean;
  #x = 0;
  #velocity = 0;
  #angle = 0;
  #spin = 0;
  #started = false;
  #fell = false;

  /** @param options `sutton_barto_reward`: 0 a step and -1 at the end, instead of 1 a step */
  constructor({ sutton_barto_reward = false }: JsonObject = {}) {
    super();
    this.#suttonBarto = sutton_barto_reward === true;
  }

  reset({ seed, options }: ResetRequest = {}): Start<Observation> {
    const [low, upper] = resetBounds(options, -0.05, 0.05);
    const random = this.reseed(seed);
    this.#x = random.uniform(low, upper);
    this.#velocity = random.uniform(low, upper);
    this.#angle = random.uniform(low, upper);
    this.#spin = random.uniform(low, upper);
    this.#started = true;
    this.#fell = false;
    return { observation: this.#observe(), info: NO_INFO };
  }

  step(action: number): Step<Observation> {
    if (action !== 0 && action !== 1) throw unknownAction(actionSpace, action);
    if (!this.#started) throw failure('runtime_error', 'the environment was never reset');
    const cos = Math.cos(this.#angle);
    const sin = Math.sin(this.#angle);
    const spin = this.#spin;
    const push = ((action === 1 ? FORCE : -FORCE) + POLE_MASS_LENGTH * (spin * spin) * sin) / TOTAL_MASS;
    const angular = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - (POLE_MASS * (cos * cos)) / TOTAL_MASS));
    const linear = push - (POLE_MASS_LENGTH * angular * cos) / TOTAL_MASS;
    this.#x += TAU * this.#velocity;
    this.#velocity += TAU * linear;
    this.#angle += TAU * spin;
    this.#spin = spin + TAU * angular;
    const x = this.#x;
    const angle = this.#angle;
    const terminated = x < -MAX_POSITION || x > MAX_POSITION || angle < -MAX_ANGLE || angle > MAX_ANGLE;
    return {
      observation: [Math.fround(x), Math.fround(this.#velocity), Math.fround(angle), Math.fround(this.#spin)],
      reward: this.#reward(terminated),
      terminated,
      truncated: false,
      info: NO_INFO,
    };
  }

  /** Returns the reward. The step in which the pole falls still earns its 1; steps after it earn nothing. */
  #reward(terminated: boolean): number {
    if (!terminated) return this.#suttonBarto ? 0 : 1;
    const first = !this.#fell;
    this.#fell = true;
    if (this.#suttonBarto) return -1;
    return first ? 1 : 0;
  }

  #observe(): Observation {
    return [Math.fround(this.#x), Math.fround(this.#velocity), Math.fround(this.#angle), Math.fround(this.#spin)];
  }

  protected text(): string {
    const degrees = (this.#angle * 180) / Math.PI;
    return (
      `cart ${this.#x.toFixed(3)} m, ${this.#velocity.toFixed(3)} m/s; ` +
      `pole ${degrees.toFixed(2)} degrees, ${this.#spin.toFixed(3)} rad/s\n`
    );
  }

  protected picture(): Image {
    const canvas = new Canvas(600, 400, [255, 255, 255]);
    const scale = 600 / (MAX_POSITION * 2);
    const cart = this.#x * scale + 300;
    // Gymnasium counts from the bottom: the cart is at 100, its axle at 107.5.
    const axle = 400 - 107.5;
    const track = 400 - 100;
    canvas.polygon(rectangle(cart, track, 25, 15), [0, 0, 0]);
    const length = scale * 2 * LENGTH;
    const along = [Math.sin(this.#angle), -Math.cos(this.#angle)] as const;
    const across = [-along[1], along[0]] as const;
    const corner = (side: number, up: number): [number, number] => [
      cart + across[0] * side + along[0] * up,
      axle + across[1] * side + along[1] * up,
    ];
    canvas.polygon([corner(-5, -5), corner(-5, length - 5), corner(5, length - 5), corner(5, -5)], [202, 152, 101]);
    canvas.circle(cart, axle, 5, [129, 132, 203]);
    canvas.line(0, track, 600, track, [0, 0, 0]);
    return canvas.image;
  }

  protected save(): JsonObject {
    return { state: [this.#x, this.#velocity, this.#angle, this.#spin], fell: this.#fell };
  }

  protected load({ state, fell }: JsonObject): void {
    [this.#x, this.#velocity, this.#angle, this.#spin] = state as Observation;
    this.#fell = fell === true;
    this.#started = true;
  }
}

const rectangle = (x: number, y: number, halfWidth: number, halfHeight: number): [number, number][] => [
  [x - halfWidth, y - halfHeight],
  [x + halfWidth, y - halfHeight],
  [x + halfWidth, y + halfHeight],
  [x - halfWidth, y + halfHeight],
];

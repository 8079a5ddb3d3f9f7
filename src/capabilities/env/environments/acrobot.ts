/**
 * Acrobot: two links on a pivot swing up by a torque at the joint between them. Gymnasium's `Acrobot-v1`, formula by formula,
 * the book's equations by Runge-Kutta.
 *
 * The system is chaotic: the last digit of a cosine, which differs between platforms, grows within an episode. From one state,
 * a step equals Gymnasium's within 1e-12.
 */
import type { JsonObject } from '../../../wire/json.ts';
import type { ResetRequest, Start, Step } from '../environment.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Box } from '../spaces/box.ts';
import { Discrete } from '../spaces/discrete.ts';
import { NO_INFO, resetBounds, SeededEnvironment } from './seeded-environment.ts';

const { cos, sin, PI } = Math;
/** Seconds of one step. */
const DT = 0.2;
/** Mass, length, centre of mass and moment of inertia of both links. */
const MASS = 1;
const LENGTH = 1;
const CENTRE = 0.5;
const INERTIA = 1;
const GRAVITY = 9.8;
const MAX_SPEED_1 = 4 * PI;
const MAX_SPEED_2 = 9 * PI;

/** Angle of the first link from straight down, angle of the second to the first, and their velocities. */
type State = [angle1: number, angle2: number, speed1: number, speed2: number];

const bounds = [1, 1, 1, 1, MAX_SPEED_1, MAX_SPEED_2];

export class Acrobot extends SeededEnvironment<number[], number> {
  readonly actionSpace = new Discrete(3);
  readonly observationSpace = new Box<number[]>(
    bounds.map((bound) => -bound),
    bounds,
  );
  #state: State = [0, 0, 0, 0];

  reset({ seed, options }: ResetRequest = {}): Start<number[]> {
    const [low, high] = resetBounds(options, -0.1, 0.1);
    const random = this.reseed(seed);
    // Gymnasium's first state is a float32 array, later ones are float64.
    const draw = (): number => Math.fround(random.uniform(low, high));
    this.#state = [draw(), draw(), draw(), draw()];
    return { observation: this.#observe(), info: NO_INFO };
  }

  step(action: number): Step<number[]> {
    this.check(action);
    this.random;
    const [angle1, angle2, speed1, speed2] = rungeKutta(this.#state, action - 1);
    this.#state = [
      wrap(angle1),
      wrap(angle2),
      Math.min(Math.max(speed1, -MAX_SPEED_1), MAX_SPEED_1),
      Math.min(Math.max(speed2, -MAX_SPEED_2), MAX_SPEED_2),
    ];
    const [first, second] = this.#state;
    const terminated = -cos(first) - cos(second + first) > 1;
    return { observation: this.#observe(), reward: terminated ? 0 : -1, terminated, truncated: false, info: NO_INFO };
  }

  #observe(): number[] {
    const [angle1, angle2, speed1, speed2] = this.#state;
    return [cos(angle1), sin(angle1), cos(angle2), sin(angle2), speed1, speed2].map(Math.fround);
  }

  protected text(): string {
    const [angle1, angle2, speed1, speed2] = this.#state.map((value) => value.toFixed(3));
    return `link 1 at ${angle1} rad, ${speed1} rad/s; link 2 at ${angle2} rad, ${speed2} rad/s\n`;
  }

  protected picture(): Image {
    const canvas = new Canvas(500, 500, [255, 255, 255]);
    const scale = 500 / (2 * (2 * LENGTH + 0.2));
    canvas.line(250 - 2.2 * scale, 250 - scale, 250 + 2.2 * scale, 250 - scale, [0, 0, 0]);
    const [angle1, angle2] = this.#state;
    let [x, y] = [250, 250];
    for (const angle of [angle1, angle1 + angle2]) {
      const along = [sin(angle), cos(angle)] as const;
      const side = [cos(angle) * 0.1 * scale, -sin(angle) * 0.1 * scale] as const;
      const [endX, endY] = [x + along[0] * scale, y + along[1] * scale];
      canvas.polygon(
        [
          [x - side[0], y - side[1]],
          [x + side[0], y + side[1]],
          [endX + side[0], endY + side[1]],
          [endX - side[0], endY - side[1]],
        ],
        [0, 204, 204],
      );
      canvas.circle(x, y, 0.1 * scale, [204, 204, 0]);
      [x, y] = [endX, endY];
    }
    return canvas.image;
  }

  protected save(): JsonObject {
    return { state: [...this.#state] };
  }

  protected load({ state }: JsonObject): void {
    this.#state = state as State;
  }
}

/** Returns an angle within -PI and PI. */
function wrap(angle: number): number {
  let wrapped = angle;
  while (wrapped > PI) wrapped -= 2 * PI;
  while (wrapped < -PI) wrapped += 2 * PI;
  return wrapped;
}

/** Does one step of the classical Runge-Kutta method. The order of the operations is Gymnasium's. */
function rungeKutta(state: State, torque: number): State {
  const ahead = (slope: State, time: number): State => state.map((value, at) => value + time * slope[at]!) as State;
  const half = DT / 2;
  const k1 = derivatives(state, torque);
  const k2 = derivatives(ahead(k1, half), torque);
  const k3 = derivatives(ahead(k2, half), torque);
  const k4 = derivatives(ahead(k3, DT), torque);
  return state.map((value, at) => value + (DT / 6) * (k1[at]! + 2 * k2[at]! + 2 * k3[at]! + k4[at]!)) as State;
}

function derivatives([angle1, angle2, speed1, speed2]: State, torque: number): State {
  const c2 = cos(angle2);
  const s2 = sin(angle2);
  const square = CENTRE ** 2;
  const d1 = MASS * square + MASS * (LENGTH ** 2 + square + 2 * LENGTH * CENTRE * c2) + INERTIA + INERTIA;
  const d2 = MASS * (square + LENGTH * CENTRE * c2) + INERTIA;
  const phi2 = MASS * CENTRE * GRAVITY * cos(angle1 + angle2 - PI / 2);
  const phi1 =
    -MASS * LENGTH * CENTRE * (speed2 * speed2) * s2 -
    2 * MASS * LENGTH * CENTRE * speed2 * speed1 * s2 +
    (MASS * CENTRE + MASS * LENGTH) * GRAVITY * cos(angle1 - PI / 2) +
    phi2;
  const acceleration2 =
    (torque + (d2 / d1) * phi1 - MASS * LENGTH * CENTRE * (speed1 * speed1) * s2 - phi2) /
    (MASS * square + INERTIA - (d2 * d2) / d1);
  const acceleration1 = -(d2 * acceleration2 + phi1) / d1;
  return [speed1, speed2, acceleration1, acceleration2];
}

/** CliffWalking: from the lower left to the lower right corner, along a cliff. Gymnasium's `CliffWalking-v1`. */
import type { JsonObject } from '../../../wire/json.ts';
import type { ResetRequest, Start, Step } from '../environment.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Discrete } from '../spaces/discrete.ts';
import { SeededEnvironment } from './seeded-environment.ts';
import { draw, type Transition, table } from './transitions.ts';

const ROWS = 4;
const COLUMNS = 12;
const START = 36;
const GOAL = 47;
const CELL = 64;

/** Up, right, down, left. */
const moves = [
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, -1],
] as const;

const isCliff = (state: number): boolean => state > START && state < GOAL;

export class CliffWalking extends SeededEnvironment<number, number> {
  readonly actionSpace = new Discrete(4);
  readonly observationSpace = new Discrete(ROWS * COLUMNS);
  readonly #transitions: (state: number, action: number) => readonly Transition[];
  #state = START;

  /** @param options `is_slippery`: a step goes to either side with the probability of going ahead */
  constructor({ is_slippery = false }: JsonObject = {}) {
    super();
    this.#transitions = table((state, action) => {
      const directions = is_slippery === true ? [(action + 3) % 4, action, (action + 1) % 4] : [action];
      return directions.map((direction) => ({ probability: 1 / directions.length, ...moved(state, direction) }));
    }, 4);
  }

  reset({ seed }: ResetRequest = {}): Start<number> {
    // Gymnasium draws the first state, too, although there is only one.
    this.reseed(seed).double();
    this.#state = START;
    return { observation: START, info: { prob: 1 } };
  }

  step(action: number): Step<number> {
    this.check(action);
    const { state, reward, terminated, probability } = draw(this.#transitions(this.#state, action), this.random);
    this.#state = state;
    return { observation: state, reward, terminated, truncated: false, info: { prob: probability } };
  }

  protected text(): string {
    const letter = (state: number): string => {
      if (state === this.#state) return 'x';
      if (state === GOAL) return 'T';
      return isCliff(state) ? 'C' : 'o';
    };
    const row = (_: unknown, at: number): string =>
      Array.from({ length: COLUMNS }, (_cell, column) => letter(at * COLUMNS + column)).join('  ');
    return `${Array.from({ length: ROWS }, row).join('\n')}\n\n`;
  }

  protected picture(): Image {
    const canvas = new Canvas(COLUMNS * CELL, ROWS * CELL, [120, 160, 90]);
    for (let state = 0; state < ROWS * COLUMNS; state += 1) {
      const [x, y] = [(state % COLUMNS) * CELL, Math.floor(state / COLUMNS) * CELL];
      if (isCliff(state)) canvas.rectangle(x, y, CELL, CELL, [70, 55, 45]);
      if (state === START) canvas.rectangle(x + 6, y + 6, CELL - 12, CELL - 12, [160, 200, 130]);
      if (state === GOAL) canvas.rectangle(x + 6, y + 6, CELL - 12, CELL - 12, [220, 190, 60]);
      canvas.line(x, y, x + CELL, y, [100, 140, 75]);
      canvas.line(x, y, x, y + CELL, [100, 140, 75]);
      if (state === this.#state) canvas.circle(x + CELL / 2, y + CELL / 2, CELL * 0.28, [50, 90, 170]);
    }
    return canvas.image;
  }

  protected save(): JsonObject {
    return { state: this.#state };
  }

  protected load({ state }: JsonObject): void {
    this.#state = state as number;
  }
}

function moved(from: number, direction: number): Omit<Transition, 'probability'> {
  const [down, right] = moves[direction]!;
  const row = Math.min(Math.max(Math.floor(from / COLUMNS) + down, 0), ROWS - 1);
  const column = Math.min(Math.max((from % COLUMNS) + right, 0), COLUMNS - 1);
  const state = row * COLUMNS + column;
  if (isCliff(state)) return { state: START, reward: -100, terminated: false };
  return { state, reward: -1, terminated: state === GOAL };
}

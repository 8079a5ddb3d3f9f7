/**
 * Taxi: drive to the passenger, pick up, drive to the destination, drop off. Gymnasium's `Taxi-v4`, with rain and fickle
 * passengers.
 */
import type { JsonObject } from '../../../wire/json.ts';
import type { Affordance, ResetRequest, Start, Step } from '../environment.ts';
import { Canvas, type Colour } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Discrete } from '../spaces/discrete.ts';
import { SeededEnvironment } from './seeded-environment.ts';
import { categorical, colorize, draw, type Transition, table } from './transitions.ts';

const map = ['+---------+', '|R: | : :G|', '| : | : : |', '| : : : : |', '| | : | : |', '|Y| : |B: |', '+---------+'];
const SIDE = 5;
const STATES = 500;
const IN_TAXI = 4;
const PICKUP = 4;

/** Row and column of R, G, Y, B. */
const stands: readonly (readonly [row: number, column: number])[] = [
  [0, 0],
  [0, 4],
  [4, 0],
  [4, 3],
];
const standColours: readonly Colour[] = [
  [220, 70, 60],
  [80, 170, 80],
  [225, 195, 60],
  [70, 110, 210],
];
const actions = ['South', 'North', 'East', 'West', 'Pickup', 'Dropoff'] as const;

/** For each move: ahead, then to its left, then to its right. */
const moves = [
  [
    [1, 0],
    [0, 1],
    [0, -1],
  ],
  [
    [-1, 0],
    [0, -1],
    [0, 1],
  ],
  [
    [0, 1],
    [-1, 0],
    [1, 0],
  ],
  [
    [0, -1],
    [1, 0],
    [-1, 0],
  ],
] as const;

interface Place {
  readonly row: number;
  readonly column: number;
  readonly passenger: number;
  readonly destination: number;
}

const encode = ({ row, column, passenger, destination }: Place): number =>
  ((row * SIDE + column) * 5 + passenger) * 4 + destination;

function decode(state: number): Place {
  const rest = Math.floor(state / 4);
  const cell = Math.floor(rest / 5);
  return { row: Math.floor(cell / SIDE), column: cell % SIDE, passenger: rest % 5, destination: state % 4 };
}

const standAt = (row: number, column: number): number =>
  stands.findIndex(([standRow, standColumn]) => standRow === row && standColumn === column);

/** Returns true where the border east of a column is open. */
const openEast = (row: number, column: number): boolean => map[row + 1]![2 * column + 2] === ':';
const clamp = (at: number): number => Math.min(Math.max(at, 0), SIDE - 1);

/** The probability of each state to be the first: passenger at a stand that is not the destination. */
const firstStates = Array.from({ length: STATES }, (_, state) => {
  const { passenger, destination } = decode(state);
  return passenger < IN_TAXI && passenger !== destination ? 1 / 300 : 0;
});

/** @param options `is_rainy`, `rainy_probability`, `fickle_passenger`, `fickle_probability` */
export class Taxi extends SeededEnvironment<number, number> {
  readonly actionSpace = new Discrete(6);
  readonly observationSpace = new Discrete(STATES);
  readonly #transitions: (state: number, action: number) => readonly Transition[];
  readonly #fickle: boolean;
  readonly #fickleness: number;
  #state = 0;
  #lastAction: number | null = null;
  /** True when the passenger will change the destination at the first move after the pickup. */
  #willChange = false;

  constructor(options: JsonObject = {}) {
    super();
    const { is_rainy, rainy_probability = 0.8, fickle_passenger, fickle_probability = 0.3 } = options;
    this.#fickle = fickle_passenger === true;
    this.#fickleness = Number(fickle_probability);
    const ahead = is_rainy === true ? Number(rainy_probability) : 1;
    this.#transitions = table((state, action) => outcomes(decode(state), action, is_rainy === true, ahead), 6);
  }

  reset({ seed }: ResetRequest = {}): Start<number> {
    const random = this.reseed(seed);
    this.#state = categorical(firstStates, random);
    this.#lastAction = null;
    this.#willChange = this.#fickle && random.double() < this.#fickleness;
    return { observation: this.#state, info: { prob: 1, action_mask: actionMask(this.#state) } };
  }

  step(action: number): Step<number> {
    this.check(action);
    const outcome = draw(this.#transitions(this.#state, action), this.random);
    const [before, after] = [decode(this.#state), decode(outcome.state)];
    this.#lastAction = action;
    this.#state = outcome.state;
    const moved = after.row !== before.row || after.column !== before.column;
    if (this.#willChange && before.passenger === IN_TAXI && moved) {
      this.#willChange = false;
      const others = [0, 1, 2, 3].filter((stand) => stand !== before.destination);
      this.#state = encode({ ...after, destination: this.random.choice(others) });
    }
    const { reward, terminated, probability } = outcome;
    const info = { prob: probability, action_mask: actionMask(this.#state) };
    return { observation: this.#state, reward, terminated, truncated: false, info };
  }

  affordances(): readonly Affordance<number>[] {
    this.random;
    const mask = actionMask(this.#state);
    return actions.flatMap((description, action) => (mask[action] === 1 ? [{ action, description }] : []));
  }

  protected text(): string {
    const { row, column, passenger, destination } = decode(this.#state);
    const cells = map.map((line) => [...line]);
    const paint = (at: readonly [number, number], change: (cell: string) => string): void => {
      const line = cells[at[0] + 1]!;
      line[2 * at[1] + 1] = change(line[2 * at[1] + 1]!);
    };
    if (passenger < IN_TAXI) {
      paint([row, column], (cell) => colorize(cell, 'yellow', { highlight: true }));
      paint(stands[passenger]!, (cell) => colorize(cell, 'blue', { bold: true }));
    } else paint([row, column], (cell) => colorize(cell === ' ' ? '_' : cell, 'green', { highlight: true }));
    paint(stands[destination]!, (cell) => colorize(cell, 'magenta'));
    const said = this.#lastAction === null ? '' : `  (${actions[this.#lastAction]})`;
    return `${cells.map((line) => line.join('')).join('\n')}\n${said}\n`;
  }

  protected picture(): Image {
    const cell = 80;
    const edge = 10;
    const canvas = new Canvas(SIDE * cell + 2 * edge, SIDE * cell + 2 * edge, [90, 90, 95]);
    canvas.rectangle(edge, edge, SIDE * cell, SIDE * cell, [205, 205, 200]);
    const corner = (row: number, column: number): [number, number] => [edge + column * cell, edge + row * cell];
    for (const [at, [row, column]] of stands.entries()) {
      const [x, y] = corner(row, column);
      canvas.rectangle(x + 6, y + 6, cell - 12, cell - 12, standColours[at]!);
    }
    for (let row = 0; row < SIDE; row += 1) {
      for (let column = 0; column < SIDE - 1; column += 1) {
        const [x, y] = corner(row, column + 1);
        if (!openEast(row, column)) canvas.rectangle(x - 3, y, 6, cell, [90, 90, 95]);
      }
    }
    const { row, column, passenger, destination } = decode(this.#state);
    const [goalX, goalY] = corner(...stands[destination]!);
    canvas.circle(goalX + cell / 2, goalY + cell / 2, 26, [250, 250, 250]);
    canvas.circle(goalX + cell / 2, goalY + cell / 2, 18, standColours[destination]!);
    const [x, y] = corner(row, column);
    canvas.rectangle(x + 14, y + 24, cell - 28, cell - 48, [250, 210, 40]);
    canvas.rectangle(x + 28, y + 28, cell - 56, cell - 56, [60, 60, 65]);
    const [personX, personY] = passenger === IN_TAXI ? [x, y] : corner(...stands[passenger]!);
    canvas.circle(personX + cell / 2, personY + cell / 2, 9, [150, 60, 160]);
    return canvas.image;
  }

  protected save(): JsonObject {
    return { state: this.#state, lastAction: this.#lastAction, willChange: this.#willChange };
  }

  protected load({ state, lastAction, willChange }: JsonObject): void {
    this.#state = state as number;
    this.#lastAction = lastAction as number | null;
    this.#willChange = willChange === true;
  }
}

/** Returns 1 for each action that changes the state. */
function actionMask(state: number): number[] {
  const { row, column, passenger } = decode(state);
  const stand = standAt(row, column);
  return [
    row < SIDE - 1,
    row > 0,
    column < SIDE - 1 && openEast(row, column),
    column > 0 && openEast(row, column - 1),
    passenger < IN_TAXI && stand === passenger,
    passenger === IN_TAXI && stand >= 0,
  ].map(Number);
}

function outcomes(place: Place, action: number, rainy: boolean, ahead: number): Transition[] {
  if (action >= PICKUP) return [{ probability: 1, ...served(place, action) }];
  const to = (row: number, column: number): Omit<Transition, 'probability'> => ({
    state: encode({ ...place, row, column }),
    reward: -1,
    terminated: false,
  });
  const { row, column } = place;
  const [[down, right], ...sides] = moves[action]!;
  const isOpen = actionMask(encode(place))[action] === 1;
  const forward = isOpen ? to(clamp(row + down), clamp(column + right)) : to(row, column);
  if (!rainy) return [{ probability: 1, ...forward }];
  const sideways = (1 - ahead) / 2;
  // Before a wall, the taxi stays in any weather.
  const drift = sides.map(([sideDown, sideRight]) =>
    isOpen ? to(...drifted(row, column, sideDown, sideRight)) : to(row, column),
  );
  return [{ probability: ahead, ...forward }, ...drift.map((outcome) => ({ probability: sideways, ...outcome }))];
}

/** Returns the position after rain moves a taxi sideways: walls and borders hold it. */
function drifted(row: number, column: number, down: number, right: number): [row: number, column: number] {
  if (right !== 0 && !openEast(row, Math.min(column, column + right))) return [row, column];
  return [clamp(row + down), column + right];
}

/** Returns the outcome of a pickup or drop-off. */
function served(place: Place, action: number): Omit<Transition, 'probability'> {
  const { row, column, passenger, destination } = place;
  const stand = standAt(row, column);
  const stays = { state: encode(place), reward: -10, terminated: false };
  if (action === PICKUP) {
    if (passenger === IN_TAXI || stand !== passenger) return stays;
    return { state: encode({ ...place, passenger: IN_TAXI }), reward: -1, terminated: false };
  }
  if (passenger !== IN_TAXI || stand < 0) return stays;
  const arrived = stand === destination;
  return { state: encode({ ...place, passenger: stand }), reward: arrived ? 20 : -1, terminated: arrived };
}

/** FrozenLake: cross the ice from S to G without falling into a hole; the ice is slippery. Gymnasium's `FrozenLake-v1`. */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { isObject, type JsonObject } from '../../../wire/json.ts';
import type { ResetRequest, Start, Step } from '../environment.ts';
import { failure } from '../errors.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Discrete } from '../spaces/discrete.ts';
import { SeededEnvironment } from './seeded-environment.ts';
import { categorical, colorize, draw, type Transition, table } from './transitions.ts';

const maps: Readonly<Record<string, readonly string[]>> = {
  '4x4': ['SFFF', 'FHFH', 'FFFH', 'HFFG'],
  '8x8': ['SFFFFFFF', 'FFFFFFFF', 'FFFHFFFF', 'FFFFFHFF', 'FFFHFFFF', 'FHHFFFHF', 'FHFFHFHF', 'FFFHFFFG'],
};

const actions = ['Left', 'Down', 'Right', 'Up'] as const;
const moves = [
  [0, -1],
  [1, 0],
  [0, 1],
  [-1, 0],
] as const;

/** Number of drawn cells of random maps without a path after which drawing fails: a tenth of a second. */
const MAX_DRAWN_CELLS = 250_000;

export class FrozenLake extends SeededEnvironment<number, number> {
  readonly actionSpace = new Discrete(4);
  readonly observationSpace: Discrete;
  readonly #slippery: boolean;
  readonly #successRate: number;
  readonly #rewards: readonly number[];
  #map: readonly string[];
  #transitions: (state: number, action: number) => readonly Transition[];
  #state = 0;
  #lastAction: number | null = null;

  constructor(options: JsonObject = {}) {
    super();
    this.#map = mapOf(options);
    this.#slippery = options.is_slippery !== false;
    this.#successRate = Number(options.success_rate ?? 1 / 3);
    this.#rewards = (options.reward_schedule as number[] | undefined) ?? [1, 0, 0];
    this.observationSpace = new Discrete(this.#map.length * this.#columns);
    this.#transitions = table((state, action) => this.#outcomes(state, action), 4);
  }

  reset({ seed }: ResetRequest = {}): Start<number> {
    const cells = [...this.#map.join('')];
    const starts = cells.filter((cell) => cell === 'S').length;
    this.#state = categorical(
      cells.map((cell) => (cell === 'S' ? 1 / starts : 0)),
      this.reseed(seed),
    );
    this.#lastAction = null;
    return { observation: this.#state, info: { prob: 1 } };
  }

  step(action: number): Step<number> {
    this.check(action);
    const { state, reward, terminated, probability } = draw(this.#transitions(this.#state, action), this.random);
    this.#state = state;
    this.#lastAction = action;
    return { observation: state, reward, terminated, truncated: false, info: { prob: probability } };
  }

  get #columns(): number {
    return this.#map[0]!.length;
  }

  #letter(state: number): string {
    return this.#map[Math.floor(state / this.#columns)]![state % this.#columns]!;
  }

  #outcomes(state: number, action: number): Transition[] {
    if ('GH'.includes(this.#letter(state))) return [{ probability: 1, state, reward: 0, terminated: true }];
    if (!this.#slippery) return [{ probability: 1, ...this.#moved(state, action) }];
    const sideways = (1 - this.#successRate) / 2;
    return [(action + 3) % 4, action, (action + 1) % 4].map((direction) => ({
      probability: direction === action ? this.#successRate : sideways,
      ...this.#moved(state, direction),
    }));
  }

  #moved(from: number, direction: number): Omit<Transition, 'probability'> {
    const [down, right] = moves[direction]!;
    const columns = this.#columns;
    const row = Math.min(Math.max(Math.floor(from / columns) + down, 0), this.#map.length - 1);
    const column = Math.min(Math.max((from % columns) + right, 0), columns - 1);
    const state = row * columns + column;
    const letter = this.#letter(state);
    const kind = 'GHF'.indexOf(letter === 'S' ? 'F' : letter);
    return { state, reward: this.#rewards[kind]!, terminated: 'GH'.includes(letter) };
  }

  protected text(): string {
    const rows = this.#map.map((row) => [...row]);
    const [row, column] = [Math.floor(this.#state / this.#columns), this.#state % this.#columns];
    rows[row]![column] = colorize(rows[row]![column]!, 'red', { highlight: true });
    const said = this.#lastAction === null ? '' : `  (${actions[this.#lastAction]})`;
    return `${said}\n${rows.map((cells) => cells.join('')).join('\n')}\n`;
  }

  protected picture(): Image {
    const [rows, columns] = [this.#map.length, this.#columns];
    // Gymnasium's size: 64 pixels a cell, at most 512 a side.
    const cell = Math.max(4, Math.floor(Math.min(64, 512 / columns, 512 / rows)));
    const canvas = new Canvas(columns * cell, rows * cell, [220, 235, 250]);
    for (let state = 0; state < rows * columns; state += 1) {
      const [x, y] = [(state % columns) * cell, Math.floor(state / columns) * cell];
      const letter = this.#letter(state);
      if (letter === 'H') canvas.circle(x + cell / 2, y + cell / 2, cell * 0.38, [40, 70, 120]);
      if (letter === 'S') canvas.rectangle(x + cell * 0.1, y + cell * 0.1, cell * 0.8, cell * 0.8, [195, 225, 200]);
      if (letter === 'G') {
        canvas.line(x + cell * 0.35, y + cell * 0.15, x + cell * 0.35, y + cell * 0.85, [90, 60, 30], cell * 0.06);
        canvas.polygon(
          [
            [x + cell * 0.38, y + cell * 0.15],
            [x + cell * 0.8, y + cell * 0.3],
            [x + cell * 0.38, y + cell * 0.45],
          ],
          [220, 60, 60],
        );
      }
      canvas.line(x, y, x + cell, y, [180, 200, 230]);
      canvas.line(x, y, x, y + cell, [180, 200, 230]);
      if (state === this.#state) canvas.circle(x + cell / 2, y + cell * 0.55, cell * 0.24, [70, 150, 70]);
    }
    return canvas.image;
  }

  protected save(): JsonObject {
    return { map: [...this.#map], state: this.#state, lastAction: this.#lastAction };
  }

  protected load({ map, state, lastAction }: JsonObject): void {
    // A random map without a seed differs in each environment.
    this.#map = map as string[];
    this.#transitions = table((from, action) => this.#outcomes(from, action), 4);
    this.#state = state as number;
    this.#lastAction = lastAction as number | null;
  }
}

function mapOf({ desc, map_name = '4x4', random_map: random }: JsonObject): readonly string[] {
  if (desc !== undefined && desc !== null) {
    const rows = desc as string[];
    const square = rows.every((row) => row.length === rows[0]!.length);
    if (!square || !rows.some((row) => row.includes('S')))
      throw failure('invalid_options', 'options.make.desc has rows of one length, and an S in one of them');
    return rows;
  }
  if (isObject(random)) return randomMap(random);
  return map_name === null ? randomMap({}) : maps[map_name as string]!;
}

/** Returns a map that has a path from S to G: Gymnasium's `generate_random_map`. */
export function randomMap({ size = 8, p = 0.8, seed }: JsonObject): string[] {
  const side = size as number;
  const generator = new Generator((seed as number | null | undefined) ?? randomSeed());
  const frozen = Math.min(1, p as number);
  for (let drawn = 0; drawn < MAX_DRAWN_CELLS; drawn += side * side) {
    const cells: string[] = Array.from({ length: side * side }, () =>
      generator.weighted([frozen, 1 - frozen]) === 0 ? 'F' : 'H',
    );
    cells[0] = 'S';
    cells[cells.length - 1] = 'G';
    if (hasPath(cells, side))
      return Array.from({ length: side }, (_, row) => cells.slice(row * side, (row + 1) * side).join(''));
  }
  throw failure('invalid_options', `no map of ${side}x${side} with a path was found; raise options.make.random_map.p`);
}

function hasPath(cells: readonly string[], side: number): boolean {
  const open = [0];
  const seen = new Set(open);
  while (open.length > 0) {
    const state = open.pop()!;
    for (const [down, right] of moves) {
      const row = Math.floor(state / side) + down;
      const column = (state % side) + right;
      const next = row * side + column;
      if (row < 0 || row >= side || column < 0 || column >= side || seen.has(next) || cells[next] === 'H') continue;
      if (cells[next] === 'G') return true;
      seen.add(next);
      open.push(next);
    }
  }
  return false;
}

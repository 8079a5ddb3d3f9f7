/**
 * The worlds of `handfast/TextWorld-v0`: rooms on a grid, things in them, and one quest, drawn from a generator. Every world
 * can be solved: all rooms are connected, and the key is never in the chest that it opens.
 */
import type { Generator } from '../../../base/random/generator.ts';

export type Direction = 'north' | 'east' | 'south' | 'west';

export const directions: Readonly<Record<Direction, readonly [x: number, y: number]>> = {
  north: [0, -1],
  east: [1, 0],
  south: [0, 1],
  west: [-1, 0],
};

export interface Room {
  readonly name: string;
  /** Position on the grid. */
  readonly x: number;
  readonly y: number;
  readonly exits: Partial<Record<Direction, number>>;
}

/** The place of a thing: the number of a room, with the player, or in the chest. */
export type Place = number | 'player' | 'chest';

export interface World {
  readonly rooms: readonly Room[];
  /** The place of each thing at the start, by name. */
  readonly things: Readonly<Record<string, Place>>;
  /** The thing to bring to the first room. It lies in the chest. */
  readonly treasure: string;
  /** The room of the chest. */
  readonly chest: number;
}

const roomNames = [
  'hall',
  'kitchen',
  'library',
  'cellar',
  'attic',
  'garden',
  'workshop',
  'chapel',
  'pantry',
  'study',
  'gallery',
  'stable',
  'tower',
  'laundry',
  'armoury',
  'conservatory',
  'vault',
  'observatory',
  'dairy',
  'crypt',
];

const treasures = ['crown', 'goblet', 'sceptre', 'amulet'];
const clutter = ['lamp', 'rope', 'broom', 'spoon', 'candle', 'letter', 'coin', 'bottle', 'hammer', 'feather'];

/** Draws `count` different items. */
function several<Item>(generator: Generator, items: readonly Item[], count: number): Item[] {
  const left = [...items];
  return Array.from({ length: count }, () => left.splice(generator.integer(0, left.length), 1)[0]!);
}

/** Draws a world of `size` rooms (2 to 20) with `things` things that the quest does not need. */
export function drawWorld(generator: Generator, size: number, things: number): World {
  const names = several(generator, roomNames, size);
  const rooms: (Room & { exits: Partial<Record<Direction, number>> })[] = [{ name: names[0]!, x: 0, y: 0, exits: {} }];
  while (rooms.length < size) {
    const from = generator.integer(0, rooms.length);
    const way = generator.choice(Object.keys(directions) as Direction[]);
    const [x, y] = [rooms[from]!.x + directions[way][0], rooms[from]!.y + directions[way][1]];
    if (rooms.some((room) => room.x === x && room.y === y)) continue;
    rooms.push({ name: names[rooms.length]!, x, y, exits: {} });
    connect(rooms, from, rooms.length - 1);
  }
  // Some neighbours get a door, so that several paths exist.
  for (const [from, room] of rooms.entries()) {
    const to = rooms.findIndex(({ x, y }) => x === room.x + 1 && y === room.y);
    if (to >= 0 && generator.integer(0, 3) === 0) connect(rooms, from, to);
  }
  const chest = generator.integer(1, size);
  const treasure = generator.choice(treasures);
  const anywhere = (): number => generator.integer(0, size);
  const lying = several(generator, clutter, things).map((thing) => [thing, anywhere()] as const);
  return { rooms, treasure, chest, things: { ...Object.fromEntries(lying), key: anywhere(), [treasure]: 'chest' } };
}

function connect(
  rooms: readonly (Room & { exits: Partial<Record<Direction, number>> })[],
  from: number,
  to: number,
): void {
  for (const [one, other] of [
    [from, to],
    [to, from],
  ] as const) {
    const [x, y] = [rooms[other]!.x - rooms[one]!.x, rooms[other]!.y - rooms[one]!.y];
    const way = (Object.keys(directions) as Direction[]).find(
      (key) => directions[key][0] === x && directions[key][1] === y,
    )!;
    rooms[one]!.exits[way] = other;
  }
}

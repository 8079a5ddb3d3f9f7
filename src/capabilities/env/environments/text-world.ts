/**
 * `handfast/TextWorld-v0`: a small world of rooms for agents that act in words. Find the key, open the chest, bring the
 * treasure back to the first room. Each quarter of the quest is worth a quarter of a point.
 *
 * A seed draws the world, so that a null seed continues with another one; `world_seed` fixes one world for all episodes.
 */
import { Generator } from '../../../base/random/generator.ts';
import type { JsonObject } from '../../../wire/json.ts';
import type { Affordance, ResetRequest, Start, Step } from '../environment.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Text } from '../spaces/text.ts';
import { SeededEnvironment } from './seeded-environment.ts';
import { type Direction, directions, drawWorld, type Place, type World } from './text-world-map.ts';

/** Longest command, in characters. */
const MAX_COMMAND = 200;
const MAX_TEXT = 4000;
const QUESTS = ['has_key', 'chest_open', 'has_treasure', 'treasure_home'] as const;
type Quest = (typeof QUESTS)[number];

interface State {
  world: World;
  room: number;
  places: Record<string, Place>;
  isOpen: boolean;
  visited: number[];
  done: Quest[];
  /** The last text, which `ansi` shows again. */
  text: string;
}

const shortcuts: Readonly<Record<string, string>> = {
  n: 'go north',
  e: 'go east',
  s: 'go south',
  w: 'go west',
  l: 'look',
  i: 'inventory',
};

const list = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;

export class TextWorld extends SeededEnvironment<string, string> {
  readonly actionSpace = new Text(MAX_COMMAND, { charset: null });
  readonly observationSpace = new Text(MAX_TEXT, { charset: null });
  readonly #rooms: number;
  readonly #clutter: number;
  readonly #worldSeed: number | undefined;
  #state!: State;

  constructor({ rooms = 6, clutter = 3, world_seed }: JsonObject = {}) {
    super();
    this.#rooms = Number(rooms);
    this.#clutter = Number(clutter);
    this.#worldSeed = world_seed === undefined || world_seed === null ? undefined : Number(world_seed);
  }

  reset({ seed }: ResetRequest = {}): Start<string> {
    const random = this.reseed(seed);
    const from = this.#worldSeed === undefined ? random : new Generator(this.#worldSeed);
    const world = drawWorld(from, this.#rooms, this.#clutter);
    this.#state = { world, room: 0, places: { ...world.things }, isOpen: false, visited: [0], done: [], text: '' };
    const home = world.rooms[0]!.name;
    const text =
      `Somewhere in this house is a locked chest with a ${world.treasure} in it. Find the key, open the chest, ` +
      `take the ${world.treasure} to the ${home} and drop it there.\n\n${this.#look()}`;
    this.#state.text = text;
    return { observation: text, info: this.#info() };
  }

  step(action: string): Step<string> {
    this.check(action);
    this.random;
    const words = action
      .trim()
      .toLowerCase()
      .replace(/\s+/g, ' ')
      .replace(/\bthe /g, '');
    const text = this.#obey(shortcuts[words] ?? words);
    const gained = this.#advance();
    const terminated = this.#state.done.length === QUESTS.length;
    this.#state.text = terminated ? `${text} The quest is done.` : text;
    return {
      observation: this.#state.text,
      reward: gained / QUESTS.length,
      terminated,
      truncated: false,
      info: this.#info(),
    };
  }

  affordances(): readonly Affordance<string>[] {
    this.random;
    return this.#commands().map((command) => ({ action: command, description: command }));
  }

  #things(place: Place): string[] {
    return Object.keys(this.#state.places).filter((thing) => this.#state.places[thing] === place);
  }

  #isHere(): boolean {
    return this.#state.room === this.#state.world.chest;
  }

  #commands(): string[] {
    const { world, room, places, isOpen } = this.#state;
    const reachable = [...this.#things(room), ...(this.#isHere() && isOpen ? this.#things('chest') : [])];
    return [
      'look',
      'inventory',
      ...Object.keys(world.rooms[room]!.exits).map((way) => `go ${way}`),
      ...reachable.map((thing) => `take ${thing}`),
      ...this.#things('player').map((thing) => `drop ${thing}`),
      ...(this.#isHere() && !isOpen && places.key === 'player' ? ['open chest'] : []),
    ];
  }

  #look(): string {
    const { world, room, isOpen } = this.#state;
    const { name, exits } = world.rooms[room]!;
    const lying = this.#things(room);
    const inside = this.#things('chest');
    const content = inside.length > 0 ? `with a ${list(inside)} in it` : 'which is empty';
    const chest = isOpen ? ` There is an open chest, ${content}.` : ' There is a locked chest.';
    const things = lying.length === 0 ? '' : ` You see a ${lying.join(', a ')}.`;
    return `You are in the ${name}.${things}${this.#isHere() ? chest : ''} Ways out: ${list(Object.keys(exits))}.`;
  }

  #obey(command: string): string {
    const [verb = '', ...rest] = command.split(' ');
    const object = rest.join(' ');
    switch (verb) {
      case 'look':
        return this.#look();
      case 'inventory': {
        const held = this.#things('player');
        return held.length === 0 ? 'You carry nothing.' : `You carry a ${held.join(', a ')}.`;
      }
      case 'go':
        return this.#go(object);
      case 'take':
      case 'get':
        return this.#take(object);
      case 'drop':
        if (this.#state.places[object] !== 'player') return `You do not carry "${object}".`;
        this.#state.places[object] = this.#state.room;
        return `You drop the ${object}.`;
      case 'open':
      case 'unlock':
        return this.#open(object);
      default:
        return `That is not understood. Commands here: ${list(this.#commands())}.`;
    }
  }

  #go(way: string): string {
    const { world, room, visited } = this.#state;
    const to = Object.hasOwn(directions, way) ? world.rooms[room]!.exits[way as Direction] : undefined;
    if (to === undefined) return `There is no way "${way}".`;
    this.#state.room = to;
    if (!visited.includes(to)) visited.push(to);
    return this.#look();
  }

  #take(thing: string): string {
    const { places, room, isOpen } = this.#state;
    const place = Object.hasOwn(places, thing) ? places[thing] : undefined;
    if (place !== room && !(place === 'chest' && isOpen && this.#isHere())) return `There is no "${thing}" to take.`;
    places[thing] = 'player';
    return `You take the ${thing}.`;
  }

  #open(what: string): string {
    if (!/^chest( with key)?$/.test(what) || !this.#isHere()) return `There is no "${what}" to open.`;
    if (this.#state.isOpen) return 'The chest is open already.';
    if (this.#state.places.key !== 'player') return 'The chest is locked, and you do not have the key.';
    this.#state.isOpen = true;
    return `You open the chest. In it is a ${list(this.#things('chest'))}.`;
  }

  /** Returns the number of parts of the quest that are done now for the first time. */
  #advance(): number {
    const { world, places, isOpen, done } = this.#state;
    const now: Readonly<Record<Quest, boolean>> = {
      has_key: places.key === 'player',
      chest_open: isOpen,
      has_treasure: places[world.treasure] === 'player',
      treasure_home: places[world.treasure] === 0,
    };
    const gained = QUESTS.filter((quest) => now[quest] && !done.includes(quest));
    done.push(...gained);
    return gained.length;
  }

  #info(): JsonObject {
    const { world, room, done } = this.#state;
    return { room: world.rooms[room]!.name, score: done.length / QUESTS.length, admissible_commands: this.#commands() };
  }

  protected text(): string {
    return `${this.#state.text}\n`;
  }

  /** Draws a map of the rooms seen so far. */
  protected picture(): Image {
    const { world, room, visited } = this.#state;
    const [xs, ys] = [world.rooms.map(({ x }) => x), world.rooms.map(({ y }) => y)];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    const cell = 64;
    const canvas = new Canvas((Math.max(...xs) - left + 1) * cell, (Math.max(...ys) - top + 1) * cell, [245, 242, 235]);
    const centre = ({ x, y }: { x: number; y: number }): [number, number] => [
      (x - left + 0.5) * cell,
      (y - top + 0.5) * cell,
    ];
    for (const seen of visited) {
      for (const to of Object.values(world.rooms[seen]!.exits))
        canvas.line(...centre(world.rooms[seen]!), ...centre(world.rooms[to]!), [150, 140, 120], 6);
    }
    for (const seen of visited) {
      const [x, y] = centre(world.rooms[seen]!);
      canvas.rectangle(x - 22, y - 22, 44, 44, seen === 0 ? [190, 215, 190] : [215, 205, 185]);
      if (seen === world.chest) canvas.rectangle(x - 10, y + 4, 20, 12, [150, 100, 40]);
      if (seen === room) canvas.circle(x, y - 6, 8, [60, 90, 170]);
    }
    return canvas.image;
  }

  protected save(): JsonObject {
    return structuredClone({ ...this.#state }) as unknown as JsonObject;
  }

  protected load(state: JsonObject): void {
    this.#state = structuredClone(state) as unknown as State;
  }
}

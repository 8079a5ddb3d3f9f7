/**
 * Replies with all of a session or of a saved chat. One of less than some hundred thousand characters is made at once; a longer
 * one is read and written in as many turns of the event loop as it takes.
 */
import { inTurns, Turns } from '../../../base/turns.ts';
import { isObject, JsonText } from '../../../wire/json.ts';
import { MAX_REPLY_BYTES } from '../../contract/reply-size.ts';
import { type FoldedSession, LISTS, sizeOfWhole } from '../record/folded.ts';
import { replyWithImages, sentJson } from '../record/stored-image.ts';

const LONG_CHARACTERS = 512 * 1024;
/** Characters of a list that are read before others may have their turn. */
const PIECE_CHARACTERS = 128 * 1024;
/** Objects inside each other that lists are looked for in. */
const LEVELS = 3;

/** All long replies together take no more of a turn than one. */
const turns = new Turns();

/** True when reading and writing this number of characters takes several turns. */
export const takesTurns = (characters: number): boolean => characters >= LONG_CHARACTERS;

/**
 * Reads the lists of a session that are not in memory, the newest items first: the next reader does not wait. A session that is
 * too long for a reply is left as it is.
 */
export async function readWhole(session: FoldedSession): Promise<void> {
  const size = sizeOfWhole(session);
  if (takesTurns(size) && size <= MAX_REPLY_BYTES) await inTurns(reading(session), turns);
}

function* reading(session: FoldedSession): Generator<void, void> {
  for (const name of LISTS) {
    const list = session[name];
    // A list that was replaced meanwhile, or has lost its oldest to the store, is as it is.
    for (let held = -1; list.held > held && list.held < list.size; yield) {
      held = list.held;
      list.newest(held + PIECE_CHARACTERS);
    }
  }
}

/**
 * Returns the reply of a value that has about `characters` characters: its lists are written an item at a time. Nothing in it
 * may change meanwhile.
 */
export async function longReply<Value extends object>(value: Value, characters: number): Promise<JsonText<Value>> {
  if (!takesTurns(characters)) return replyWithImages(value);
  const text = await jsonInTurns(value);
  return new JsonText(
    () => text,
    () => value,
  );
}

/** Writes the JSON of a value. `ofItem` writes the items of its lists. */
export function jsonInTurns(value: object, ofItem?: (item: unknown) => string): Promise<string> {
  return inTurns(json(value, LEVELS, ofItem), turns);
}

function* json(
  value: unknown,
  levels: number,
  ofItem: ((item: unknown) => string) | undefined,
): Generator<void, string> {
  if (Array.isArray(value)) {
    let text = '';
    for (const item of value) {
      text += `${text === '' ? '' : ','}${ofItem?.(item) ?? whole(item) ?? 'null'}`;
      yield;
    }
    return `[${text}]`;
  }
  let text = '';
  for (const [name, member] of Object.entries(value as object)) {
    const isSplit = Array.isArray(member) || (levels > 0 && isPlain(member));
    const written = isSplit ? yield* json(member, levels - 1, ofItem) : whole(member);
    if (written !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${written}`;
  }
  return `{${text}}`;
}

/** Returns the JSON; undefined for a value that JSON does not have. */
const whole = (value: unknown): string | undefined => sentJson(() => JSON.stringify(value));

/** True for an object whose JSON is that of its members. */
const isPlain = (value: unknown): boolean => isObject(value) && Object.getPrototypeOf(value) === Object.prototype;

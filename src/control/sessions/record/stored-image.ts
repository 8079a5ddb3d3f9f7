/**
 * Long images (and audio) of conversations. The text of each is stored once, and entries, snapshots and saved chats refer to
 * it; in memory a stored image looks like any other, and reading its text reads the file.
 *
 * `control/sessions/store/store-images.ts` stores the texts. @see docs/decisions/0063-images-stored-once.md
 */
import type { Image, ImageReference } from '../../../protocol/session-types.ts';
import { JsonText } from '../../../wire/json.ts';

/** The stored texts of one holder: a session, or a saved chat. */
export interface ImageShelf {
  readonly holder: string;
  /** Returns the text of an image; that of an image without content where its file is lost. */
  read(key: string): string;
}

/** An image, or the reference of a prompt to one. */
export type AnyImage = Image | ImageReference;

/** Anything with images: a message, an item of a history, a prompt that waits. */
export interface WithImages {
  readonly images?: readonly AnyImage[];
}

interface Place {
  readonly shelf: ImageShelf;
  readonly key: string;
  /** Its members without the text. */
  readonly facts: object;
}

const places = new WeakMap<object, Place>();

/** The holder whose texts may be referred to while {@link storedJson} runs, and the characters that were left out so far. */
let holder: string | undefined;
let omitted = 0;
/** Gets the texts of images while {@link sentJson} runs. */
let texts: string[] | undefined;
/** Stands in the place of a text meanwhile; letters and digits, which no level of JSON escapes. */
const MARK = crypto.randomUUID().replaceAll('-', '');

/** Beginning of a reference in JSON. Inside of a text, quotes are escaped. */
const REFERENCE = '"stored":"';

/** True when a stored text may refer to images. */
export const mayRefer = (json: string): boolean => json.includes(REFERENCE);

/** Returns characters of the text with this key; 0 for a name that is not a key. */
export const charsOf = (key: string): number => Number(key.slice(key.lastIndexOf('-') + 1)) || 0;

/** Returns the place of the stored text of an image; undefined for one that has its text. */
export const placeOf = (image: AnyImage): Place | undefined => places.get(image);

/** Counts the characters of an image that are stored apart; 0 for one that has its text. */
export function storedChars(images: readonly AnyImage[] = []): number {
  return images.reduce((all, image) => all + charsOf(places.get(image)?.key ?? '-0'), 0);
}

/** Makes an image whose text is stored under `key`. */
export function storedImage<Any extends AnyImage>(image: Any, shelf: ImageShelf, key: string): Any {
  // Reading the text of one that is stored would read its file.
  const facts = places.get(image)?.facts ?? withoutText(image);
  const member = 'byteSize' in facts ? 'dataUrl' : 'data_url';
  const stored = Object.defineProperties(
    { ...facts },
    {
      [member]: { enumerable: true, get: () => shelf.read(key) },
      toJSON: {
        value: () => {
          if (holder === shelf.holder) {
            omitted += charsOf(key);
            return { ...facts, stored: key };
          }
          const text = shelf.read(key);
          if (texts === undefined) return { ...facts, [member]: text };
          texts.push(text);
          return { ...facts, [member]: MARK };
        },
      },
    },
  );
  places.set(stored, { shelf, key, facts });
  return stored as Any;
}

function withoutText(image: AnyImage): object {
  const { dataUrl: _text, data_url: _given, ...facts } = image as Partial<Image & ImageReference>;
  return facts;
}

/**
 * Returns the JSON of a value in which the stored images of `of` are references. `omitted`: the characters that it does not
 * have.
 */
export function storedJson(value: unknown, of?: string): { readonly text: string; readonly omitted: number } {
  holder = of;
  omitted = 0;
  try {
    return { text: JSON.stringify(value), omitted };
  } finally {
    holder = undefined;
  }
}

/**
 * Returns the text that `write` makes by `JSON.stringify`, on any level, with the texts of stored images put into it as they
 * are: writing them takes ten times as long. A stored text has no character that JSON escapes.
 */
export function sentJson(write: () => string): string {
  const found: string[] = [];
  texts = found;
  let json: string;
  try {
    json = write();
  } finally {
    texts = undefined;
  }
  if (found.length === 0) return json;
  const [first = '', ...rest] = json.split(MARK);
  return rest.reduce((all, part, at) => `${all}${found[at]}${part}`, first);
}

/** Makes a reply with images. */
export const replyWithImages = <Value>(value: Value): JsonText<Value> =>
  new JsonText(
    () => sentJson(() => JSON.stringify(value)),
    () => value,
  );

/** Returns an item as it was stored, with its images. */
function withImages<Item>(item: Item, shelf: ImageShelf): Item {
  const { images } = (item ?? {}) as WithImages;
  if (!Array.isArray(images)) return item;
  const read = images.map((image) => {
    const { stored, ...facts } = (image ?? {}) as AnyImage & { readonly stored?: unknown };
    return typeof stored === 'string' ? storedImage(facts as AnyImage, shelf, stored) : image;
  });
  return { ...item, images: read };
}

/** Returns the items of a stored list, with their images. Throws for a text that is not JSON. */
export function storedItems<Item>(text: string, shelf: ImageShelf): Item[] {
  const items = JSON.parse(text) as Item[];
  return mayRefer(text) ? items.map((item) => withImages(item, shelf)) : items;
}

/** Members of payloads that hold images, or items with images. */
const HOLDING = ['message', 'items', 'messages', 'history'] as const;

/** Returns the payload of an entry as it was stored, with its images. */
export function payloadWithImages<Payload>(payload: Payload, shelf: ImageShelf): Payload {
  const whole = withImages(payload, shelf) as Record<string, unknown>;
  const changed: Record<string, unknown> = {};
  for (const name of HOLDING) {
    const value = whole[name];
    if (Array.isArray(value)) changed[name] = value.map((item) => withImages(item, shelf));
    else if (value !== undefined) changed[name] = withImages(value, shelf);
  }
  const { head } = whole as { readonly head?: { readonly record?: { readonly queue?: readonly object[] } } };
  if (Array.isArray(head?.record?.queue)) changed.head = headWithImages(head as never, shelf);
  return { ...whole, ...changed } as Payload;
}

/** Returns the small part of a session as it was stored, with the images of its prompts. */
export function headWithImages<Head extends { readonly record: { readonly queue: readonly object[] } }>(
  head: Head,
  shelf: ImageShelf,
): Head {
  const queue = head.record.queue.map((prompt) => withImages(prompt, shelf));
  return { ...head, record: { ...head.record, queue } };
}

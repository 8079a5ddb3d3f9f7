/**
 * Prompts: the parameters of `session.send`, made into text and images that a turn can use.
 *
 * Two steps: {@link acceptPrompt} when a prompt arrives, which reads nothing but the message, and {@link readPrompt} when its
 * turn begins, which reads the images. A failure there fails the turn.
 * @see docs/protocol/session-rpc.md#prompts
 */
import { nextTurn } from '../../base/next-turn.ts';
import type { Image, ImageReference } from '../../protocol/session-types.ts';
import { markOf } from '../../protocol/session-words.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { type ImageOptions, readImage } from './prompt-image.ts';

/** A prompt as it waits. */
export interface AcceptedPrompt {
  /** Trimmed. */
  readonly text: string;
  readonly images: readonly ImageReference[];
}

/** A prompt as the model gets it. */
export interface ReadPrompt {
  readonly text: string;
  readonly images: readonly Image[];
}

export interface ReadPromptOptions extends ImageOptions {
  /** Images of one prompt at most. Default 16. */
  readonly maxImages?: number;
  /** Bytes of all images of a prompt together. Default 32 MiB. */
  readonly maxTotalBytes?: number;
}

const DEFAULT_MAX_IMAGES = 16;
/** Images of a prompt that keep their data: one more than its turn accepts. */
const MAX_WITH_DATA = DEFAULT_MAX_IMAGES + 1;
/** Characters of the path and of the type of an image; a longer one names none. */
const MAX_NAME_CHARS = 4096;
const DEFAULT_MAX_TOTAL_BYTES = 32 * 1024 * 1024;

/**
 * Reads the prompt in `text` and `images` as they were sent. `images` may be anything: a value that is no array counts as none,
 * and entries that are no objects or name no image are left out. Empty when neither text nor an image remains.
 *
 * @param now epoch milliseconds; part of the label of an image that came without a path
 */
export function acceptPrompt(
  text: string | undefined,
  images: unknown,
  now: () => number = Date.now,
): AcceptedPrompt | undefined {
  const given = Array.isArray(images) ? images.flatMap((entry) => referenceOf(entry, now)) : [];
  const references = given.map((each, at) => (at < MAX_WITH_DATA ? each : { path: each.path.slice(0, 1) }));
  const trimmed = (text ?? '').trim();
  return trimmed === '' && references.length === 0 ? undefined : { text: trimmed, images: references };
}

/**
 * Reads the images of a prompt and marks them in its text. Fails with `not_found`, `schema_violation`, `too_large` or
 * `runtime_error`; the messages are those the protocol lists, to be shown to the user as they are.
 */
export async function readPrompt(prompt: AcceptedPrompt, options: ReadPromptOptions): Promise<ReadPrompt> {
  const { maxImages = DEFAULT_MAX_IMAGES, maxTotalBytes = DEFAULT_MAX_TOTAL_BYTES } = options;
  if (prompt.images.length > maxImages) {
    throw fail('schema_violation', `too many images (${prompt.images.length}). max is ${maxImages}`);
  }
  const images: Image[] = [];
  let bytes = 0;
  // One after the other, so that a prompt over the limit is not read to its end first.
  for (const reference of prompt.images) {
    // Decoding a long image takes a whole turn of the event loop.
    await new Promise<void>(nextTurn);
    const image = await readImage(reference, options);
    images.push(image);
    bytes += image.byteSize;
    if (bytes > maxTotalBytes) throw fail('too_large', `images too large together. max is ${maxTotalBytes} bytes`);
  }
  return { text: marked(prompt.text, images), images };
}

/** Returns the text with an `[Image n]` or `[Audio n]` for every attachment that it does not name itself. */
function marked(text: string, images: readonly Image[]): string {
  const lower = text.toLowerCase();
  const marks = images.map(({ mimeType }, index) => markOf(mimeType, index + 1));
  return [text, ...marks.filter((mark) => !lower.includes(mark.toLowerCase()))].filter((part) => part !== '').join(' ');
}

function referenceOf(entry: unknown, now: () => number): ImageReference[] {
  if (!isObject(entry)) return [];
  const { path, data_url, dataUrl, mime_type, mimeType } = entry as Record<string, unknown>;
  const data = textOf(data_url) ?? textOf(dataUrl);
  const mime = (textOf(mime_type) ?? textOf(mimeType))?.slice(0, MAX_NAME_CHARS);
  const label = textOf(path)?.slice(0, MAX_NAME_CHARS) ?? (data === undefined ? undefined : `rpc-image-${now()}.png`);
  if (label === undefined) return [];
  return [
    { path: label, ...(mime !== undefined && { mime_type: mime }), ...(data !== undefined && { data_url: data }) },
  ];
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined;

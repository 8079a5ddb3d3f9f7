/**
 * Bounds the size of a tool's result, or of its input: results go into the history of every later request, into the
 * journal and to every client, so one large file must not be able to fill all three.
 *
 * It applies to each finished tool call, and to the results that agents report. Pure.
 */

/** A plain JSON value of at most the asked-for size. */
export interface BoundedValue {
  readonly value: unknown;
  /** True when something was left out. */
  readonly cut: boolean;
}

/** Room for the note where a text is cut, in bytes of JSON. */
const NOTE_BYTES = 64;
/** Texts shorter than this are not worth cutting. */
const SHORT_BYTES = 256;
/** Cuts are estimated by the share of a text; one with unevenly spread escapes needs another try. */
const ATTEMPTS = 4;

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/**
 * Returns the value as plain JSON within `maxBytes` of UTF-8. Long texts in it are cut in their middle, the longest
 * first, with a note of the removed size; a value that is large without long texts becomes the start of its JSON.
 * Values JSON cannot carry become `null`. `maxBytes` is at least 1024.
 */
export function boundedValue(value: unknown, maxBytes: number): BoundedValue {
  let json: string;
  try {
    json = JSON.stringify(value) ?? 'null';
  } catch {
    return { value: null, cut: true };
  }
  const bytes = Buffer.byteLength(json);
  const plain: unknown = JSON.parse(json);
  if (bytes <= maxBytes) return { value: plain, cut: false };

  const texts: number[] = [];
  collectTexts(plain, texts);
  let room = maxBytes - (bytes - texts.reduce((sum, length) => sum + length, 0)) - texts.length * NOTE_BYTES;
  for (let attempt = 0; attempt < ATTEMPTS && room > 0; attempt += 1, room *= 0.75) {
    const cut = cutTexts(plain, sharedLimit(texts, room));
    if (jsonBytes(cut) <= maxBytes) return { value: cut, cut: true };
  }
  return { value: beginning(json, bytes, maxBytes), cut: true };
}

/** Collects the sizes of all texts that may be cut, in bytes of JSON. */
function collectTexts(value: unknown, into: number[]): void {
  if (typeof value === 'string') {
    const bytes = value.length < SHORT_BYTES / 6 ? 0 : jsonBytes(value);
    if (bytes >= SHORT_BYTES) into.push(bytes);
  } else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) collectTexts(member, into);
  }
}

/**
 * Returns the largest size for each text at which all of them together fit: short ones stay whole, long ones share the
 * rest.
 */
function sharedLimit(sizes: readonly number[], room: number): number {
  let left = room;
  let limit = 0;
  for (const [index, size] of sizes.toSorted((one, other) => one - other).entries()) {
    limit = left / (sizes.length - index);
    if (size > limit) return limit;
    left -= size;
  }
  return limit;
}

function cutTexts(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') {
    if (value.length * 6 < SHORT_BYTES) return value;
    const bytes = jsonBytes(value);
    return bytes < SHORT_BYTES || bytes <= maxBytes ? value : cutText(value, (value.length * maxBytes) / bytes);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((member) => cutTexts(member, maxBytes));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, cutTexts(member, maxBytes)]));
}

/** Returns the start and the end of a text: most tools print the essential part at one of the two. */
function cutText(text: string, keep: number): string {
  const head = wholeAt(text, Math.floor(keep * 0.75));
  const tail = wholeAt(text, text.length - Math.floor(keep * 0.25));
  return `${text.slice(0, head)}\n[… ${tail - head} characters left out …]\n${text.slice(tail)}`;
}

/** Returns an index near `index` that does not split a surrogate pair. */
function wholeAt(text: string, index: number): number {
  const code = text.charCodeAt(index);
  return index > 0 && code >= 0xdc00 && code <= 0xdfff ? index - 1 : index;
}

function beginning(json: string, bytes: number, maxBytes: number): unknown {
  // Quotes and backslashes are escaped once more inside the text, which at worst doubles it.
  for (let keep = maxBytes - 256; ; keep = Math.floor(keep / 2)) {
    const note = `the whole is ${bytes} bytes of JSON, of which this is the beginning`;
    const value = { truncated: true, note, text: json.slice(0, wholeAt(json, Math.max(keep, 0))) };
    if (keep <= 0 || jsonBytes(value) <= maxBytes) return value;
  }
}

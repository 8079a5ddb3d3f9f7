/**
 * Makes text from elsewhere safe for a terminal: characters that could move the cursor, change the title, hide or
 * reorder characters are shown instead of obeyed. Line breaks and tabs stay. Pure.
 *
 * Rule: SECURITY.md#threat-model, terminals. It applies to all text of peers that people read, also through a pipe or a
 * file: it reaches a terminal sooner or later. Only data, for example the output of a program, is passed on byte for
 * byte.
 */

/**
 * Control characters except tab and line break, line separators, and characters that are not drawn or that reorder
 * others: direction marks, fillers, tags. Selectors between two forms of a symbol are not included.
 */
const INVISIBLE =
  /(?!\t|\n|\ufe0e|\ufe0f)[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** Makes one picture of two, e.g. a person and a computer. Anywhere else it is not seen. */
const JOINER = '\u200d';
const PICTURE = String.raw`\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?`;
const ENDS_WITH_PICTURE = new RegExp(`${PICTURE}$`, 'u');
const STARTS_WITH_PICTURE = /^\p{Extended_Pictographic}/u;
/** UTF-16 units of the longest and the shortest `PICTURE`. */
const MAX_PICTURE = 5;
const MIN_PICTURE = 2;

/** Returns the text with invisible characters written as `\u{…}`. */
export function escapeControls(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (character, at: number, whole: string) =>
      character === JOINER && joinsPictures(whole, at) ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`,
    );
}

/** Returns a value as JSON on one line, with the invisible characters as escapes: any parser reads an equal value. */
export function escapedJson(value: unknown): string {
  // A value without JSON is written as `undefined`.
  return escapedJsonText(String(JSON.stringify(value)));
}

/** Escapes the invisible characters of a text that is JSON: they occur only in its strings. */
export function escapedJsonText(json: string): string {
  const units = (character: string): string =>
    Array.from({ length: character.length }, (_, at) => {
      return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }).join('');
  return json.replace(INVISIBLE, units);
}

const joinsPictures = (text: string, at: number): boolean =>
  STARTS_WITH_PICTURE.test(text.slice(at + 1, at + 1 + MIN_PICTURE)) &&
  ENDS_WITH_PICTURE.test(text.slice(Math.max(0, at - MAX_PICTURE), at));

/** End of a text that may belong with the next piece: half of a line break, of a character, or of a joined picture. */
const MAY_CONTINUE = new RegExp(`(?:\\r|(?:${PICTURE}${JOINER})*(?:${PICTURE})?[\\ud800-\\udbff]?)$`, 'u');
/** Longest end that waits for the next piece, in UTF-16 units: several times the longest picture in use. */
const MAX_WAITING = 64;

/**
 * Cuts a text that arrives in pieces so that no piece ends inside a sequence that {@link escapeControls} has to see
 * whole. For replies whose pieces are escaped one by one.
 */
export class UnsplitText {
  #waiting = '';

  /** Adds a piece; gives the text that can be shown. */
  push(piece: string): string {
    const text = this.#waiting + piece;
    const waiting = MAY_CONTINUE.exec(text.slice(-MAX_WAITING))?.[0].length ?? 0;
    const cut = waiting < MAX_WAITING ? text.length - waiting : text.length;
    this.#waiting = text.slice(cut);
    return text.slice(0, cut);
  }

  /** Returns the text that waited for a further piece, which did not arrive. */
  end(): string {
    const text = this.#waiting;
    this.#waiting = '';
    return text;
  }
}

/**
 * Text from elsewhere, made fit for a terminal: what could move the cursor, change the title, hide or reorder characters
 * is shown instead of obeyed. Line breaks and tabs stay. Pure.
 *
 * Rule: SECURITY.md#threat-model, terminals. Used for all text of peers that people read, also through a pipe or a file: it reaches
 * a terminal sooner or later. Only data, for example the output of a program, is passed on byte for byte.
 */

/**
 * Control characters but tab and line break, line separators, and what is not drawn or reorders what is: direction marks,
 * fillers, tags. Not those that choose between two forms of a symbol.
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

/** The text with what is invisible written as `\u{…}`. */
export function escapeControls(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, (character, at: number, whole: string) =>
      character === JOINER && joinsPictures(whole, at) ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`,
    );
}

/** A value as JSON on one line, with the invisible characters as escapes: any parser reads an equal value. */
export function escapedJson(value: unknown): string {
  // A value without JSON is written as `undefined`.
  return escapedJsonText(String(JSON.stringify(value)));
}

/** The same of a text that is JSON: such characters stand in its strings only. */
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

/** What may belong to the next piece of a text: half of a line break, of a character, or of a joined picture. */
const MAY_CONTINUE = new RegExp(`(?:\\r|(?:${PICTURE}${JOINER})*(?:${PICTURE})?[\\ud800-\\udbff]?)$`, 'u');
/** Longest end that waits for the next piece, in UTF-16 units: several times the longest picture in use. */
const MAX_WAITING = 64;

/**
 * Cuts a text that comes in pieces so that no piece ends inside what {@link escapeControls} has to see whole. Used where
 * pieces of an answer are escaped one by one.
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

  /** What waited for a piece that does not come. */
  end(): string {
    const text = this.#waiting;
    this.#waiting = '';
    return text;
  }
}

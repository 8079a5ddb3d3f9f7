/**
 * Finds many texts in one text: the forms of known secrets. Adding one costs the same for any number of them, because a
 * client that sends new tokens makes the redactor add them message by message; one regular expression of all would be
 * compiled again for each. Pure.
 */

/** A form with its value. */
interface Form<T> {
  readonly text: string;
  readonly alone: boolean;
  readonly of: T;
}

/** Forms are grouped by their first two characters. */
const LEADING = 2;
const PAIRS = 65_536;

const isWordCharacter = (code: number): boolean =>
  (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122);

export class SecretSearch<T> {
  readonly #forms = new Map<string, T>();
  readonly #byStart = new Map<number, Form<T>[]>();
  /** 1 for pairs of characters with which a form may begin: most of a text is passed by this alone. */
  readonly #begins = new Uint8Array(PAIRS);

  /** Returns the value that was added for exactly this form. */
  get(form: string): T | undefined {
    return this.#forms.get(form);
  }

  has(form: string): boolean {
    return this.#forms.has(form);
  }

  /** Searches for a form from now on; of two additions of one form the first counts. `alone`: only where no word character is beside it. */
  add(text: string, alone: boolean, of: T): void {
    if (text.length < LEADING || this.#forms.has(text)) return;
    this.#forms.set(text, of);
    const pair = pairAt(text, 0);
    const forms = this.#byStart.get(pair) ?? [];
    const before = forms.findIndex((each) => each.text.length <= text.length);
    forms.splice(before < 0 ? forms.length : before, 0, { text, alone, of });
    this.#byStart.set(pair, forms);
    this.#begins[hash(pair)] = 1;
  }

  /** Returns the text with each form replaced, from left to right; of several at one position the longest. */
  replace(text: string, replacement: (form: string, of: T) => string): string {
    let clean = '';
    let from = 0;
    this.each(text, (form, of, at) => {
      clean += text.slice(from, at) + replacement(form, of);
      from = at + form.length;
    });
    return from === 0 ? text : clean + text.slice(from);
  }

  /** Returns true for a text with one of the forms. */
  isIn(text: string): boolean {
    let found = false;
    this.each(text, () => {
      found = true;
    });
    return found;
  }

  /** Calls `look` with each form in the text and where it begins, in the order of {@link replace}. */
  each(text: string, look: (form: string, of: T, at: number) => void): void {
    if (this.#forms.size === 0) return;
    for (let at = 0; at + LEADING <= text.length; ) {
      const pair = pairAt(text, at);
      const found = this.#begins[hash(pair)] === 1 ? this.#formAt(text, at, pair) : undefined;
      if (found === undefined) {
        at += 1;
        continue;
      }
      look(found.text, found.of, at);
      at += found.text.length;
    }
  }

  #formAt(text: string, at: number, pair: number): Form<T> | undefined {
    return this.#byStart
      .get(pair)
      ?.find((form) => text.startsWith(form.text, at) && (!form.alone || standsAlone(text, at, form.text.length)));
  }
}

const pairAt = (text: string, at: number): number => text.charCodeAt(at) * PAIRS + text.charCodeAt(at + 1);
const hash = (pair: number): number => (pair ^ (Math.floor(pair / PAIRS) * 31)) & (PAIRS - 1);
const standsAlone = (text: string, at: number, length: number): boolean =>
  !isWordCharacter(text.charCodeAt(at - 1)) && !isWordCharacter(text.charCodeAt(at + length));

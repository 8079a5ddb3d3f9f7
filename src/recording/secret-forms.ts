/**
 * The forms that one secret may have in a text: encodings of it, and parts where a sender has cut a text in pieces.
 * Pure.
 */
import { trimmedEnd } from '../base/trim-end.ts';
import { toAscii } from '../wire/ascii.ts';

/** Characters of base64 that depend on the secret alone, for each place it may have in a group of three bytes. */
function base64Forms(value: string): string[] {
  const bytes = Buffer.from(value);
  const forms: string[] = [];
  for (const offset of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(offset), bytes]);
    const text = trimmedEnd(padded.toString('base64'), '=');
    // The first characters mix with the text before, the last with the text after.
    const form = text.slice(Math.ceil((offset * 8) / 6), Math.floor((padded.length * 8) / 6));
    if (form.length >= 8) forms.push(form, form.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return forms;
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Returns the base32 forms of a value, for each position in a group of five bytes, in capitals and small letters. */
function base32Forms(value: string): string[] {
  const bits = [...Buffer.from(value)].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return [0, 1, 2, 3, 4].flatMap((offset) => {
    const own = bits.slice((5 - ((offset * 8) % 5)) % 5);
    const fives = own.match(/.{5}/g) ?? [];
    const form = fives.map((five) => BASE32[Number.parseInt(five, 2)]).join('');
    return form.length >= 8 ? [form, form.toLowerCase()] : [];
  });
}

/** Returns a text in the form that it has inside a JSON text. */
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/** Returns the value and its forms in JSON, in a URL, in base64, in hex, and in the other normal form of Unicode. */
export function encodingsOf(value: string): ReadonlySet<string> {
  const forms = new Set<string>();
  for (const form of [value, value.normalize('NFC'), value.normalize('NFD')]) {
    for (const each of [form, escaped(form), escaped(escaped(form)), toAscii(escaped(form))]) forms.add(each);
    for (const each of percentForms(form)) forms.add(each);
    for (const each of base64Forms(form)) forms.add(each);
    for (const each of base32Forms(form)) forms.add(each);
    const hex = Buffer.from(form).toString('hex');
    forms.add(hex).add(hex.toUpperCase());
  }
  return forms;
}

/**
 * Returns the forms of the value in a URL: in a query, in a path, in a form, with small or capital digits. A lone
 * surrogate has no such form.
 */
function percentForms(text: string): string[] {
  try {
    const query = encodeURIComponent(text);
    const all = [query, encodeURI(text), query.replaceAll('%20', '+')];
    return all.flatMap((form) => [form, form.replaceAll(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase())]);
  } catch {
    return [];
  }
}

/** Shortest part that is recognised. */
const MIN_PART_CHARS = 6;
/** Shortest secret that is looked for in parts. */
const MIN_WHOLE_CHARS = 12;

interface Parts {
  readonly value: string;
  readonly start: string;
  readonly end: string;
}

/** Returns the parts to search at the ends of texts; undefined for a secret that is too short for it. */
export const partsOf = (value: string): Parts | undefined =>
  value.length < MIN_WHOLE_CHARS
    ? undefined
    : { value, start: value.slice(0, MIN_PART_CHARS), end: value.slice(-MIN_PART_CHARS) };

/** Encodings that a sender cuts in pieces, as a program's output in hex or base64 is. */
export const cutForms = (value: string): readonly string[] => {
  const hex = Buffer.from(value).toString('hex');
  return [...new Set([hex, hex.toUpperCase(), ...base64Forms(value)])];
};

/** A secret, or an encoding of one, whose parts are searched for. */
interface Whole {
  readonly rule: string;
  readonly value: string;
}

type Range = readonly [from: number, to: number, rule: string];

/** A secret of which the first characters ended the last text at a place. */
interface Begun {
  readonly whole: Whole;
  readonly matched: number;
}

/** Bounds on places whose last text may be continued, and on secrets that may have begun at one. */
const MAX_PLACES = 1024;
const MAX_BEGUN = 8;
/** Characters at the end of a text in which a secret may begin. */
const MAX_BEGIN_CHARS = 256;

/** The first or last characters of many texts, found at a place of a text. */
class Ends {
  readonly #wholes = new Map<string, Whole[]>();
  /** 1 where a text begins with a character of this code, by its lower bits: most places of a text are passed by this alone. */
  readonly #begins = new Uint8Array(4096);

  add(end: string, whole: Whole): void {
    const wholes = this.#wholes.get(end);
    if (wholes === undefined) this.#wholes.set(end, [whole]);
    else wholes.push(whole);
    this.#begins[hashAt(end, 0)] = 1;
  }

  /** Returns the wholes whose end is at a position of the text. */
  at(text: string, place: number): readonly Whole[] {
    if (this.#begins[hashAt(text, place)] !== 1) return [];
    return this.#wholes.get(text.slice(place, place + MIN_PART_CHARS)) ?? [];
  }
}

const hashAt = (text: string, at: number): number => ((text.charCodeAt(at) << 6) ^ text.charCodeAt(at + 1)) & 4095;

/** Recognises secrets that a sender has cut: a stream's piece that ends with a secret's start, is its middle, or begins with its end. */
export class SecretParts {
  readonly #wholes: Whole[] = [];
  readonly #starts = new Ends();
  readonly #ends = new Ends();
  readonly #byFirst = new Map<string, Whole[]>();
  readonly #begun = new Map<string, readonly Begun[]>();
  /** All values: a piece that none of them has is not a middle. */
  #joined = '';
  #longest = 0;

  add(rule: string, parts: Parts | undefined): void {
    if (parts === undefined) return;
    const { value, start, end } = parts;
    const whole = { rule, value };
    this.#wholes.push(whole);
    this.#starts.add(start, whole);
    this.#ends.add(end, whole);
    this.#joined += `\n${value}`;
    const first = this.#byFirst.get(value[0] as string);
    if (first === undefined) this.#byFirst.set(value[0] as string, [whole]);
    else first.push(whole);
    this.#longest = Math.max(this.#longest, value.length);
  }

  /** Returns the text with each part replaced by the result of `placeholder`. */
  replace(text: string, placeholder: (rule: string, part: string) => string): string {
    let clean = text;
    for (const [from, to, rule] of this.#rangesOf(text).toReversed()) {
      clean = clean.slice(0, from) + placeholder(rule, clean.slice(from, to)) + clean.slice(to);
    }
    return clean;
  }

  /** Calls `look` with each part at the start or the end of a text. */
  each(text: string, look: (rule: string, from: number, to: number) => void): void {
    for (const [from, to, rule] of this.#rangesOf(text)) look(rule, from, to);
  }

  /**
   * Returns the number of characters at the start of a text that continue a secret which earlier texts at the same
   * place began, with its rule: the pieces of a streamed reply may have few characters. Characters before the sixth of
   * the secret have passed.
   */
  continued(place: string, text: string): readonly [length: number, rule: string] | undefined {
    if (this.#wholes.length === 0 || text === '') return undefined;
    const before = this.#begun.get(place) ?? [];
    this.#begun.delete(place);
    const next: Begun[] = [];
    let found: readonly [number, string] | undefined;
    for (const { whole, matched } of before) {
      const length = Math.min(whole.value.length - matched, text.length);
      if (!whole.value.startsWith(text.slice(0, length), matched)) continue;
      if (matched + length >= MIN_PART_CHARS && length > (found?.[0] ?? 0)) found = [length, whole.rule];
      if (matched + length < whole.value.length) next.push({ whole, matched: matched + length });
    }
    for (let from = Math.max(0, text.length - MAX_BEGIN_CHARS); from < text.length; from++) {
      for (const whole of this.#byFirst.get(text[from] as string) ?? []) {
        const matched = text.length - from;
        if (matched > 1 && whole.value[1] !== text[from + 1]) continue;
        if (matched < whole.value.length && whole.value.startsWith(text.slice(from))) next.push({ whole, matched });
      }
      if (next.length >= MAX_BEGUN) break;
    }
    if (next.length > 0) {
      if (this.#begun.size >= MAX_PLACES) this.#begun.delete(this.#begun.keys().next().value as string);
      this.#begun.set(place, next);
    }
    return found;
  }

  /** Returns the ranges of parts: a whole text, at its start, at its end. Only both ends are searched: a text may be long. */
  #rangesOf(text: string): readonly Range[] {
    const { length } = text;
    if (length < MIN_PART_CHARS || this.#wholes.length === 0) return [];
    if (length < this.#longest && this.#joined.includes(text)) {
      const whole = this.#wholes.find(({ value }) => length < value.length && value.includes(text));
      if (whole !== undefined) return [[0, length, whole.rule]];
    }
    const last = length - MIN_PART_CHARS;
    let head: Range | undefined;
    for (let at = Math.min(last, this.#longest - MIN_PART_CHARS - 1); at >= 0 && head === undefined; at--) {
      const to = at + MIN_PART_CHARS;
      const whole = this.#ends.at(text, at).find(({ value }) => to < value.length && value.endsWith(text.slice(0, to)));
      if (whole !== undefined) head = [0, to, whole.rule];
    }
    for (let from = Math.max(head?.[1] ?? 0, length - this.#longest + 1); from <= last; from++) {
      const whole = this.#starts
        .at(text, from)
        .find(({ value }) => length - from < value.length && value.startsWith(text.slice(from)));
      if (whole !== undefined) return [...(head === undefined ? [] : [head]), [from, length, whole.rule]];
    }
    return head === undefined ? [] : [head];
  }
}

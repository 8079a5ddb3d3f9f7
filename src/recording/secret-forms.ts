/**
 * The forms in which one secret may stand in a text: encodings of it, and parts where a sender has cut a text in pieces. Pure;
 * used by the redactor.
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
    // The first characters mix with what is before, the last with what follows.
    const form = text.slice(Math.ceil((offset * 8) / 6), Math.floor((padded.length * 8) / 6));
    if (form.length >= 8) forms.push(form, form.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return forms;
}

/** A text as it stands inside a JSON text. */
const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/** The value and what it becomes in JSON, in a URL, in base64, in hex, and in the other normal form of Unicode. */
export function encodingsOf(value: string): ReadonlySet<string> {
  const forms = new Set<string>();
  for (const form of [value, value.normalize('NFC'), value.normalize('NFD')]) {
    for (const each of [form, escaped(form), escaped(escaped(form)), toAscii(escaped(form))]) forms.add(each);
    for (const each of percentForms(form)) forms.add(each);
    for (const each of base64Forms(form)) forms.add(each);
    const hex = Buffer.from(form).toString('hex');
    forms.add(hex).add(hex.toUpperCase());
  }
  return forms;
}

/** The value in a URL: in a query, in a path, in a form, with small or capital digits. A lone surrogate has no such form. */
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

/** What to look for at the ends of texts; undefined for a secret that is too short for it. */
export const partsOf = (value: string): Parts | undefined =>
  value.length < MIN_WHOLE_CHARS
    ? undefined
    : { value, start: value.slice(0, MIN_PART_CHARS), end: value.slice(-MIN_PART_CHARS) };

/** Recognises secrets that a sender has cut: a stream's piece that ends with a secret's start, is its middle, or begins with its end. */
export class SecretParts {
  readonly #secrets: { readonly rule: string; readonly parts: Parts }[] = [];

  add(rule: string, parts: Parts | undefined): void {
    if (parts !== undefined) this.#secrets.push({ rule, parts });
  }

  /** The text with each part replaced by what `placeholder` gives for it. */
  replace(text: string, placeholder: (rule: string, part: string) => string): string {
    let clean = text;
    for (const { rule, parts } of this.#secrets) {
      if (clean.length < MIN_PART_CHARS) break;
      for (const [from, to] of rangesOf(clean, parts).toReversed()) {
        clean = clean.slice(0, from) + placeholder(rule, clean.slice(from, to)) + clean.slice(to);
      }
    }
    return clean;
  }

  /** Calls `look` with each part at the start or the end of a text. */
  each(text: string, look: (rule: string, from: number, to: number) => void): void {
    if (text.length < MIN_PART_CHARS) return;
    for (const { rule, parts } of this.#secrets) {
      const reach = parts.value.length;
      if (text.length <= 2 * reach) for (const [from, to] of rangesOf(text, parts)) look(rule, from, to);
      else {
        for (const [from, to] of rangesOf(text.slice(0, reach), parts)) if (from === 0) look(rule, from, to);
        const shift = text.length - reach;
        for (const [from, to] of rangesOf(text.slice(shift), parts)) {
          if (to === reach) look(rule, shift + from, shift + to);
        }
      }
    }
  }
}

/** Where parts of a secret are: all of a text, at its start, at its end. */
function rangesOf(text: string, { value, start, end }: Parts): readonly (readonly [from: number, to: number])[] {
  if (text.length < value.length && value.includes(text)) return [[0, text.length]];
  const ranges: (readonly [number, number])[] = [];
  const to = text.indexOf(end) + MIN_PART_CHARS;
  if (to >= MIN_PART_CHARS && to < value.length && value.endsWith(text.slice(0, to))) ranges.push([0, to]);
  const from = text.lastIndexOf(start);
  const isStart = from >= 0 && text.length - from < value.length && value.startsWith(text.slice(from));
  if (isStart && from >= (ranges[0]?.[1] ?? 0)) ranges.push([from, text.length]);
  return ranges;
}

/**
 * Removes secrets from messages before any part of them is stored or compared. A secret becomes a placeholder that
 * counts the values of its rule: the same secret has the same placeholder everywhere in a recording, and contains no
 * part of the secret, not even a hash, which would allow guessing.
 *
 * Three kinds of rules: names of members whose text is a secret (`field:`), values that are known beforehand or were
 * found by a name (`env:`, `value:`), and shapes of keys in any text (`pattern:`).
 * @see docs/record-replay.md#secrets
 */
import { parseNested } from '../wire/depth.ts';
import { isObject } from '../wire/json.ts';
import { eachView, folded, foldedText, foldedView, type View, withoutCut } from './decoded-views.ts';
import { EncodedTexts, TOO_MUCH } from './encoded-texts.ts';
import type { Redacted, SkippedSecret } from './format.ts';
import { cutForms, encodingsOf, partsOf, SecretParts } from './secret-forms.ts';
import { isSecretFlag, isSecretHeader, isSecretName } from './secret-names.ts';
import { SecretSearch } from './secret-search.ts';
import { eachEncoded, replaceEncoded, replaceShapes } from './secret-shapes.ts';

/** Shortest value that is searched for in texts: shorter ones are parts of ordinary words. */
export const MIN_SECRET_CHARS = 8;
/** Values that are searched for at most; each costs time with every text. */
const MAX_VALUES = 1000;
/** Bound on values whose hex and base64 are searched in pieces too. */
const MAX_CUT_VALUES = 64;
/** Depth to which texts that hold JSON are opened. */
const MAX_INNER = 3;
/** Longest text that is opened as JSON, in characters. */
const MAX_INNER_CHARS = 1024 * 1024;
const MAX_DEPTH = 1024;

/** A secret that is known before the first message. */
export interface KnownSecret {
  /** Its rule in the manifest, e.g. `env:API_KEY`. Never the value. */
  readonly rule: string;
  readonly value: string;
}

export interface RedactorOptions {
  readonly secrets?: readonly KnownSecret[];
  /** Names of further members whose text is a secret. */
  readonly fields?: readonly string[];
}

/** Placeholders in a text. */
export const PLACEHOLDER = /\[redacted:[\w.:-]{1,100}:\d{1,9}\]/g;

/** Returns true for a text that has a placeholder. */
export const hasPlaceholder = (text: string): boolean => text.includes('[redacted:') && text.search(PLACEHOLDER) >= 0;

/** The finds of one rule so far. */
interface Found {
  count: number;
  readonly values: Map<string, string>;
}

/** A range of a text whose decoded form is a value, or a part of one. */
interface Escaped {
  readonly from: number;
  readonly to: number;
  readonly rule: string;
  readonly value: string;
}

/** Shortest base64 that is opened. */
const MIN_ENCODED_CHARS = 16;
/** Hex of the shortest value that is searched for. */
const HEX = /[\da-f]{16}/i;
/** Characters that an escape may have at the cut end of a piece. */
const MAX_CUT = 10;

/** Members that name the stream of which an object is a piece. */
const STREAMS = ['session_id', 'req_id', 'task_id'] as const;

export class Redactor {
  readonly #fields: ReadonlySet<string>;
  readonly #found = new Map<string, Found>();
  /** Placeholder by value: of two rules for one value the first counts. */
  readonly #placeholders = new Map<string, string>();
  /** Rule by each form of a value that is searched for. */
  readonly #forms = new SecretSearch<{ readonly rule: string; readonly value: string }>();
  /** Rule by each form of a value in which case, normal form, and plus or space do not matter. */
  readonly #folded = new SecretSearch<{ readonly rule: string; readonly value: string }>();
  readonly #parts = new SecretParts();
  readonly #texts = new EncodedTexts();
  /** The objects around a member, with the streams they belong to. */
  #place = '';
  /** Length of the longest value that is searched for. */
  #longest = 0;
  readonly #skipped: SkippedSecret[] = [];
  #values = 0;

  constructor({ secrets = [], fields = [] }: RedactorOptions = {}) {
    this.#fields = new Set(fields);
    for (const { rule, value } of secrets) {
      if (value.trim() === '') continue;
      const reason = this.#learn(rule, value);
      if (reason !== undefined) this.#skipped.push({ rule: name(rule), reason });
    }
  }

  /** Returns the same message without secrets; the message itself when it contains none. */
  message<T>(message: T): T {
    this.#texts.begin();
    this.#place = '';
    return this.#value(message, MAX_INNER, '', 0) as T;
  }

  /** Returns the same text without secrets. */
  text(text: string): string {
    this.#texts.begin();
    return this.#text(text, MAX_INNER, false);
  }

  /** Redactions so far, by rule. */
  get redacted(): readonly Redacted[] {
    return [...this.#found].map(([rule, { count, values }]) => ({ rule, count, values: values.size }));
  }

  /** Named secrets that are not searched for. */
  get skipped(): readonly SkippedSecret[] {
    return this.#skipped;
  }

  #value(value: unknown, inner: number, path: string, depth: number): unknown {
    // The names of messages are the protocol's: a weak password that is the same word must not make them unreadable.
    if (typeof value === 'string') {
      const isName = depth === 1 && (path === 'type' || path === 'method');
      return isName ? this.#text(value, inner, true) : this.#piece(value, inner, path);
    }
    if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return value;
    if (Array.isArray(value)) {
      const bytes = bytesOf(value);
      if (bytes !== undefined && inner > 0 && this.#isSecret(bytes, inner - 1)) {
        return this.#placeholder('pattern:bytes', bytes.toString('base64'));
      }
      const list = value.map((each, at) => {
        const named = nameBefore(value, at);
        return named === undefined
          ? this.#value(each, inner, '', depth + 1)
          : this.#secret(`field:${named}`, each, inner, depth);
      });
      return list.some((each, at) => each !== value[at]) ? list : value;
    }
    return this.#object(value as Record<string, unknown>, inner, depth);
  }

  /** Redacts a text of a message, which may continue the one before it at its place. */
  #piece(text: string, inner: number, member: string): string {
    const [length, rule] = this.#parts.continued(`${this.#place}.${member}`, text) ?? [0, ''];
    if (length === 0) return this.#text(text, inner, false);
    return this.#placeholder(`${rule}.part`, text.slice(0, length)) + this.#text(text.slice(length), inner, false);
  }

  #object(object: Record<string, unknown>, inner: number, depth: number): unknown {
    const place = this.#place;
    const of = STREAMS.map((name) => object[name]).filter((id) => typeof id === 'string');
    this.#place = `${place}/${of.join()}`;
    const clean = this.#members(object, inner, depth);
    this.#place = place;
    return clean;
  }

  #members(object: Record<string, unknown>, inner: number, depth: number): unknown {
    let changed = false;
    const named = secretOfPair(object, this.#fields);
    const entries = Object.entries(object).map(([key, member]): [string, unknown] => {
      const kept = this.#text(key, 0, true);
      const isSecret = this.#fields.has(key) || isSecretName(key);
      const value = isSecret
        ? this.#secret(`field:${key}`, member, inner, depth)
        : key === named?.member
          ? this.#secret(`field:${named.rule}`, member, inner, depth)
          : this.#value(member, inner, key, depth + 1);
      changed ||= kept !== key || value !== member;
      return [kept, value];
    });
    return changed ? Object.fromEntries(entries) : object;
  }

  /** Redacts the value of a member that is a secret by its name. Objects below such a name are settings or schemas. */
  #secret(rule: string, value: unknown, inner: number, depth: number): unknown {
    if (typeof value === 'string') {
      if (value === '' || isOnlyPlaceholder(value)) return value;
      // Later messages may have the value at places that no name marks.
      const [, scheme = '', bare = value] = /^(Bearer |Basic )?(.*)$/is.exec(value) ?? [];
      if (!this.#placeholders.has(bare)) this.#learn(rule, bare);
      return scheme + this.#placeholder(this.#forms.get(bare)?.rule ?? rule, bare);
    }
    if (typeof value === 'number' && /passw|passphrase|secret/i.test(rule))
      return this.#placeholder(rule, String(value));
    if (Array.isArray(value))
      return value.map((each) =>
        isObject(each) ? this.#value(each, inner, '', depth + 1) : this.#secret(rule, each, inner, depth),
      );
    return this.#value(value, inner, '', depth + 1);
  }

  #text(text: string, inner: number, isName: boolean): string {
    if (text.length < 6) return text;
    let clean = text;
    if (inner > 0) clean = this.#inner(clean, inner);
    clean = this.#forms.replace(clean, (form, { rule, value }) =>
      isName && isWordLike(value) ? form : this.#placeholder(rule, value),
    );
    clean = this.#escaped(clean, inner, isName);
    if (isName) return clean.length < MIN_ENCODED_CHARS ? clean : this.#encoded(clean, 1);
    clean = replaceShapes(clean, (shape, secret, isCertain) => {
      if (isCertain) this.#learn(`pattern:${shape}`, secret);
      return this.#placeholder(this.#forms.get(secret)?.rule ?? `pattern:${shape}`, secret);
    });
    clean = this.#parts.replace(clean, (rule, part) => this.#placeholder(`${rule}.part`, part));
    return inner > 0 && clean.length <= MAX_INNER_CHARS ? this.#encoded(clean, inner) : clean;
  }

  /** Replaces values in a spelling that a decoder undoes. */
  #escaped(text: string, inner: number, isName: boolean): string {
    if (this.#longest === 0) return text;
    const found: Escaped[] = [];
    const add = ({ starts, ends }: View, at: number, length: number, rule: string, value?: string): void => {
      const [from, to] = [starts[at]!, ends[at + length - 1]!];
      found.push({ from, to, rule, value: value ?? text.slice(from, to) });
    };
    const ignoringCase = (view: View): void =>
      this.#folded.each(view.text, (form, { rule, value }, at) => add(view, at, form.length, rule, value));
    // Names of hosts and of headers, and the digits of hex, have no case.
    const hasNoCase = isName ? text.length >= MIN_SECRET_CHARS : text.includes('://') || HEX.test(text);
    if (hasNoCase && this.#folded.isIn(folded(text))) ignoringCase(foldedText(text));
    eachView(text, this.#longest, (view) => {
      this.#forms.each(view.text, (form, { rule, value }, at) => {
        if (!((isName || view.joined) && isWordLike(value))) add(view, at, form.length, rule, value);
      });
      ignoringCase(foldedView(view));
      if (isName) return;
      const isPart = (from: number, to: number): boolean =>
        (from === 0 && view.starts[0] === 0) || (to >= view.text.length - MAX_CUT && view.ends.at(-1) === text.length);
      this.#parts.each(withoutCut(view.text), (rule, from, to) => {
        if (isPart(from, to)) add(view, from, to - from, `${rule}.part`);
      });
      // Only base64 that a decoder uncovered: the caller replaces base64 of the text itself.
      if (inner > 0 && view.text.length <= MAX_INNER_CHARS) {
        eachEncoded(view.text, (bytes, at, length) => {
          const isPlain = view.ends[at + length - 1]! - view.starts[at]! === length;
          if (!isPlain && this.#isSecret(bytes, 0)) add(view, at, length, 'pattern:base64');
        });
      }
    });
    return found.length === 0 ? text : this.#withoutRanges(text, found);
  }

  #withoutRanges(text: string, found: Escaped[]): string {
    // Of those that begin at one place the longest.
    found.sort((a, b) => a.from - b.from || b.to - a.to);
    let clean = '';
    let done = 0;
    for (const { from, to, rule, value } of found) {
      if (to <= done) continue;
      // The rest of an overlapping value is replaced with the one before.
      if (from >= done) clean += text.slice(done, from) + this.#placeholder(rule, value);
      done = to;
    }
    return clean + text.slice(done);
  }

  /** Replaces base64 of a text that has a secret, also of base64: the whole is replaced, since a rest could not be read. */
  #encoded(text: string, inner: number): string {
    return replaceEncoded(
      text,
      (bytes) => this.#isSecret(bytes, inner - 1),
      (shape, encoded) => this.#placeholder(`pattern:${shape}`, encoded),
    );
  }

  /** Returns true for bytes that hold a text with a secret, also packed, and for bytes that unpack to too much. */
  #isSecret(bytes: Buffer, inner: number): boolean {
    const text = this.#texts.of(bytes);
    return text === TOO_MUCH || (text !== undefined && this.#text(text, inner, false) !== text);
  }

  /** Redacts a text that is JSON itself: members of it may be secrets by their names. */
  #inner(text: string, inner: number): string {
    if (text.length > MAX_INNER_CHARS || !/^\s*[[{]/.test(text)) return text;
    let value: unknown;
    try {
      value = parseNested(text, MAX_DEPTH);
    } catch {
      return text;
    }
    if (typeof value !== 'object') return text;
    const clean = this.#value(value, inner - 1, '', 1);
    return clean === value ? text : JSON.stringify(clean);
  }

  #placeholder(rule: string, value: string): string {
    const key = name(rule);
    let found = this.#found.get(key);
    if (found === undefined) {
      found = { count: 0, values: new Map() };
      this.#found.set(key, found);
    }
    found.count += 1;
    let placeholder = this.#placeholders.get(value) ?? found.values.get(value);
    placeholder ??= `[redacted:${key}:${found.values.size + 1}]`;
    found.values.set(value, placeholder);
    this.#placeholders.set(value, placeholder);
    return placeholder;
  }

  /** Searches for a value from now on; a reason when it does not. */
  #learn(rule: string, value: string): string | undefined {
    if (value.length < MIN_SECRET_CHARS)
      return `shorter than ${MIN_SECRET_CHARS} characters: replaced in its own field only`;
    if (this.#forms.has(value)) return undefined;
    if (this.#values >= MAX_VALUES) {
      const reason = `more than ${MAX_VALUES} values: from here on replaced where they are found only`;
      // One line for all of them: a client may send any number.
      if (this.#values++ === MAX_VALUES) this.#skipped.push({ rule: name(rule), reason });
      return undefined;
    }
    this.#values += 1;
    for (const form of encodingsOf(value)) this.#forms.add(form, isWordLike(form), { rule, value });
    this.#longest = Math.max(this.#longest, value.length);
    if (isWordLike(value)) return undefined;
    this.#parts.add(rule, partsOf(value));
    if (this.#values <= MAX_CUT_VALUES) for (const form of cutForms(value)) this.#parts.add(rule, partsOf(form));
    this.#folded.add(folded(value), false, { rule, value });
    this.#folded.add(Buffer.from(value).toString('hex'), false, { rule, value });
    return undefined;
  }
}

/** Returns the bytes in a list of bytes, with or without a sign. */
function bytesOf(list: readonly unknown[]): Buffer | undefined {
  const isByte = (one: unknown): one is number => Number.isInteger(one) && Number(one) >= -128 && Number(one) <= 255;
  return list.length >= MIN_SECRET_CHARS && list.every(isByte) ? Buffer.from(list) : undefined;
}

/**
 * Returns true for a value that looks like a word: it counts only as a separate word, as "password" does not in
 * "passwords".
 */
const isWordLike = (value: string): boolean => value.length < 16 && /^(?:\p{Lu}?\p{Ll}+|\p{Lu}+)$/u.test(value);

const isOnlyPlaceholder = (text: string): boolean =>
  /^(?:Bearer |Basic )?\[redacted:[\w.:-]{1,100}:\d{1,9}\]$/i.test(text);

/** Returns a rule in the form for placeholders and manifests. */
const name = (rule: string): string => rule.replace(/[^\w.:-]/g, '_').slice(0, 90);

/**
 * Returns the name that the previous element gives: the option of a command (`["--token", "…"]`), or a header
 * (`["Cookie", "…"]`).
 */
function nameBefore(list: readonly unknown[], at: number): string | undefined {
  const [before, value] = [list[at - 1], list[at]];
  if (typeof before !== 'string' || typeof value !== 'string') return undefined;
  if (isSecretFlag(before) && !value.startsWith('-')) return before.replace(/^-+/, '');
  // A list may also have the names of headers alone.
  return isSecretHeader(before) && value.length >= MIN_SECRET_CHARS && /\d/.test(value) ? before : undefined;
}

/** Returns the secret in `{name: "Authorization", value: "…"}`, the form of headers and variables in lists. */
function secretOfPair(
  object: Record<string, unknown>,
  fields: ReadonlySet<string>,
): { readonly member: string; readonly rule: string } | undefined {
  if (typeof object.value !== 'string') return undefined;
  const key = object.name ?? object.key ?? object.header;
  if (typeof key !== 'string') return undefined;
  return fields.has(key) || isSecretName(key) ? { member: 'value', rule: key } : undefined;
}

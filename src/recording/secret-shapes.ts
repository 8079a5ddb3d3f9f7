/**
 * Finds secrets in a text by their surroundings and by their shape: keys in the formats of services, `NAME=value`,
 * headers, options of commands, and base64. Pure. Each search takes a time that grows only with the length of the text:
 * both sides of a recorder choose the texts.
 */
import { isSecretHeader, isSecretName } from './secret-names.ts';

/** Shapes of keys in any text; the group `secret` is replaced, or all of it. No part of a text may be scanned again for each start in it. */
const PATTERNS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['private_key', /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g],
  ['jwt', /\beyJ(?:(?!-eyJ)[\w-]){10,}\.[\w-]{10,}\.[\w-]*/g],
  ['api_key', /\b(?:sk|rk|pk)[-_](?:[A-Za-z0-9]+[-_]){0,4}[A-Za-z0-9]{16,}[\w-]*/g],
  [
    'api_key',
    /\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{20,}|xox[a-z]-[\w-]{10,})/g,
  ],
  ['api_key', /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}/g],
  ['bearer', /\b(?:Bearer|Basic)\s+(?<secret>(?=[^\s"',;]*\d)[\w.~+/=-]{8,})/gi],
  ['url', /:\/\/[^\s/:@"']{0,100}:(?<secret>[^\s/@"']{1,200})@/g],
  ['url', /[?&](?:access_token|auth_token|token|api_key|apikey|sig|signature)=(?<secret>[^\s&#"'?]{8,})/gi],
];

/** Returns the replacement of a secret. `isCertain`: it may be searched in other texts, too. */
export type Replacement = (shape: string, secret: string, isCertain: boolean) => string;

/** Returns the text with each secret replaced that its shape or its name shows. */
export function replaceShapes(text: string, replacement: Replacement): string {
  let clean = text;
  for (const [name, pattern] of PATTERNS) {
    clean = clean.replace(pattern, (whole, ...rest) => {
      const groups = rest.at(-1) as { secret?: string } | string;
      const secret = typeof groups === 'object' ? (groups.secret ?? whole) : whole;
      if (isReplaced(whole)) return whole;
      const at = whole.lastIndexOf(secret);
      return whole.slice(0, at) + replacement(name, secret, true) + whole.slice(at + secret.length);
    });
  }
  return MAY_HAVE_NAME.test(clean) ? replaceAssigned(clean, replacement) : clean;
}

const isReplaced = (text: string): boolean => text.includes('[redacted:');

/** No name of a secret is without one of these. */
const MAY_HAVE_NAME = /token|key|secret|passw|passphrase|credential|authorization|cookie|_?(?:PASS|PAT|AUTH|DSN)\b/i;

/** A name and the text between it and its value: `NAME=`, `name: `, `"name":"`, also inside JSON in a text; `--name `. */
const NAME =
  /(?<![\w.-])(?<flag>--)?(?<name>[A-Za-z_][\w.-]{0,99})(?:(?<quote>\\{0,8}["'])?(?<mark>\s{0,20}(?::=|=>|[:=])\s{0,20})|(?<=--[\w.-]{1,100})\s{1,20})(?<open>\\{0,8}["'])?/g;
/**
 * A value without quotes, which ends at the character that separates it from the next one in a list, an object, a form
 * or a text.
 */
const BARE = /[^\s"',;&}\\]+/y;
/** The value of a header, which may have spaces: to the end of its line, or of the text in quotes around it. */
const HEADER = /[^\r\n"'\\]+/y;
const HAS_DIGIT = /\d/;
const MIN_CHARS = 8;

function replaceAssigned(text: string, replacement: Replacement): string {
  let clean = '';
  let from = 0;
  /** Up to here the words of the text were seen to be no secrets: a run of names must not be looked through once for each of them. */
  let seen = 0;
  NAME.lastIndex = 0;
  for (let found = NAME.exec(text); found !== null; found = NAME.exec(text)) {
    const { name = '', quote, mark, open } = found.groups ?? {};
    const start = NAME.lastIndex;
    if (start <= seen && open === undefined) continue;
    const isHeader = mark?.trim() === ':' && isSecretHeader(name);
    if (!isHeader && !isSecretName(name)) {
      // The apparent start of a value may be the name of one.
      if (open !== undefined) NAME.lastIndex = start - open.length;
      continue;
    }
    const end = open === undefined ? endOf(isHeader ? HEADER : BARE, text, start) : endOfQuoted(text, start, open);
    const secret = text.slice(start, end).trimEnd();
    const certain = HAS_DIGIT.test(secret) && secret.length >= MIN_CHARS;
    // In JSON, and behind the name of a variable, every value is one; elsewhere a word may be prose or code.
    const isNamed =
      (quote !== undefined && open !== undefined) ||
      (mark === '=' && /^[A-Z][A-Z0-9_]*$/.test(name) && isValue(secret));
    const counts = certain || isNamed || (open !== undefined && secret.length >= MIN_CHARS);
    if (secret === '' || !counts || isReplaced(secret)) {
      if (open === undefined) seen = end;
      continue;
    }
    clean += text.slice(from, start) + replacement('assignment', secret, certain);
    from = start + secret.length;
    NAME.lastIndex = from;
  }
  return from === 0 ? text : clean + text.slice(from);
}

/** Returns false for a reference to another variable, or an open part of a template. */
const isValue = (text: string): boolean => !/^[$<%{(*[]/.test(text);

function endOf(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  return pattern.test(text) ? pattern.lastIndex : start;
}

/**
 * Returns the end of a value in quotes: at the same quote, which has the same number of backslashes before it; or at
 * the end of its line.
 */
function endOfQuoted(text: string, start: number, open: string): number {
  const slashes = open.length - 1;
  const quote = open.at(-1);
  let run = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === '\n' || character === '\r') return at;
    if (character === quote && run <= slashes) return at - run;
    run = character === '\\' ? run + 1 : 0;
  }
  return text.length;
}

/** Base64 that is long enough to hold a secret. */
const BASE64 = /(?<![\w+/-])[\w+/-]{16,}={0,2}/g;
/** Returns the text with each base64 replaced for whose bytes `isSecret` returns true. */
export function replaceEncoded(text: string, isSecret: (bytes: Buffer) => boolean, replacement: Replacement): string {
  return text.replace(BASE64, (encoded) =>
    isSecret(bytesOf(encoded)) ? replacement('base64', encoded, false) : encoded,
  );
}

/** Calls `look` with the bytes of each base64. */
export function eachEncoded(text: string, look: (bytes: Buffer, at: number, length: number) => void): void {
  for (const { 0: encoded, index } of text.matchAll(BASE64)) look(bytesOf(encoded), index, encoded.length);
}

/** Returns the bytes of base64; for digits alone, those of hex. */
const bytesOf = (encoded: string): Buffer =>
  Buffer.from(encoded, /^(?:[\da-f]{2})+$/i.test(encoded) ? 'hex' : 'base64');

/**
 * Parses a brief into directives of the rehearsal executor. Pure and deterministic: the same text always gives the same steps.
 *
 * A line that starts with a verb is a directive, or several joined by `;`, `then` and `and`. Any other line is prose and
 * does nothing, as does everything between code fences.
 */

export type CountedUnit = 'lines' | 'words' | 'characters';

export type Directive =
  | { readonly kind: 'read'; readonly path: string; readonly count?: CountedUnit }
  | { readonly kind: 'write' | 'append'; readonly path: string; readonly text: string }
  | { readonly kind: 'run'; readonly command: string }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'spend'; readonly tokens: number }
  | { readonly kind: 'say' | 'fail' | 'unknown'; readonly text: string }
  | { readonly kind: 'ask'; readonly question: string; readonly choices: readonly string[] }
  | { readonly kind: 'answer'; readonly value: unknown }
  /** Omits the result block from this reply, or from this reply and its repair. */
  | { readonly kind: 'no_result'; readonly ever: boolean };

/** The help for a brief without a directive. */
export const UNDERSTOOD = [
  'read FILE [and count its lines|words|characters], count the lines of FILE',
  'write "TEXT" to FILE, append "TEXT" to FILE, write FILE with "TEXT"',
  'run COMMAND',
  'wait 500 ms, spend 1200 tokens',
  'say "TEXT", fail "TEXT"',
  'ask "QUESTION" [with choices "A", "B"]',
  'answer {"json": "value"}',
  'say no result, never say a result',
  'one a line, or joined by ";", "then" and "and"',
] as const;

const MAX_CHARACTERS = 64 * 1024;
const MAX_LINE_CHARACTERS = 4096;
const MAX_DIRECTIVES = 1000;
const MAX_WAIT_MS = 3_600_000;

/** Returns the directives of a text, in order. Prose is skipped; a part of a directive that cannot be parsed is `unknown`. */
export function directivesOf(text: string): readonly Directive[] {
  const directives: Directive[] = [];
  let fenced = false;
  for (const raw of text.slice(0, MAX_CHARACTERS).split('\n')) {
    if (directives.length >= MAX_DIRECTIVES) break;
    if (/^ {0,3}(?:```|~~~)/.test(raw)) fenced = !fenced;
    else if (!fenced && raw.length <= MAX_LINE_CHARACTERS) directives.push(...ofLine(raw, directives.at(-1)));
  }
  return directives;
}

function ofLine(raw: string, before: Directive | undefined): Directive[] {
  const line = raw.replace(/^\s*(?:[-*+]|\d{1,3}[.)])?\s*(?:brief:\s*)?(?:please\s+)?/i, '').trimEnd();
  // JSON extends to the end of its line: its commas and semicolons do not separate directives.
  const json = /^answer\s+(?:with\s+)?(?=[[{"\d-]|true|false|null)/i.exec(line);
  if (json !== null) return [answered(line.slice(json[0].length))];
  const directives: Directive[] = [];
  for (const clause of clausesOf(line)) {
    const directive = ofClause(clause, directives.at(-1) ?? before);
    if (directive === undefined) {
      // A line that does not start as a directive is prose.
      if (directives.length === 0) return [];
      directives.push({ kind: 'unknown', text: clause.map(({ raw }) => raw).join(' ') });
    } else if (directive.kind === 'read' && directive.count !== undefined && directive.path === '') {
      const read = directives.at(-1);
      if (read?.kind === 'read') directives[directives.length - 1] = { ...read, count: directive.count };
      else directives.push({ kind: 'unknown', text: `count ${directive.count}` });
    } else directives.push(directive);
  }
  return directives;
}

interface Word {
  /** Without its quotes. */
  readonly text: string;
  readonly raw: string;
  readonly quoted: boolean;
}

type Clause = readonly Word[];

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };

/** Returns words of a line; a quoted text is one word. */
function wordsOf(line: string): Word[] {
  const words: Word[] = [];
  for (const [raw] of line.matchAll(/"(?:[^"\\]|\\.)*"|`[^`]*`|“[^”]*”|'[^']*'|;|[^\s;]+?(?=[,;]?(?:\s|;|$))|,/g)) {
    const quoted = raw.length > 1 && /^["`“']/.test(raw);
    const inside = raw.slice(1, -1);
    const text = !quoted ? raw : raw[0] === '"' ? inside.replace(/\\(.)/gs, (_, one) => ESCAPES[one] ?? one) : inside;
    words.push({ text, raw, quoted });
  }
  return words;
}

const VERBS = new Set([
  'read',
  'count',
  'write',
  'create',
  'append',
  'run',
  'wait',
  'spend',
  'say',
  'fail',
  'ask',
  'never',
]);

const lower = (word: Word | undefined): string => (word === undefined || word.quoted ? '' : word.text.toLowerCase());

/** Splits a line at `;`, and at `then`, `and` and commas where a directive follows. */
function clausesOf(line: string): Clause[] {
  const words = wordsOf(line);
  const clauses: Word[][] = [[]];
  for (const [at, word] of words.entries()) {
    const clause = clauses.at(-1) as Word[];
    const joins = ['and', ',', 'then'].includes(lower(word));
    const next = words.slice(at + 1).find((one) => !['and', ',', 'then'].includes(lower(one)));
    const ends = lower(word) === ';' || (joins && VERBS.has(lower(next)));
    // `run make and make test` is one command, because no directive follows `and`.
    if (ends) clauses.push([]);
    else clause.push(word);
  }
  return clauses.filter((clause) => clause.length > 0);
}

/** Parses one clause; undefined: it is not a directive. */
function ofClause(clause: Clause, before: Directive | undefined): Directive | undefined {
  const rest = clause.slice(1).filter((word, at, all) => !(lower(word) === ',' && at === all.length - 1));
  const words = rest.map(lower);
  const raw = rest.length === 1 ? (rest[0] as Word).text : rest.map((word) => word.raw).join(' ');
  switch (lower(clause[0])) {
    case 'read':
      return rest.length === 0 ? undefined : { kind: 'read', path: nameIn(rest, 0) };
    case 'count':
      return counting(rest, before);
    case 'write':
    case 'create':
      return writing('write', rest);
    case 'append':
      return writing('append', rest);
    case 'run':
      return raw === '' ? undefined : { kind: 'run', command: raw };
    case 'wait':
      return waiting(words);
    case 'spend': {
      const tokens = Number((words[0] ?? '').replace(/[,_]/g, ''));
      return Number.isSafeInteger(tokens) && tokens > 0 ? { kind: 'spend', tokens } : undefined;
    }
    case 'say':
      if (words.join(' ') === 'no result') return { kind: 'no_result', ever: false };
      return raw === '' ? undefined : { kind: 'say', text: raw };
    case 'never':
      return words.at(-1) === 'result' ? { kind: 'no_result', ever: true } : undefined;
    case 'fail':
      return { kind: 'fail', text: raw || 'a rehearsed failure' };
    case 'ask':
      return asking(rest);
    default:
      return undefined;
  }
}

/** Returns the name at an index, without articles before it and punctuation after it. */
function nameIn(words: readonly Word[], from: number): string {
  let at = from;
  while (at < words.length - 1 && ['the', 'file', 'a', 'of', 'in'].includes(lower(words[at]))) at += 1;
  const word = words[at];
  if (word === undefined) return '';
  return word.quoted ? word.text : word.text.replace(/(?<=\w)[.,:!?]+$/, '');
}

function counting(rest: readonly Word[], before: Directive | undefined): Directive | undefined {
  const at = rest.findIndex((word) => /^(?:lines|words|characters)[.?!]?$/.test(lower(word)));
  if (at < 0) return undefined;
  const count = lower(rest[at]).replace(/[.?!]$/, '') as CountedUnit;
  const path = nameIn(rest, at + 1);
  // `read FILE and count its lines` is one directive.
  return path === '' && before?.kind !== 'read' ? undefined : { kind: 'read', path, count };
}

/** `"TEXT" to FILE` or `FILE with "TEXT"`. */
function writing(kind: 'write' | 'append', rest: readonly Word[]): Directive | undefined {
  const to = rest.findLastIndex((word) => ['to', 'into'].includes(lower(word)));
  if (to > 0 && to < rest.length - 1) return { kind, text: textOf(rest.slice(0, to)), path: nameIn(rest, to + 1) };
  const by = rest.findIndex((word) => lower(word) === 'with');
  if (by < 1 || by === rest.length - 1) return undefined;
  const from = lower(rest[by + 1]) === 'text' && by + 2 < rest.length ? by + 2 : by + 1;
  return { kind, text: textOf(rest.slice(from)), path: nameIn(rest.slice(0, by), 0) };
}

const textOf = (words: readonly Word[]): string =>
  words.length === 1 ? (words[0] as Word).text : words.map(({ raw }) => raw).join(' ');

const UNITS: readonly (readonly [RegExp, number])[] = [
  [/^(?:ms|milliseconds?)$/, 1],
  [/^(?:s|secs?|seconds?)$/, 1000],
  [/^(?:m|mins?|minutes?)$/, 60_000],
];

function waiting([first = '', second = '']: readonly string[]): Directive | undefined {
  const [, amount = '', glued = ''] = /^(\d{1,9}(?:\.\d{1,3})?)([a-z]*)$/.exec(first) ?? [];
  const unit = UNITS.find(([name]) => name.test((glued || second).replace(/[.,]$/, '')))?.[1];
  if (amount === '' || unit === undefined) return undefined;
  return { kind: 'wait', ms: Math.min(Math.round(Number(amount) * unit), MAX_WAIT_MS) };
}

function asking(rest: readonly Word[]): Directive | undefined {
  const at = rest.findIndex((word) => ['choices', 'options'].includes(lower(word)));
  const question = textOf(at < 0 ? rest : rest.slice(0, lower(rest[at - 1]) === 'with' ? at - 1 : at));
  if (question === '') return undefined;
  const choices = at < 0 ? [] : rest.slice(at + 1).filter((word) => !['and', 'or', ','].includes(lower(word)));
  return { kind: 'ask', question, choices: choices.map(({ text }) => text) };
}

function answered(text: string): Directive {
  try {
    return { kind: 'answer', value: JSON.parse(text) };
  } catch {
    return { kind: 'unknown', text: `answer ${text}` };
  }
}

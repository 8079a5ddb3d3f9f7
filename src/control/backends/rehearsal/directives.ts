/**
 * The directives of the rehearsal backend, and how one clause of plain English names each. Pure.
 *
 * Everything here is deterministic on purpose: the same words always lead to the same tool calls, so that a client, a policy or
 * a recording can be rehearsed without a model.
 */
import { trimmedEnd } from '../../../base/trim-end.ts';
import type { Token } from './tokens.ts';

export type CountedUnit = 'lines' | 'words' | 'characters';

/** A directive that needs a tool. */
export type ToolDirective =
  | { readonly kind: 'read'; readonly path: string; readonly count?: CountedUnit }
  | { readonly kind: 'list'; readonly path: string }
  | { readonly kind: 'find'; readonly patterns: readonly string[]; readonly path?: string }
  | { readonly kind: 'grep'; readonly text: string; readonly where?: string }
  | { readonly kind: 'write'; readonly path: string; readonly text: string }
  | { readonly kind: 'edit'; readonly path: string; readonly from: string; readonly to: string }
  | { readonly kind: 'run'; readonly command: string }
  | { readonly kind: 'fetch'; readonly url: string }
  | { readonly kind: 'ask'; readonly question: string; readonly choices: readonly string[] }
  | { readonly kind: 'call'; readonly tool: string; readonly input: Readonly<Record<string, unknown>> };

/** A directive that needs no tool. */
export type TalkDirective =
  | { readonly kind: 'say'; readonly text: string }
  | { readonly kind: 'think'; readonly text: string }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'fail'; readonly text: string }
  | { readonly kind: 'unknown'; readonly text: string };

export type Directive = ToolDirective | TalkDirective;

/** Shown to a user whose words were not understood. */
export const UNDERSTOOD = [
  'read FILE [and count its lines|words|characters]',
  'list FOLDER',
  'find PATTERN [in FOLDER]',
  'search for "TEXT" [in FILE or PATTERN]',
  'write "TEXT" to FILE',
  'edit FILE replace "A" with "B"',
  'run COMMAND',
  'fetch URL',
  'ask "QUESTION" [with choices "A", "B"]',
  'call TOOL with {"argument": "value"}',
  'say "TEXT", think "TEXT", wait 500 ms, fail "TEXT"',
  'several of them joined by "then", "and", a semicolon or a new line; add "in parallel" for one round',
] as const;

/** Longest wait, in milliseconds. */
const MAX_WAIT_MS = 10 * 60_000;

/** Verb → how its clause is read. */
const VERBS: Readonly<Record<string, (clause: Clause) => readonly Directive[]>> = {
  read: reading,
  cat: reading,
  show: reading,
  count: counting,
  how: counting,
  list: listing,
  ls: listing,
  find: finding,
  glob: finding,
  grep: searching,
  search: searching,
  write: writing,
  create: creating,
  edit: editing,
  replace: editing,
  run: running,
  execute: running,
  fetch: fetching,
  download: fetching,
  ask: asking,
  call: calling,
  say: (clause) => talk('say', clause.value(1)),
  print: (clause) => talk('say', clause.value(1)),
  think: (clause) => talk('think', clause.skip(1, ['about', 'of', 'that']).value(1)),
  wait: waiting,
  sleep: waiting,
  fail: (clause) => [{ kind: 'fail', text: clause.skip(1, ['with']).value(1) || 'a rehearsed failure' }],
};

/** Words before a verb that mean nothing. */
const FILLERS = new Set([
  'please',
  'now',
  'first',
  'next',
  'also',
  'finally',
  'just',
  'lastly',
  'kindly',
  'afterwards',
]);

/** A few words of a prompt with the text they were cut from. */
export class Clause {
  readonly tokens: readonly Token[];
  readonly #source: string;

  constructor(source: string, tokens: readonly Token[]) {
    this.#source = source;
    this.tokens = tokens;
  }

  get length(): number {
    return this.tokens.length;
  }

  /** Returns the word at an index in lower case; `''` where the index has none, or a quoted text. */
  word(at: number): string {
    const token = this.tokens[at];
    return token?.kind === 'word' ? token.text.toLowerCase() : '';
  }

  /** Returns the text of a piece, without its quotes. */
  text(at: number): string {
    return this.tokens[at]?.text ?? '';
  }

  /** Returns all from a place to another as it was written; a single quoted piece without its quotes. */
  value(from: number, to: number = this.length): string {
    const [first, ...others] = this.tokens.slice(from, to);
    if (first === undefined) return '';
    if (others.length === 0) return first.text;
    return this.#source.slice(first.start, (others.at(-1) as Token).end);
  }

  /** Returns the clause without the words of `words` that stand at `from`. */
  skip(from: number, words: readonly string[]): Clause {
    let to = from;
    while (to < this.length - 1 && words.includes(this.word(to))) to += 1;
    return this.without(from, to);
  }

  without(from: number, to: number): Clause {
    return new Clause(this.#source, [...this.tokens.slice(0, from), ...this.tokens.slice(to)]);
  }

  /** Returns the index of a word, looked for from the end or the beginning; -1 = nowhere. */
  find(words: readonly string[], which: 'first' | 'last' = 'first'): number {
    const hits = this.tokens.flatMap((_, at) => (at > 0 && words.includes(this.word(at)) ? [at] : []));
    return (which === 'first' ? hits[0] : hits.at(-1)) ?? -1;
  }

  /** Returns the clause without the fillers it begins with. */
  withoutFillers(): Clause {
    let at = 0;
    for (;;) {
      if (FILLERS.has(this.word(at)) || this.tokens[at]?.kind === 'comma') at += 1;
      else if (/^(?:can|could|will|would)$/.test(this.word(at)) && this.word(at + 1) === 'you') at += 2;
      else return this.without(0, at);
    }
  }
}

/** True when a clause may start with this: some directive's verb. */
export const isVerb = (word: string): boolean => Object.hasOwn(VERBS, word);

export const isFiller = (word: string): boolean => FILLERS.has(word);

/** Returns the directives of one clause. A part that is not understood becomes `unknown` with its words. */
export function directivesOf(given: Clause): readonly Directive[] {
  const clause = given.withoutFillers();
  if (clause.length === 0) return [];
  const read = Object.hasOwn(VERBS, clause.word(0)) ? VERBS[clause.word(0)]?.(clause) : undefined;
  return read === undefined || read.length === 0 ? [{ kind: 'unknown', text: given.value(0) }] : read;
}

const ARTICLES = ['the', 'a', 'an'];

const talk = (kind: 'say' | 'think', text: string): readonly Directive[] => (text === '' ? [] : [{ kind, text }]);

function reading(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, [...ARTICLES, 'me', 'file', 'files', 'content', 'contents', 'of']);
  return names(rest, 1).map((path) => ({ kind: 'read', path }));
}

/** Returns the names in a list: `a, b and c`. */
function names(clause: Clause, from: number): string[] {
  return clause.tokens
    .slice(from)
    .filter(({ kind, text }) => kind !== 'comma' && kind !== 'sentence' && text !== 'and')
    .map(nameOf)
    .filter((name) => name !== '');
}

/** Returns the name of a file, folder or pattern: a quoted text unchanged, a word without the end of its sentence. */
function nameOf({ kind, text }: Token): string {
  if (kind !== 'word') return text;
  const name = trimmedEnd(text, '?!');
  return FILLERS.has(name.toLowerCase()) ? '' : name;
}

/** `count the lines of FILE`, `how many lines does FILE have?`; without a file it is about the one read before. */
function counting(clause: Clause): readonly Directive[] {
  const at = clause.tokens.findIndex(({ text }) => /^(?:lines|words|characters|chars)$/i.test(text));
  if (at < 0) return [];
  const unit = clause.word(at) === 'chars' ? 'characters' : (clause.word(at) as CountedUnit);
  const around = ['does', 'do', 'are', 'is', 'there', 'in', 'of', 'the', 'file', 'have', 'has', 'it', 'its', 'contain'];
  const path = clause.tokens
    .slice(at + 1)
    .filter(({ kind }) => kind === 'word' || kind === 'quoted')
    .map(nameOf)
    .filter((text) => text !== '' && !around.includes(text.toLowerCase()))[0];
  return [{ kind: 'read', path: path ?? '', count: unit }];
}

function listing(clause: Clause): readonly Directive[] {
  const words = [...ARTICLES, 'all', 'files', 'folder', 'directory', 'contents', 'entries', 'everything', 'of', 'in'];
  const rest = clause.skip(1, words);
  const last = rest.length === 2 && words.includes(rest.word(1));
  return [{ kind: 'list', path: last ? '.' : (names(rest, 1)[0] ?? '.') }];
}

function finding(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, [...ARTICLES, 'all', 'files', 'matching', 'named', 'called', 'like', 'pattern']);
  const at = rest.find(['in'], 'last');
  const patterns = names(new Clause('', rest.tokens.slice(0, at < 0 ? undefined : at)), 1);
  const path = at < 0 ? '' : rest.skip(at + 1, [...ARTICLES, 'folder', 'directory']).text(at + 1);
  return patterns.length === 0 ? [] : [{ kind: 'find', patterns, ...(path !== '' && { path }) }];
}

function searching(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, ['for', ...ARTICLES, 'text', 'lines', 'with', 'containing']);
  const at = rest.find(['in'], 'last');
  const text = rest.value(1, at < 0 ? undefined : at);
  const where = at < 0 ? '' : rest.skip(at + 1, [...ARTICLES, 'file', 'files', 'folder', 'directory']).text(at + 1);
  return text === '' ? [] : [{ kind: 'grep', text, ...(where !== '' && { where }) }];
}

function writing(clause: Clause): readonly Directive[] {
  const at = clause.find(['to', 'into'], 'last');
  if (at < 2) return [];
  const path = clause.skip(at + 1, [...ARTICLES, 'file']).text(at + 1);
  return path === '' ? [] : [{ kind: 'write', path, text: clause.value(1, at) }];
}

/** `create FILE with TEXT`. */
function creating(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, [...ARTICLES, 'new', 'file', 'called', 'named']);
  const at = rest.find(['with', 'containing']);
  if (at !== 2) return [];
  return [{ kind: 'write', path: rest.text(1), text: rest.skip(3, ['text', ...ARTICLES, 'content']).value(3) }];
}

/** `edit FILE replace A with B`, `replace A with B in FILE`. */
function editing(clause: Clause): readonly Directive[] {
  const at = clause.word(0) === 'replace' ? 0 : clause.find(['replace', 'replacing']);
  const by = clause.find(['with', 'by']);
  if (at < 0 || by <= at + 1) return [];
  const inside = clause.find(['in'], 'last');
  const end = at === 0 && inside > by ? inside : clause.length;
  const path =
    at === 0
      ? clause.skip(end + 1, [...ARTICLES, 'file']).text(end + 1)
      : (names(clause.skip(1, [...ARTICLES, 'file']), 1)[0] ?? '');
  const to = clause.value(by + 1, end);
  if (path === '' || end === by + 1) return [];
  return [{ kind: 'edit', path, from: clause.value(at + 1, by), to }];
}

function running(clause: Clause): readonly Directive[] {
  const rest = clause.length > 2 ? clause.skip(1, ['the', 'shell', 'command']) : clause;
  const command = rest.value(1);
  return command === '' ? [] : [{ kind: 'run', command }];
}

function fetching(clause: Clause): readonly Directive[] {
  const url = clause.skip(1, [...ARTICLES, 'page', 'url']).text(1);
  if (url === '') return [];
  return [{ kind: 'fetch', url: /^[a-z][a-z0-9+.-]*:/i.test(url) ? url : `https://${url}` }];
}

function asking(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, ['me', 'the', 'user']);
  const at = rest.find(['choices', 'options']);
  const end = at > 1 && rest.word(at - 1) === 'with' ? at - 1 : at < 0 ? rest.length : at;
  const question = rest.value(1, end);
  if (question === '') return [];
  const choices = at < 0 ? [] : names(rest, at + 1).filter((choice) => choice !== 'or');
  return [{ kind: 'ask', question, choices }];
}

/** `call TOOL with {…}`: any tool at all, e.g. one of a plugin. */
function calling(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, ['the', 'tool']);
  const tool = rest.text(1);
  const json = rest.tokens.find(({ kind }) => kind === 'json');
  if (tool === '' || rest.tokens[1]?.kind === 'json') return [];
  if (json === undefined) return rest.length === 2 ? [{ kind: 'call', tool, input: {} }] : [];
  try {
    return [{ kind: 'call', tool, input: JSON.parse(json.text) as Record<string, unknown> }];
  } catch {
    return [];
  }
}

const UNIT_MS: readonly (readonly [RegExp, number])[] = [
  [/^(?:ms|milliseconds?|millis)$/, 1],
  [/^(?:s|secs?|seconds?|)$/, 1000],
  [/^(?:m|mins?|minutes?)$/, 60_000],
];

function waiting(clause: Clause): readonly Directive[] {
  const rest = clause.skip(1, ['for']);
  const [, amount, glued = ''] = /^(\d+(?:\.\d+)?)([a-z]*)$/.exec(rest.word(1)) ?? [];
  const unit = glued === '' ? rest.word(2) : glued;
  const factor = UNIT_MS.find(([name]) => name.test(unit))?.[1];
  if (amount === undefined || factor === undefined) return [];
  return [{ kind: 'wait', ms: Math.min(Math.round(Number(amount) * factor), MAX_WAIT_MS) }];
}

/**
 * A prompt as steps: the texts and the tool calls of each round. `rehearsal-model.ts` carries the steps out. Pure.
 */
import {
  Clause,
  type Directive,
  directivesOf,
  isFiller,
  isVerb,
  type TalkDirective,
  type ToolDirective,
} from './directives.ts';
import { type Token, tokensOf } from './tokens.ts';

/** The steps, one after the other; the calls of a step are made in one round. */
export type Step =
  | { readonly kind: 'talk'; readonly directive: TalkDirective }
  | { readonly kind: 'calls'; readonly directives: readonly ToolDirective[] };

/** A longer prompt is not read as directives. */
const MAX_CHARACTERS = 64 * 1024;
const SHOWN_CHARACTERS = 200;
/** Words in front of a verb that are looked past; more are no directive. */
const MAX_LEADING_WORDS = 8;

const TALK = new Set<Directive['kind']>(['say', 'think', 'wait', 'fail', 'unknown']);

const isTalk = (directive: Directive): directive is TalkDirective => TALK.has(directive.kind);

/** Returns the steps of a prompt. Unknown words are a step that reports them. */
export function planOf(prompt: string): readonly Step[] {
  if (prompt.length > MAX_CHARACTERS) {
    return [{ kind: 'talk', directive: { kind: 'unknown', text: `${prompt.slice(0, SHOWN_CHARACTERS)}…` } }];
  }
  return groupsOf(prompt).flatMap(({ clauses, parallel }) => {
    const directives = joined(clauses.flatMap((clause) => [...directivesOf(clause)]));
    if (!parallel) return directives.map(stepOf);
    const calls = directives.filter((directive): directive is ToolDirective => !isTalk(directive));
    const talks = directives.filter(isTalk).map(stepOf);
    return calls.length === 0 ? talks : [...talks, { kind: 'calls' as const, directives: calls }];
  });
}

const stepOf = (directive: Directive): Step =>
  isTalk(directive) ? { kind: 'talk', directive } : { kind: 'calls', directives: [directive] };

interface Group {
  readonly clauses: readonly Clause[];
  /** Its calls are made in one round. */
  readonly parallel: boolean;
}

/** Parts the prompt at line ends, semicolons and `then`, and these parts at commas, full stops and `and`. */
function groupsOf(prompt: string): Group[] {
  const groups: Group[] = [];
  let clauses: Token[][] = [];
  let clause: Token[] = [];
  const endClause = (): void => {
    if (clause.length > 0) clauses.push(clause);
    clause = [];
  };
  const endGroup = (): void => {
    endClause();
    const made = groupOf(prompt, clauses);
    if (made.clauses.length > 0) groups.push(made);
    clauses = [];
  };
  const tokens = tokensOf(prompt);
  for (const [at, token] of tokens.entries()) {
    const word = token.kind === 'word' ? token.text.toLowerCase() : '';
    if (token.kind === 'break' || (word === 'then' && starts(tokens, at + 1))) endGroup();
    else if (token.kind !== 'comma' && token.kind !== 'sentence' && word !== 'and') clause.push(token);
    else if (starts(tokens, at + 1) && !opensEdit(clause)) endClause();
    else clause.push(token);
  }
  endGroup();
  return groups;
}

/** True when a directive may start here. */
function starts(tokens: readonly Token[], from: number): boolean {
  let at = from;
  const word = (): string => (tokens[at]?.kind === 'word' ? (tokens[at]?.text.toLowerCase() ?? '') : '');
  // `, and then please read …`
  const most = from + MAX_LEADING_WORDS;
  const idle = () => tokens[at]?.kind === 'comma' || word() === 'and' || word() === 'then' || isFiller(word());
  while (at < most && idle()) at += 1;
  if (word() === 'how') return tokens[at + 1]?.text.toLowerCase() === 'many';
  return isVerb(word()) || (word() === 'in' && tokens[at + 1]?.text.toLowerCase() === 'parallel');
}

/** True for `edit FILE`, whose replacement comes behind a comma or an `and`. */
function opensEdit(clause: readonly Token[]): boolean {
  const words = clause.slice(0, MAX_LEADING_WORDS).map(({ kind, text }) => (kind === 'word' ? text.toLowerCase() : ''));
  return words.find((word) => !isFiller(word)) === 'edit' && !words.includes('replace') && !words.includes('replacing');
}

/** Removes `in parallel` from a part, at any position. */
function groupOf(source: string, clauses: readonly (readonly Token[])[]): Group {
  let parallel = false;
  const left = clauses.map((tokens) => {
    const at = tokens.findIndex(
      (token, index) =>
        token.kind === 'word' &&
        token.text.toLowerCase() === 'in' &&
        tokens[index + 1]?.kind === 'word' &&
        tokens[index + 1]?.text.toLowerCase() === 'parallel',
    );
    if (at < 0) return tokens;
    parallel = true;
    return [...tokens.slice(0, at), ...tokens.slice(at + 2)];
  });
  const kept = left.map(withoutEnds).filter((tokens) => tokens.length > 0);
  return { clauses: kept.map((tokens) => new Clause(source, tokens)), parallel };
}

/** Returns the tokens without the punctuation and joining words that are left over at their ends. */
function withoutEnds(tokens: readonly Token[]): readonly Token[] {
  const idle = (token: Token | undefined): boolean =>
    token !== undefined &&
    (token.kind === 'comma' ||
      token.kind === 'sentence' ||
      (token.kind === 'word' && /^(?:and|then)$/i.test(token.text)));
  let from = 0;
  let to = tokens.length;
  while (idle(tokens[from])) from += 1;
  while (to > from && idle(tokens[to - 1])) to -= 1;
  return tokens.slice(from, to);
}

/** `read a.txt` and `count its lines` are one reading. */
function joined(directives: readonly Directive[]): Directive[] {
  const result: Directive[] = [];
  for (const directive of directives) {
    const before = result.at(-1);
    if (directive.kind !== 'read' || directive.path !== '') result.push(directive);
    else if (before?.kind === 'read' && directive.count !== undefined) {
      result[result.length - 1] = { ...before, count: directive.count };
    } else result.push({ kind: 'unknown', text: `count the ${directive.count ?? 'lines'}` });
  }
  return result;
}

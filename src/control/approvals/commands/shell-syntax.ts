/**
 * A command line as a shell reads it: the simple commands in it, wherever they stand, and the constructs that stop it from
 * being plain. The only file that imports the parser, `unbash`.
 *
 * It errs to one side: every command that any shell could find is listed, and a construct that shells read differently is
 * noted. It never throws, and its time is bounded by the limits below.
 */
import { createRequire } from 'node:module';
import type * as Unbash from 'unbash';

/** A word of a command. */
export interface Word {
  /** The text that the program gets; undefined where only running the line tells. */
  readonly value: string | undefined;
  /** The certain beginning of each word it may become; `''` where nothing is certain. */
  readonly head: string;
  /** As it stands in the line. */
  readonly text: string;
}

/** A program with its arguments, as the shell would start it. */
export interface SimpleCommand {
  /** The program and its arguments; never empty. */
  readonly words: readonly Word[];
  /** The here-document it reads, where nothing in it is expanded. */
  readonly input: string | undefined;
  /** True when it is a command in one shell and arithmetic in another. */
  readonly perhaps?: boolean;
}

/** Reasons why a line is more than programs with arguments. No rule covers such a line; the texts are shown to the user. */
export const NOTES = {
  assigns: 'it sets variables',
  writes: 'it redirects output into a file',
  reads: 'it redirects input',
  defines: 'it defines functions or aliases',
  dialect: 'shells read it differently',
  state: 'it changes what later commands mean',
  environment: 'variables are set for it',
  folder: 'it runs outside the folder of the session',
  members: 'the call has members that rules do not know',
} as const;

export type Note = keyof typeof NOTES;

/** The findings in a line. */
export interface ScriptReading {
  readonly commands: readonly SimpleCommand[];
  readonly notes: ReadonlySet<Note>;
  /** Reason why commands may be missing from the list; undefined when it is whole. */
  readonly unreadable: string | undefined;
  /** Variables it sets. */
  readonly assignments: readonly Assigned[];
  /** Functions it defines. */
  readonly functions: readonly string[];
  /** Files it redirects output into. */
  readonly written: readonly Word[];
  /** Texts in it that are no substitutions here, and would be where a shell evaluates them. */
  readonly literals: readonly string[];
  /** True when it evaluates the text of variables: in arithmetic, by their names, in a subscript. */
  readonly evaluates: boolean;
}

/** A variable that is set. */
export interface Assigned {
  readonly name: string;
  /** Undefined where only running the line tells. */
  readonly value: string | undefined;
  /** As it stands in the line. */
  readonly text: string;
}

/** Longest line, in characters, and the largest counts that make a parser work: both also bound its time. */
const MAX_CHARACTERS = 32 * 1024;
const MAX_NESTED = 200;
const MAX_DOCUMENTS = 64;
const MAX_COMMANDS = 512;
/** Blanks between words, and separators of commands: the parser reads all of a line. */
const MAX_BLANKS = 8192;
const MAX_SEPARATORS = 4096;
const MAX_DEPTH = 400;

export const TOO_DEEP = 'it is nested too deeply to be read';
export const TOO_LARGE = 'it is too large to be read';

const OPENERS = /[$<>]\(|\(\(|\$[{[]|`|\(\s*\)|[@?*+!]\(/g;

/** Characters that a terminal would not show and that shells treat differently. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters
const CONTROL = /[\0-\x08\x0b-\x1f\x7f]/;

/** Loads the parser with the first command line: most sessions of programs have none. */
const parser = (): typeof Unbash => createRequire(import.meta.url)('unbash') as typeof Unbash;

/** Reads a command line, or a script. */
export function readScript(text: string): ScriptReading {
  const found = new Findings();
  const refused = refusalOf(text);
  if (refused !== undefined) found.doubt(refused);
  else {
    try {
      const { parse, forEachChild } = parser();
      new Visitor(found, parse, forEachChild).visit(parse(text), 0);
    } catch {
      found.doubt(TOO_DEEP);
    }
  }
  return found;
}

function refusalOf(text: string): string | undefined {
  if (text.length > MAX_CHARACTERS) return `it is longer than ${MAX_CHARACTERS} characters`;
  if (CONTROL.test(text)) return 'it holds control characters';
  const count = (pattern: RegExp): number => text.match(pattern)?.length ?? 0;
  if (count(/\s+/g) > MAX_BLANKS || count(/[;&|\n]+/g) > MAX_SEPARATORS) return TOO_LARGE;
  return count(OPENERS) > MAX_NESTED || count(/<</g) > MAX_DOCUMENTS ? TOO_DEEP : undefined;
}

/** Collects while the tree is walked. */
class Findings implements ScriptReading {
  readonly commands: SimpleCommand[] = [];
  readonly notes = new Set<Note>();
  unreadable: string | undefined;
  readonly assignments: Assigned[] = [];
  readonly functions: string[] = [];
  readonly written: Word[] = [];
  readonly literals: string[] = [];
  evaluates = false;

  /** Notes a text that is not a substitution where it stands. */
  literal(text: string | undefined): void {
    if (text !== undefined && /\$\(|`/.test(text)) this.literals.push(text);
  }

  /** Commands may be missing. The first reason stays. */
  doubt(why: string): void {
    this.unreadable ??= why;
  }
}

class Visitor {
  readonly #found: Findings;
  readonly #parse: typeof Unbash.parse;
  readonly #forEachChild: typeof Unbash.forEachChild;
  #arithmetic = 0;

  constructor(found: Findings, parse: typeof Unbash.parse, forEachChild: typeof Unbash.forEachChild) {
    this.#found = found;
    this.#parse = parse;
    this.#forEachChild = forEachChild;
  }

  visit(node: Unbash.SyntaxNode, depth: number): void {
    const found = this.#found;
    if (depth > MAX_DEPTH || found.commands.length > MAX_COMMANDS) return found.doubt(TOO_LARGE);
    this.#look(node, depth);
    this.#forEachChild(node, (child) => this.visit(child, depth + 1));
  }

  #look(node: Unbash.SyntaxNode, depth: number): void {
    const found = this.#found;
    switch (node.type) {
      case 'Script':
        if ((node.errors?.length ?? 0) > 0) found.doubt('it is not a complete command line');
        return;
      case 'Command':
        return this.#command(node);
      case 'Assignment':
        found.notes.add('assigns');
        return this.#assignment(node);
      case 'For':
        found.notes.add('assigns');
        for (const word of node.wordlist ?? []) {
          const { value } = wordOf(word);
          found.assignments.push({ name: node.name.value, value, text: word.text });
        }
        return;
      case 'Word':
        return found.literal(wordOf(node).value);
      case 'Redirect':
        return this.#redirect(node);
      case 'HereDoc':
        found.notes.add('reads');
        found.literal(node.body.text);
        if (node.closing === undefined) found.doubt('it is not a complete command line');
        return;
      case 'HereString':
        found.notes.add('reads');
        found.notes.add('dialect');
        return;
      case 'Function':
        found.notes.add('defines');
        found.functions.push(node.name.value);
        return;
      case 'ArithmeticCommand':
        // A shell without this construct finds two subshells.
        found.notes.add('dialect');
        found.evaluates = true;
        this.#arithmetic += 1;
        this.visit(this.#parse(node.body), depth + 1);
        this.#arithmetic -= 1;
        return;
      case 'ArithmeticFor':
      case 'TestCommand':
        found.notes.add('dialect');
        found.evaluates = true;
        return;
      case 'AnsiCQuoted':
      case 'BraceExpansion':
      case 'Coproc':
      case 'ExtendedGlob':
      case 'LocaleString':
      case 'ProcessSubstitution':
      case 'Select':
        found.notes.add('dialect');
        return;
      case 'TestLogical':
        // A shell without `[[` runs the text behind the operator as a command.
        found.doubt('shells read it differently');
        return;
      case 'CommandExpansion':
        if (node.script === undefined) found.doubt('it holds a substitution that cannot be read');
        if (node.text.startsWith('${')) found.notes.add('dialect');
        return;
      case 'ArithmeticExpansion':
        found.evaluates = true;
        if (node.expression === undefined || node.text.startsWith('$[') || node.text.includes('[')) {
          found.notes.add('dialect');
        }
        return;
      case 'ParameterExpansion':
        return this.#parameter(node);
      case 'Pipeline':
        if (node.operators.includes('|&')) found.notes.add('dialect');
    }
  }

  #command({ name, args, redirects }: Unbash.Command): void {
    if (name === undefined) return;
    const words = [name, ...args].map((word) => wordOf(word));
    const documents = redirects.filter((redirect) => redirect.type === 'HereDoc');
    const [document] = documents;
    const isPlain = documents.length === 1 && document?.body.parts === undefined;
    const command = { words, input: isPlain ? document?.body.text : undefined };
    this.#found.commands.push(this.#arithmetic > 0 ? { ...command, perhaps: true } : command);
  }

  #assignment({ name, value: given, text }: Unbash.Assignment): void {
    const found = this.#found;
    const words = given.type === 'Word' ? [given] : given.elements;
    for (const word of words) {
      const { value } = wordOf(word);
      found.literal(value);
      found.assignments.push({ name, value, text: word.text });
    }
    if (text.includes('[')) found.evaluates = true;
  }

  /** Harmless are `/dev/null` and one descriptor as another. */
  #redirect({ operator, target, descriptor }: Unbash.Redirect): void {
    const { notes } = this.#found;
    const value = target === undefined ? undefined : wordOf(target).value;
    if (operator.startsWith('&>') || descriptor?.type === 'FileDescriptorVariable') notes.add('dialect');
    if (operator.endsWith('&') && value !== undefined && /^(?:\d+|-)$/.test(value)) return;
    if (value === '/dev/null') return;
    const reads = operator === '<' || operator === '<&';
    notes.add(reads ? 'reads' : 'writes');
    if (!reads && target !== undefined) this.#found.written.push(wordOf(target));
  }

  #parameter({ operation, prefix, index }: Unbash.ParameterExpansionPart): void {
    const { notes } = this.#found;
    if (operation?.type === 'Default' && operation.operator.includes('=')) notes.add('assigns');
    if (operation !== undefined && !['Default', 'Remove'].includes(operation.type)) notes.add('dialect');
    if (prefix === '!' || index !== undefined) {
      notes.add('dialect');
      this.#found.evaluates = true;
    }
    if (operation?.type === 'Slice') this.#found.evaluates = true;
    // A prompt is expanded once more, with the commands in it.
    if (operation?.type === 'Transform') this.#found.doubt('it expands a text once more');
  }
}

/** Returns the word, as far as it is known before the line runs. */
function wordOf(word: Unbash.Word | Unbash.Assignment): Word {
  const { text } = word;
  if (word.type === 'Assignment') {
    const { name, value: given } = word;
    const value = given?.type === 'Word' ? wordOf(given).value : undefined;
    const isPlain = value !== undefined && text.startsWith(`${name}=`);
    return { value: isPlain ? `${name}=${value}` : undefined, head: isPlain ? `${name}=` : '', text };
  }
  if (word.parts === undefined) {
    const isHome = text.startsWith('~');
    return { value: isHome ? undefined : word.value, head: isHome ? '~' : word.value, text };
  }
  let value: string | undefined = '';
  let head = '';
  let headEnds = text.startsWith('~');
  for (const part of word.parts) {
    const known = knownText(part);
    if (known === undefined && isSplit(part)) return { value: undefined, head: '', text };
    value = value === undefined || known === undefined || headEnds ? undefined : value + known;
    if (known === undefined) headEnds = true;
    if (!headEnds) head += known;
  }
  return { value, head: text.startsWith('~') ? '~' : head, text };
}

/** Returns the text that a part becomes in every run; undefined where that depends. */
function knownText(part: Unbash.WordPart): string | undefined {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return part.value;
    case 'DoubleQuoted':
    case 'LocaleString':
      return part.parts.every((child) => child.type === 'Literal')
        ? part.parts.map((child) => (child as Unbash.LiteralPart).value).join('')
        : undefined;
    default:
      return undefined;
  }
}

/** True for a part that may become several words, the later ones with any start. */
const isSplit = ({ type }: Unbash.WordPart): boolean =>
  ['SimpleExpansion', 'ParameterExpansion', 'CommandExpansion', 'ArithmeticExpansion'].includes(type);

/**
 * A second parser for command lines, `tree-sitter-bash`, used where it is installed: where it finds other commands than
 * `shell-syntax.ts`, or cannot read a line, the line asks. The only file that imports it. It is loaded with the first command
 * of a session.
 *
 * Both packages are optional peers: an independent grammar is worth a megabyte to operators of unattended sessions.
 */
import { createRequire } from 'node:module';
import type * as TreeSitter from 'web-tree-sitter';
import type { SimpleCommand } from './shell-syntax.ts';

/** Returns the reason why the two parsers do not agree on the commands of a text; undefined where they do. Never throws. */
export type SecondOpinion = (text: string, commands: readonly SimpleCommand[]) => string | undefined;

/** Longest text that is given to the second parser, in characters; the parser itself has no bound. */
const MAX_CHARACTERS = 8 * 1024;
/** Longest time it may take, in milliseconds. */
const MAX_MS = 50;

const DISAGREE = 'two parsers do not agree on the commands in it';

/** Loads the parser; undefined where one of its packages is not installed. Never rejects. */
export async function openSecondOpinion(): Promise<SecondOpinion | undefined> {
  let parser: TreeSitter.Parser;
  try {
    const { resolve } = createRequire(import.meta.url);
    const grammar = resolve('tree-sitter-bash/tree-sitter-bash.wasm');
    const { Parser, Language } = await import('web-tree-sitter');
    await Parser.init();
    parser = new Parser();
    parser.setLanguage(await Language.load(grammar));
  } catch {
    return undefined;
  }
  return (text, commands) => {
    if (text.length > MAX_CHARACTERS) return `it is longer than ${MAX_CHARACTERS} characters`;
    try {
      const theirs = parsed(parser, text);
      if (theirs === undefined) return DISAGREE;
      const ours = commands
        .filter(({ perhaps }) => perhaps !== true)
        .map(fingerprintOf)
        .sort();
      return ours.length === theirs.length && ours.every((one, at) => one === theirs[at]) ? undefined : DISAGREE;
    } catch {
      return DISAGREE;
    }
  };
}

/** Returns the commands it finds, sorted; undefined where it cannot read the text. */
function parsed(parser: TreeSitter.Parser, text: string): string[] | undefined {
  const endsAt = performance.now() + MAX_MS;
  const tree = parser.parse(text, null, { progressCallback: () => performance.now() > endsAt });
  if (tree === null) {
    parser.reset();
    return undefined;
  }
  try {
    return tree.rootNode.hasError ? undefined : [...commandsIn(tree.rootNode)].sort();
  } finally {
    tree.delete();
  }
}

/** Programs whose arguments have a special shape in the grammar: only their names are compared. */
const SHAPED = new Set(['[', '[[', 'declare', 'export', 'local', 'readonly', 'typeset', 'unset', 'unsetenv']);

function* commandsIn(node: TreeSitter.Node): Generator<string> {
  const { type } = node;
  if (type === 'command') {
    const name = node.childForFieldName('name');
    const words = node.childrenForFieldName('argument').map((child) => child?.text ?? '');
    // A keyword of Bash, which the other parser has no command for.
    if (name?.text === 'time')
      words.splice(
        0,
        words.findIndex((word) => !word.startsWith('-')),
      );
    const [program = '', ...rest] = name?.text === 'time' ? words : [name?.text ?? '', ...words];
    if (program !== '') yield fingerprint(program, rest);
  } else if (type === 'declaration_command' || type === 'unset_command' || type === 'test_command') {
    const name = node.firstChild?.text ?? '';
    if (name !== '[[' && name !== '((') yield fingerprint(name, []);
  }
  for (const child of node.namedChildren) if (child !== null) yield* commandsIn(child);
}

const fingerprintOf = ({ words: [program, ...rest] }: SimpleCommand): string =>
  fingerprint(
    program?.text ?? '',
    rest.map(({ text }) => text),
  );

const fingerprint = (program: string, words: readonly string[]): string =>
  JSON.stringify(SHAPED.has(program) ? [program] : [program, ...words]);

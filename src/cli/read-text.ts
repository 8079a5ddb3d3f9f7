/**
 * Reads the text that a command line points at: a file, or standard input for `-`.
 */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { fileProblem } from '../base/workspace/file-error.ts';
import { fail } from '../wire/errors.ts';

/** Returns the whole text, without a byte order mark. Fails with `usage` when it cannot be read. */
export async function readText(path: string): Promise<string> {
  const reading = path === '-' ? text(process.stdin) : readFile(path, 'utf8').catch(unreadable(path));
  return (await reading).replace(/^\ufeff/, '');
}

const unreadable = (path: string) => (cause: NodeJS.ErrnoException) => {
  throw fail('usage', `cannot read ${path}: ${fileProblem(cause)}`, {}, cause);
};

/** Returns the text that a word of the command line names: standard input for `-`, a file for `@FILE`, else itself. */
export async function textOf(word: string): Promise<string> {
  if (word === '-') return readText(word);
  return word.startsWith('@') ? readText(word.slice(1)) : word;
}

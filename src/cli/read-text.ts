/** Reads what a command line points at: a file, or standard input for `-`. Used by the commands that take JSON or prompts. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { fileProblem } from '../base/workspace/file-error.ts';
import { fail } from '../wire/errors.ts';

/** The whole text. Fails with `usage` when there is none to read. */
export async function readText(path: string): Promise<string> {
  if (path === '-') return text(process.stdin);
  return readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw fail('usage', `cannot read ${path}: ${fileProblem(cause)}`, {}, cause);
  });
}

/** The text that a word of the command line names: standard input for `-`, a file for `@FILE`, else itself. */
export async function textOf(word: string): Promise<string> {
  if (word === '-') return readText(word);
  return word.startsWith('@') ? readText(word.slice(1)) : word;
}

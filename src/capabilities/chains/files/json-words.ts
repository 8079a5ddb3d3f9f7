/** JSON in words of the command line. Used by the commands of chains. */
import { readFile } from 'node:fs/promises';
import { fileProblem } from '../../../base/workspace/file-error.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';

/** The JSON value of a word; a word that is no JSON is a text. */
export function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The JSON object in a word, or in the file that it names with `@`. Fails with `usage`. */
export async function objectOf(word: string, option: string): Promise<Record<string, unknown>> {
  const text = word.startsWith('@')
    ? await readFile(word.slice(1), 'utf8').catch((cause: NodeJS.ErrnoException) => {
        throw fail('usage', `cannot read ${word.slice(1)}: ${fileProblem(cause)}`, {}, cause);
      })
    : word;
  const value = jsonOrText(text);
  if (isObject(value)) return value;
  throw fail('usage', `${option}: expected a JSON object, or @FILE with one`);
}

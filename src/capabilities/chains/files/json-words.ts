/** Reads JSON in words of the command line. */
import { readFile } from 'node:fs/promises';
import { fileProblem } from '../../../base/workspace/file-error.ts';
import { jsonOrText } from '../../../packages/command-values.ts';
import { fail } from '../../../wire/errors.ts';
import { isObject } from '../../../wire/json.ts';

/** Reads the JSON object in a word, or in the file that it names with `@`. Fails with `usage`. */
export async function objectOf(word: string, option: string): Promise<Record<string, unknown>> {
  const text = word.startsWith('@')
    ? await readFile(word.slice(1), 'utf8').catch((cause: NodeJS.ErrnoException) => {
        throw fail('usage', `cannot read ${word.slice(1)}: ${fileProblem(cause)}`, {}, cause);
      })
    : word;
  const value = jsonOrText(text, option);
  if (isObject(value)) return value;
  throw fail('usage', `${option}: expected a JSON object, or @FILE with one`);
}

/** Reads the words `NODE=JSON`, `NODE` for null, and `@FILE` with an object of outputs by node. Fails with `usage`. */
export async function outputsByNode(words: readonly string[], option: string): Promise<Record<string, unknown>> {
  const outputs = new Map<string, unknown>();
  for (const word of words) {
    const equals = word.indexOf('=');
    const found: [string, unknown][] = word.startsWith('@')
      ? Object.entries(await objectOf(word, option))
      : [equals < 1 ? [word, null] : [word.slice(0, equals), jsonOrText(word.slice(equals + 1), option)]];
    for (const [id, output] of found) {
      if (outputs.has(id)) throw fail('usage', `${option}: the node ${JSON.stringify(id)} is named twice`);
      outputs.set(id, output);
    }
  }
  return Object.fromEntries(outputs);
}

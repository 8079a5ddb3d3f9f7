/**
 * Output and changes of tools, as text: the output of a finished call, and the change of files that a call would make as its
 * diff. Goes by the members that calls and results have in common, so that tools of plugins and agents are shown too.
 */

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readRegular } from '../../../base/regular-file.ts';
import { unifiedDiff } from '../../../base/text-diff.ts';
import { isObject } from '../../../wire/json.ts';

/** Largest file that is compared with its new content, in bytes, and the longest diff, in characters. */
const MAX_FILE_BYTES = 1024 * 1024;
const MAX_DIFF_CHARACTERS = 128 * 1024;

type Members = Readonly<Record<string, unknown>>;

/** The change a call asks for. */
export interface CallChange {
  readonly path: string;
  readonly diff: string;
  /** Further members of the call, for which a diff has no place. */
  readonly others: Members;
}

/** Returns the output of a call; undefined where its summary says all. */
export function outputOf(result: unknown): string | undefined {
  if (typeof result === 'string') return result;
  if (!isObject(result)) return undefined;
  const members = result as Members;
  const texts = ['stdout', 'stderr', 'diff', 'content', 'text', 'output', 'answer'].flatMap((name) =>
    textOf(members[name]),
  );
  return texts.length > 0 ? texts.join('\n') : JSON.stringify(result, null, 2);
}

function textOf(value: unknown): string[] {
  if (typeof value === 'string') return value.trim() === '' ? [] : [value.replace(/\n$/, '')];
  if (!Array.isArray(value)) return [];
  return value.flatMap((part: { text?: unknown } | null) => textOf(part?.text));
}

/**
 * Returns the change that a call would make, if it is one of a file; undefined otherwise, and where it cannot be shown in
 * whole.
 * @param folder the folder of the session, where this machine has it: files that would be replaced are read there
 */
export async function changeOf(input: Members, folder: string | undefined): Promise<CallChange | undefined> {
  const [pathName, path] = member(input, ['path', 'file_path', 'filePath']);
  if (typeof path !== 'string') return undefined;
  const edits = Array.isArray(input.edits) ? input.edits.map(replacementOf) : [replacementOf(input)];
  const found = edits.filter((edit) => edit !== undefined);
  if (found.length > 0 && found.length === edits.length) {
    const parts = await Promise.all(found.map(({ before, after }) => fragment(before, after)));
    // A change that a diff cannot show, such as line ends, is shown as it is.
    if (parts.includes('')) return undefined;
    const others = without(input, [pathName, ...(Array.isArray(input.edits) ? ['edits'] : found[0]!.names)]);
    const leftOver = found.map(({ others: more }) => more).filter((more) => Object.keys(more).length > 0);
    const all = Array.isArray(input.edits) && leftOver.length > 0 ? { ...others, edits: leftOver } : others;
    return { path, diff: parts.join('⋮\n'), others: all };
  }
  const { content, encoding } = input;
  if (typeof content !== 'string' || (encoding !== undefined && !/^utf-?8$/i.test(String(encoding)))) return undefined;
  const before = folder === undefined ? undefined : await contentOf(resolve(folder, path));
  if (before === undefined) return undefined;
  const diff = await unifiedDiff(before, content, { maxCharacters: MAX_DIFF_CHARACTERS });
  return diff === '' ? undefined : { path, diff, others: without(input, [pathName, 'content', 'encoding']) };
}

/** The names that replacements of text go by. */
const OLD = ['old_text', 'old_string', 'oldText', 'old_str'];
const NEW = ['new_text', 'new_string', 'newText', 'new_str'];

function replacementOf(edit: unknown) {
  if (!isObject(edit)) return undefined;
  const [oldName, before] = member(edit as Members, OLD);
  const [newName, after] = member(edit as Members, NEW);
  if (typeof before !== 'string' || typeof after !== 'string') return undefined;
  return { before, after, names: [oldName, newName], others: without(edit as Members, [oldName, newName]) };
}

const member = (input: Members, names: readonly string[]): [name: string, value: unknown] => {
  const name = names.find((each) => Object.hasOwn(input, each)) ?? '';
  return [name, input[name]];
};

const without = (input: Members, names: readonly string[]): Members =>
  Object.fromEntries(Object.entries(input).filter(([name]) => !names.includes(name)));

/** Returns the diff of a piece of a file. Its line numbers are those of the piece, so they are left out. */
async function fragment(before: string, after: string): Promise<string> {
  const diff = await unifiedDiff(before, after, { maxCharacters: MAX_DIFF_CHARACTERS });
  return diff.replace(/^@@ .*\n/, '').replaceAll(/^@@ .*$/gm, '⋮');
}

/** Returns the present content of a file, '' for one that does not exist; undefined when it cannot be compared. */
async function contentOf(path: string): Promise<string | undefined> {
  try {
    const { size } = await stat(path);
    return size > MAX_FILE_BYTES ? undefined : await readRegular(path);
  } catch (error) {
    return (error as { code?: unknown }).code === 'ENOENT' ? '' : undefined;
  }
}

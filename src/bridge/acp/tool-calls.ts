/**
 * A tool call in the form in which an editor shows it: title, kind, files it is about, outcome. Pure.
 */
import { resolve } from 'node:path';
import type { ToolCallContent, ToolKind } from '../../acp/sdk.ts';
import { titleOf } from '../../control/rounds/with-approvals.ts';
import type { ToolDone } from '../../protocol/session-types.ts';
import { isObject } from '../../wire/json.ts';

type Input = Readonly<Record<string, unknown>>;

/** Facts about a call. */
export interface CallFacts {
  readonly name: string;
  readonly input: Input;
  /** The title that an agent behind this server gave the call; undefined or the name itself if it gave none. */
  readonly title?: string | undefined;
  /** The kind of tool its host names, e.g. `file`. */
  readonly toolKind?: string | undefined;
  readonly risks?: readonly string[] | undefined;
}

/** Longest text shown of a result, in characters; `rawOutput` has all that the session stores. */
const MAX_SHOWN = 32 * 1024;

const KINDS: ReadonlySet<string> = new Set<ToolKind>([
  'read',
  'edit',
  'delete',
  'move',
  'search',
  'execute',
  'think',
  'fetch',
  'switch_mode',
  'other',
]);

/** Risks of a tool, the weightiest first. */
const BY_RISK: readonly (readonly [string, ToolKind])[] = [
  ['exec', 'execute'],
  ['writes', 'edit'],
  ['destructive', 'delete'],
  ['network', 'fetch'],
  ['reads', 'read'],
];

const listOf = (value: unknown): readonly Record<string, unknown>[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

/** Includes the turn: without ids of the provider, every turn starts with the same ones. */
export const callIdOf = (turnId: string, callId: string): string => `${turnId}/${callId}`;

/** Returns the kind that the tool's host declares. */
export function kindOf({ toolKind, risks = [] }: Pick<CallFacts, 'toolKind' | 'risks'>): ToolKind {
  if (toolKind !== undefined && KINDS.has(toolKind)) return toolKind as ToolKind;
  return BY_RISK.find(([risk]) => risks.includes(risk))?.[1] ?? 'other';
}

/** Returns the members of a call that are known when it starts, and when its approval is requested. */
export function startOf(call: CallFacts, cwd: string) {
  const kind = kindOf(call);
  const locations = locationsOf(call.input, cwd);
  return {
    title: call.title === undefined || call.title === call.name ? titleOf(call) : call.title,
    name: call.name,
    kind,
    rawInput: call.input,
    ...(kind !== 'execute' && locations.length > 0 && { locations }),
  };
}

/** Returns the file that a call is about, absolute; the folder of the session itself is none. */
function locationsOf(input: Input, cwd: string): { path: string; line?: number }[] {
  const given = [input.path, input.file_path, input.filePath, input.abs_path].find(
    (value) => typeof value === 'string',
  );
  if (typeof given !== 'string') return [];
  const path = resolve(cwd, given);
  if (path === resolve(cwd)) return [];
  const line = input.offset ?? input.line;
  return [{ path, ...(Number.isSafeInteger(line) && (line as number) > 0 && { line: line as number }) }];
}

/** Returns the changes of files that a call asks for, as far as its input shows them. */
export function changesOf({ input, toolKind, risks }: CallFacts, cwd: string): ToolCallContent[] {
  const listed = diffsIn(input.diffs, cwd);
  if (listed.length > 0) return listed;
  const [file] = locationsOf(input, cwd);
  if (file === undefined || kindOf({ toolKind, risks }) !== 'edit') return [];
  const { content, encoding, edits } = input;
  const pieces = listOf(edits).flatMap(({ old_text: oldText, new_text: newText }) =>
    typeof oldText === 'string' && typeof newText === 'string' ? [{ oldText, newText }] : [],
  );
  // A call that replaces a file does not contain the old text.
  if (typeof content === 'string' && encoding !== 'base64') pieces.push({ oldText: '', newText: content });
  if (pieces.some(({ oldText, newText }) => isCut(oldText) || isCut(newText))) return [];
  return pieces.map(({ oldText, newText }) => ({
    type: 'diff',
    path: file.path,
    ...(oldText !== '' && { oldText }),
    newText,
  }));
}

/** Returns true for a text that the server has shortened: it must not be shown as the future content of a file. */
const isCut = (text: string): boolean => /\[… \d+ characters left out …\]/.test(text);

/** Changes of files as results and requests of other agents list them. */
const diffsIn = (diffs: unknown, cwd: string): ToolCallContent[] =>
  listOf(diffs).flatMap(({ path, old_text, new_text }) =>
    typeof path === 'string' && typeof new_text === 'string' && !isCut(new_text)
      ? [{ type: 'diff' as const, path: resolve(cwd, path), oldText: textOf(old_text) ?? null, newText: new_text }]
      : [],
  );

/** Returns the outcome of a call: the changes it made, else its text. */
export function outcomeOf(done: ToolDone, call: CallFacts, cwd: string): ToolCallContent[] {
  const { ok, result, error } = done;
  const listed = diffsIn(isObject(result) ? result.diffs : undefined, cwd);
  const changes = ok && listed.length === 0 ? changesOf(call, cwd) : listed;
  if (changes.length > 0 && ok) return changes;
  const words = [error ?? '', wordsOf(result, ok)].filter((text) => text !== '').join('\n\n');
  return [...changes, ...(words === '' ? [] : [textContent(words)])];
}

export const textContent = (text: string): ToolCallContent => ({ type: 'content', content: { type: 'text', text } });

const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Returns a result for people. */
function wordsOf(result: unknown, ok: boolean): string {
  if (result === undefined || result === null) return '';
  if (typeof result === 'string') return shortened(result);
  if (!isObject(result)) return fenced(JSON.stringify(result));
  // The result of a failed call beside its error is either a program's output or facts for the model.
  const output = [result.stdout, result.stderr, result.content, result.text, result.output].flatMap(
    (value) => textOf(value) ?? [],
  );
  if (output.length > 0) return output.map(fenced).join('\n\n');
  if (!ok) return '';
  const lines = linesOf(result);
  if (lines.length > 0) return fenced(lines.join('\n'));
  return textOf(result.answer) ?? textOf(result.summary) ?? fenced(JSON.stringify(result, null, 2));
}

/** Returns the found entries in the form of search tools of a terminal: a path a line, with the line numbers if given. */
function linesOf({ entries, files, paths }: Record<string, unknown>): string[] {
  const found = [entries, files, paths].find((list) => Array.isArray(list) && list.length > 0);
  if (!Array.isArray(found)) return [];
  return found.flatMap((one: unknown): string[] => {
    if (typeof one === 'string') return [one];
    const { path, type, matches, count } = (one ?? {}) as Record<string, unknown>;
    if (typeof path !== 'string') return [];
    const hits = listOf(matches).map(({ line, text }) => `${path}:${line}: ${text}`);
    if (hits.length > 0) return hits;
    return [`${path}${type === 'directory' ? '/' : ''}${typeof count === 'number' ? `: ${count}` : ''}`];
  });
}

/** Returns a text between fences that do not occur in it. */
export function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${shortened(text).replace(/\n$/, '')}\n${fence}`;
}

/** Returns the beginning and the end of a long text. */
export function shortened(text: string, most = MAX_SHOWN): string {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}\n[… ${text.length - 2 * half} characters left out …]\n${text.slice(-half)}`;
}

/**
 * `handfast diff`: shows where two recordings, or a recording and a journal, differ in ways that matter.
 */
import { lstatSync } from 'node:fs';
import { type Divergence, diffRecordings } from '../../recording/diff.ts';
import { type Entry, messageOf, type Recording } from '../../recording/format.ts';
import { readJournalFile } from '../../recording/journal-recording.ts';
import { whatIsMissing } from '../../recording/missing.ts';
import { readBundle } from '../../recording/read-bundle.ts';
import type { Terminal } from '../output/terminal.ts';

export interface DiffFlags {
  readonly all?: boolean;
  readonly volatile?: readonly string[];
}

/** Messages that are shown before a divergence. */
const CONTEXT = 3;
/** Characters of a message that are shown. */
const SHOWN = 100;

/** Resolves with exit code 1 when they differ. Fails with `recording.invalid`, `not_found`. */
export async function diff(
  left: string,
  right: string,
  { all, volatile }: DiffFlags,
  terminal: Terminal,
): Promise<number> {
  const [mine, theirs] = [readAny(left), readAny(right)];
  for (const [name, recording] of [
    [left, mine],
    [right, theirs],
  ] as const) {
    const missing = whatIsMissing(recording);
    if (missing !== undefined) terminal.note(`${name}: ${missing}`);
  }
  const found = diffRecordings(mine, theirs, { volatile, most: all ? Number.POSITIVE_INFINITY : 1 });
  return printDivergences(found, mine, theirs, terminal);
}

/** Prints the divergences, also those of a replay of the client; returns the exit code. */
export function printDivergences(
  found: readonly Divergence[],
  left: Recording,
  right: Recording,
  terminal: Terminal,
): number {
  if (terminal.json) terminal.document({ equal: found.length === 0, divergences: found });
  else if (found.length === 0) terminal.line('no difference that matters');
  else for (const each of found) printDivergence(each, left, right, terminal);
  return found.length === 0 ? 0 : 1;
}

/** Reads a bundle, an exported one, or the lines of a journal. */
function readAny(path: string): Recording {
  const isFile = lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
  return (isFile ? readJournalFile(path) : undefined) ?? readBundle(path);
}

/** Prints a divergence, and the messages before it. */
function printDivergence(found: Divergence, left: Recording, right: Recording, terminal: Terminal): void {
  const { kind, part, type, path, left_value: before, right_value: after } = found;
  const where = `#${found.left ?? '-'} / #${found.right ?? '-'}`;
  const what = {
    changed: `differs at ${path || 'its top'}`,
    missing: 'is in the left one only',
    added: 'is in the right one only',
    order: 'has changed places',
  };
  terminal.line(`${where}  ${part} of ${type} ${what[kind]}`);
  const [shown, seq] = found.left === null ? [right, found.right] : [left, found.left];
  for (const entry of shown.entries.filter((each) => 'from' in each && each.seq < (seq ?? 0)).slice(-CONTEXT))
    terminal.line(`    ${lineOf(entry)}`);
  if (before !== null) terminal.line(`  - ${before}`);
  if (after !== null) terminal.line(`  + ${after}`);
}

function lineOf(entry: Entry): string {
  const message = messageOf(entry);
  const text = message === undefined ? ('text' in entry ? entry.text : '') : JSON.stringify(message);
  return `#${entry.seq} ${'from' in entry ? entry.from : ''} ${text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text}`;
}

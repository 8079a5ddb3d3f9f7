/**
 * Output of the commands of a chat: lists in two columns, and notes.
 */
import { oneLine } from '../output/tool-summary.ts';
import type { ChatPlace } from './chat-place.ts';

/** Prints rows of two columns; with `--json` one document. */
export function list({ terminal }: ChatPlace, rows: readonly (readonly string[])[]): void {
  if (terminal.json) return terminal.document(rows);
  const width = Math.max(0, ...rows.map(([name = '']) => name.length));
  for (const [name = '', about = ''] of rows) terminal.line(`${name.padEnd(width)}  ${oneLine(about)}`);
}

/** Prints a line for people. */
export function note({ terminal }: ChatPlace, text: string): void {
  if (!terminal.json) terminal.note(text);
}

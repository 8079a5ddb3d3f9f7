/**
 * The colour of a word of the output: green for success, yellow for a wait for a person, red for failure. Colour repeats the
 * meaning of the word, so nothing is lost without it. Pure.
 */

/** A style of `styleText` of `node:util`. */
export type Tone = 'green' | 'yellow' | 'red' | 'cyan' | 'dim' | 'bold';

const WORDS: Readonly<Record<string, Tone>> = {
  ...tone('green', ['ok', 'yes', 'ready', 'done', 'running', 'allowed', 'as trusted', 'open']),
  ...tone('yellow', ['asks', 'pending', 'parked', 'blocked', 'draining', 'changed', 'partial', 'stale', 'warn']),
  ...tone('yellow', ['auth_required', 'executor_missing', 'circuit_open', 'unverified', 'unknown']),
  ...tone('red', ['no', 'error', 'lost', 'fail', 'gone', 'unreachable', 'denied', 'missing', 'canceled']),
  ...tone('dim', ['closed', 'asleep', 'idle', 'expired']),
};

/** Marks at the start of a note. */
const MARKS: Readonly<Record<string, Tone>> = { '✓': 'green', '✗': 'red', '?': 'yellow', '·': 'dim', '▸': 'cyan' };

function tone(name: Tone, words: readonly string[]): Record<string, Tone> {
  return Object.fromEntries(words.map((word) => [word, name]));
}

/** Returns the colour of a state word: of a whole cell, or of the part before its comma or plus (`error, parked`). */
export function toneOf(cell: string): Tone | undefined {
  const last = cell.split(', ').at(-1) as string;
  const [word = ''] = (Object.hasOwn(WORDS, last) ? last : (cell.split(/[,+]/, 1)[0] as string)).split('+');
  return Object.hasOwn(WORDS, word) ? WORDS[word] : undefined;
}

/** Returns the mark or the word `warning:` that a note starts with, and its colour. */
export function leadOf(note: string): readonly [lead: string, tone: Tone] | undefined {
  if (note.startsWith('warning:')) return ['warning:', 'yellow'];
  const mark = note.charAt(0);
  return note.charAt(1) === ' ' && Object.hasOwn(MARKS, mark) ? [mark, MARKS[mark] as Tone] : undefined;
}

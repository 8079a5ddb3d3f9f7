/**
 * Phase 1, the writing side: a task as text for a peer in `inline` mode, which accepts only text. `parseInline` reads the
 * output back.
 * @see docs/fleet-phases.md#inline-hints
 */
import { HINT_KEYS, type HintKey, type Hints } from './inline-values.ts';

const PLAIN = /^[A-Za-z0-9][\w./@+-]*$/;
/** Words that YAML reads as a value that is no string. */
const RESERVED = /^(?:null|true|false|yes|no|on|off)$/i;
const NUMBER_LIKE = /^(?:[0-9][0-9_]*(?:\.[0-9_]*)?(?:e[+-]?[0-9]+)?|0x[0-9a-f_]+|0o[0-7_]+|0b[01_]+)$/i;
const TIMESTAMP = /^[0-9TtZz:.+-]+$/;

/** Hints to write; an absent, null or empty one is left out. */
export type GivenHints = { readonly [K in HintKey]?: Hints[K] | null };

/** Returns the text of a task: its hints, then its brief with LF line ends. */
export function emitInline(hints: GivenHints, brief: string): string {
  const lines = HINT_KEYS.flatMap((key) => {
    const value = written(hints[key], key);
    return value === undefined ? [] : [`${key}: ${value}`];
  });
  return ['TASK DISPATCH (inline)', ...lines, '', `Brief: ${brief.replace(/\r\n?/g, '\n')}`].join('\n');
}

function written(value: GivenHints[HintKey], key: HintKey): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return key === 'deadline' && TIMESTAMP.test(value) ? value : scalar(value);
  return value.length === 0 ? undefined : `[${value.map(scalar).join(', ')}]`;
}

const scalar = (text: string): string =>
  PLAIN.test(text) && !RESERVED.test(text) && !NUMBER_LIKE.test(text) ? text : JSON.stringify(text);

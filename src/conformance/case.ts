/**
 * The type of a case of the conformance kit, and of its outcome. A case is data and one function; it knows no output
 * format.
 */
import { fail, type HandfastError } from '../wire/errors.ts';

/** Binding force of a rule: RFC 2119. */
export type Level = 'MUST' | 'SHOULD' | 'MAY';

/** The levels, the strictest first. */
export const LEVELS: readonly Level[] = ['MUST', 'SHOULD', 'MAY'];

/** One case. `C` is the context that a run gives to every case of a protocol. */
export interface Case<C> {
  /** Stable for ever: protocol, group, number, e.g. `A2E-HS-004`. */
  readonly id: string;
  readonly level: Level;
  /** Source of the rule: the document and its section. */
  readonly section: string;
  /** The rule, in one line. */
  readonly title: string;
  /** Passes by resolving. Throws {@link Mismatch} to fail, {@link Skip} where the rule does not apply to this target. */
  run(context: C): Promise<void>;
}

/** One line that crossed during a case. */
export interface Crossing {
  readonly direction: 'sent' | 'received';
  readonly text: string;
}

/** The outcome of a case. */
export interface Outcome {
  readonly id: string;
  readonly level: Level;
  readonly section: string;
  readonly title: string;
  readonly status: 'passed' | 'failed' | 'skipped';
  /** Reason of the failure or the skip. */
  readonly reason?: string;
  /** For failed cases: the rule's demand (`expected`) and the target's behaviour (`got`). */
  readonly expected?: string;
  readonly got?: string;
  /** For failed cases: the newest lines that crossed, the oldest first. */
  readonly transcript?: readonly Crossing[];
  /** Whole milliseconds. */
  readonly duration_ms: number;
}

/** Longest value in a report, in characters. */
const MAX_SHOWN = 600;

/** Returns a value in the form of reports: JSON, cut if it is long. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}… (${text.length} characters)` : text;
}

/** The target broke the rule of a case. */
export class Mismatch extends Error {
  readonly expected: string;
  readonly got: string;

  constructor(expected: string, got: unknown) {
    super(`expected ${expected}`);
    this.expected = expected;
    this.got = shown(got);
  }
}

/** Returns the error of a run whose target does not reply to the first request. */
export const unanswered = (address: string, { expected, got }: Mismatch): HandfastError =>
  fail('timeout', `${address}: expected ${expected}; ${got}`);

/** Thrown when the rule of a case does not apply to this target; the message has the reason. */
export class Skip extends Error {}

/** Fails the case unless `holds`. */
export function expect(holds: unknown, expected: string, got: unknown): asserts holds {
  if (!holds) throw new Mismatch(expected, got);
}

/**
 * Runs cases one after another against one target and reports each outcome at once. A case that does not end within its
 * time has failed; the next one still runs.
 */
import { within } from '../base/race.ts';
import { fitsWildcard } from '../base/wildcard.ts';
import { asError } from '../wire/errors.ts';
import { type Case, type Crossing, LEVELS, type Level, Mismatch, type Outcome, Skip } from './case.ts';

/** The functions that a run calls for every case. */
export interface CaseRun<C> {
  /** Prepares one case. */
  begin(): C;
  /** Returns the newest lines that crossed since {@link begin}. */
  transcript(context: C): readonly Crossing[];
  /** Closes the resources that the case opened. Never rejects. */
  end(context: C): Promise<void>;
}

/** The choice of cases that run. */
export interface Selection {
  /** Only ids and titles that contain one of these texts, or ids that a `*` pattern fits. Empty: all. */
  readonly filter?: readonly string[];
  /** Only cases that bind at least this much. Default `MAY`: all. */
  readonly level?: Level;
}

/** Returns the cases that match. */
export function selected<C>(cases: readonly Case<C>[], { filter = [], level = 'MAY' }: Selection): readonly Case<C>[] {
  const strict = LEVELS.slice(0, LEVELS.indexOf(level) + 1);
  const fits = (one: Case<C>, text: string): boolean => {
    const sought = text.toLowerCase();
    if (sought.includes('*')) return fitsWildcard(sought, one.id.toLowerCase());
    return `${one.id} ${one.title}`.toLowerCase().includes(sought);
  };
  return cases.filter(
    (one) => strict.includes(one.level) && (filter.length === 0 || filter.some((text) => fits(one, text))),
  );
}

/**
 * Runs the cases in order.
 * @param limitMs longest time of one case, in milliseconds
 * @param signal aborted: no further case starts
 */
export async function* runCases<C>(
  cases: readonly Case<C>[],
  run: CaseRun<C>,
  limitMs: number,
  signal?: AbortSignal,
): AsyncGenerator<Outcome> {
  for (const one of cases) {
    if (signal?.aborted) return;
    const context = run.begin();
    const started = performance.now();
    const problem = await within(ended(one, context), limitMs);
    const { id, level, section, title } = one;
    const duration_ms = Math.round(performance.now() - started);
    const transcript = run.transcript(context);
    await run.end(context);
    const facts = { id, level, section, title };
    if (problem === undefined) {
      const reason = `did not end within ${limitMs} ms`;
      yield { ...facts, status: 'failed', reason, transcript, duration_ms };
    } else if (problem === 'passed') yield { ...facts, status: 'passed', duration_ms };
    else if (problem instanceof Skip) yield { ...facts, status: 'skipped', reason: problem.message, duration_ms };
    else {
      const found = problem instanceof Mismatch && { expected: problem.expected, got: problem.got };
      yield { ...facts, status: 'failed', reason: problem.message, ...found, transcript, duration_ms };
    }
  }
}

/** Runs a case; resolves with `passed`, or the error. Never rejects. */
async function ended<C>(one: Case<C>, context: C): Promise<'passed' | Error> {
  try {
    await one.run(context);
    return 'passed';
  } catch (thrown) {
    return thrown instanceof Mismatch || thrown instanceof Skip ? thrown : asError(thrown);
  }
}

/**
 * Plays an environment for `check.ts`: a number of steps through resets, with each result as text, so that two rollouts can be
 * compared. No returned value is trusted to have the form of its type.
 */
import { createHash } from 'node:crypto';
import { inspect, isDeepStrictEqual } from 'node:util';
import { nextTurn } from '../../../base/next-turn.ts';
import type { Environment } from '../environment.ts';
import type { CheckRequest } from './findings.ts';

/** A reset (with its seed) or a step (with its action), and its result. */
export interface Move {
  /** Number of the move; 0 is the first reset. */
  readonly at: number;
  readonly kind: 'reset' | 'step';
  readonly seed?: number | null;
  readonly action?: unknown;
  /** The unchanged result. */
  readonly result: unknown;
}

/** One move in comparable form. */
interface Entry {
  readonly kind: Move['kind'];
  readonly members: Readonly<Record<string, string>>;
}

export type Trace = readonly Entry[];

export interface RolloutParts {
  /** Returns the action of a move; undefined ends the rollout. */
  action(at: number): unknown;
  /** Called with each result, before the next move. False ends the rollout. */
  onMove?(move: Move): boolean | undefined | Promise<boolean | undefined>;
}

/** Time between two turns of the event loop. */
const STRETCH_MS = 5;

/**
 * Resets with the seed, then steps; a reset without a seed follows each ended episode. Rejects with the exception of the
 * environment: `moveOf` adds the move.
 */
export async function rollout(
  environment: Environment,
  { seed, steps, signal }: CheckRequest,
  parts: RolloutParts,
): Promise<Trace> {
  const trace: Entry[] = [];
  let ended = true;
  let turn = performance.now();
  for (let at = 0; at <= steps; at += 1) {
    signal?.throwIfAborted();
    if (performance.now() - turn > STRETCH_MS) {
      await new Promise<void>(nextTurn);
      turn = performance.now();
    }
    // Episodes that do not end are reset, too.
    ended ||= at === steps >> 1;
    const action = ended ? undefined : parts.action(at);
    if (!ended && action === undefined) break;
    const move = await moveOf(environment, at, ended ? { seed: at === 0 ? seed : null } : { action });
    trace.push({ kind: move.kind, members: shownMembers(move.result) });
    if ((await parts.onMove?.(move)) === false) break;
    const { terminated, truncated } = Object(move.result) as { terminated?: unknown; truncated?: unknown };
    ended = move.kind === 'step' && (terminated === true || truncated === true);
  }
  return trace;
}

/** An exception of the environment, with its move. */
export class MoveFailed extends Error {
  readonly at: number;
  readonly action: unknown;

  constructor(at: number, action: unknown, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.at = at;
    this.action = action;
  }
}

async function moveOf(
  environment: Environment,
  at: number,
  given: { seed: number | null } | { action: unknown },
): Promise<Move> {
  const isReset = 'seed' in given;
  try {
    const result = await (isReset
      ? environment.reset({ seed: given.seed, options: {} })
      : environment.step(given.action));
    return { at, kind: isReset ? 'reset' : 'step', ...given, result };
  } catch (thrown) {
    throw new MoveFailed(at, isReset ? `reset(${given.seed})` : shown(given.action), thrown);
  }
}

/** Returns the first difference of two rollouts; undefined if they are equal. */
export function firstDifference(
  before: Trace,
  after: Trace,
): { readonly at: number; readonly kind: Move['kind']; readonly found: string } | undefined {
  for (let at = 0; at < Math.min(before.length, after.length); at += 1) {
    const [one, other] = [before[at] as Entry, after[at] as Entry];
    if (isDeepStrictEqual(one, other)) continue;
    const names = [...new Set([...Object.keys(one.members), ...Object.keys(other.members)])];
    const name = names.find((each) => one.members[each] !== other.members[each]) ?? 'result';
    return { at, kind: one.kind, found: `${name} ${one.members[name]}, then ${other.members[name]}` };
  }
  return undefined;
}

const shownMembers = (result: unknown): Readonly<Record<string, string>> =>
  typeof result === 'object' && result !== null
    ? Object.fromEntries(Object.entries(result).map(([name, value]) => [name, shown(value)]))
    : { result: shown(result) };

/** Longest text of a value that a trace stores; of a longer one it stores the start and a digest. */
const MAX_TEXT = 2000;
const MAX_START = 200;

/** Returns a value as text; equal texts are equal values. */
export function shown(value: unknown): string {
  const text = inspect(value, {
    depth: null,
    breakLength: Number.POSITIVE_INFINITY,
    maxArrayLength: null,
    maxStringLength: null,
    compact: true,
  });
  if (text.length <= MAX_TEXT) return text;
  return `${text.slice(0, MAX_START)}… (${createHash('sha256').update(text).digest('hex').slice(0, 16)})`;
}

/**
 * Finds and ends everything that a child, or all children of one process, left running: the groups that children lead, the
 * processes that carry the marker of `markerName`, and what these started.
 *
 * A process that calls `setsid`, forks twice or ignores SIGTERM is found by its marker. Only one that left its group, lost
 * its parent and cleared its environment is not. Called by `base/child.ts` when a child is stopped, and by `record.ts` for
 * a process that was killed.
 */
import { sleep } from '../sleep.ts';
import {
  isSameStart,
  type ProcessEntry,
  readProcesses,
  readProcessesNow,
  signalProcess,
  withMarker,
} from './process-table.ts';

/** A child; it leads a process group. */
export interface Leader {
  readonly pid: number;
  /** As `process-table.ts` has it. */
  readonly started: number;
}

/** What to find. */
export interface DescendantQuery {
  /** Text in `markerName` that nothing else contains; undefined: only groups and what their processes started. */
  readonly marker?: string;
  readonly leaders: readonly Leader[];
  /** Start of the first of them: what is older is none. */
  readonly since: number;
}

/** How long killed processes may take to disappear; only one that is stuck in the kernel takes longer. */
export const KILL_WAIT_MS = 2_000;
/** Pauses between two searches, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 10;
const LAST_PAUSE_MS = 160;
/** A process that ends right after it has started another can hide it from one search. */
const EMPTY_SEARCHES = 2;

/** The processes that run now; what an earlier search has found is still one when its parent has ended since. */
async function findDescendants(
  { marker, leaders, since }: DescendantQuery,
  earlier: ReadonlyMap<number, ProcessEntry>,
): Promise<ProcessEntry[]> {
  const all = await readProcesses();
  const young = all.filter((entry) => isYoung(entry, since));
  const found = new Set(young.filter(({ pid, started }) => earlier.get(pid)?.started === started));
  for (const entry of groupsOf(leaders, young)) found.add(entry);
  if (marker !== undefined) for (const entry of await withMarker(young, marker)) found.add(entry);
  return withOffspring(found, young);
}

/** True for what can have been started since; never for this process and the first one. */
const isYoung = ({ pid, started }: ProcessEntry, since: number): boolean =>
  pid !== process.pid && pid > 1 && (started >= since || isSameStart(started, since));

/** The processes of the groups and sessions that the leaders lead. */
function groupsOf(leaders: readonly Leader[], all: readonly ProcessEntry[]): ProcessEntry[] {
  const groups = new Set<number>();
  for (const leader of leaders) {
    const entry = all.find(({ pid }) => pid === leader.pid);
    // Without its leader a group keeps its number; with another leader the number was used again.
    if (entry === undefined || isSameStart(entry.started, leader.started)) groups.add(leader.pid);
  }
  return all.filter(({ group, session }) => groups.has(group) || groups.has(session));
}

/** `found` and all that these have started, as far as their parents run. */
function withOffspring(found: Set<ProcessEntry>, all: readonly ProcessEntry[]): ProcessEntry[] {
  const pids = new Set([...found].map(({ pid }) => pid));
  // A parent can have a larger id than its child.
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const entry of all) {
      if (found.has(entry) || !pids.has(entry.parent)) continue;
      found.add(entry);
      pids.add(entry.pid);
    }
  }
  return [...found];
}

/** SIGKILL to the groups of the leaders and all these have started, at once: for a process that exits. Never throws. */
export function killNow(leaders: readonly Leader[]): void {
  // Before the first one ends, and what it has started is no longer known by it.
  const all = readProcessesNow().filter((entry) => isYoung(entry, 0));
  const found = withOffspring(new Set(groupsOf(leaders, all)), all);
  killGroups(leaders);
  for (const entry of found) signalProcess(entry, 'SIGKILL');
}

function killGroups(leaders: readonly Leader[]): void {
  for (const { pid } of leaders) {
    try {
      process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** How {@link endDescendants} goes about it. */
export interface EndingOptions {
  /** Between SIGTERM and SIGKILL, milliseconds; 0: SIGKILL at once. */
  readonly graceMs: number;
  /** Ends the grace. */
  readonly hurry?: AbortSignal;
  /** Called when SIGKILL was sent to all that was found; what they leave is searched for after that. */
  readonly onKilled?: () => void;
}

/**
 * SIGTERM to all that is found, and SIGKILL to what is left after the grace. Resolves with false when a process is left that
 * cannot be killed. Bounded, never rejects.
 */
export async function endDescendants(query: DescendantQuery, options: EndingOptions): Promise<boolean> {
  const known = new Map<number, ProcessEntry>();
  return (options.graceMs > 0 && (await terminate(query, known, options))) || kill(query, known, options);
}

/** Processes by their ids. */
type Known = Map<number, ProcessEntry>;

/** SIGTERM, once to each. False when one is left after the grace. */
function terminate(query: DescendantQuery, known: Known, { graceMs, hurry }: EndingOptions): Promise<boolean> {
  const each = (_: readonly ProcessEntry[], fresh: readonly ProcessEntry[]): boolean => {
    for (const entry of fresh) signalProcess(entry, 'SIGTERM');
    return true;
  };
  return searchUntilNone(query, known, graceMs, each, hurry);
}

/** SIGKILL. False when one is left that cannot be killed. */
function kill(query: DescendantQuery, known: Known, { onKilled }: EndingOptions): Promise<boolean> {
  let isFirst = true;
  const each = (found: readonly ProcessEntry[], fresh: readonly ProcessEntry[], isLast: boolean): boolean => {
    // They start processes faster than these are found. One that is stopped does not, and still counts for its limits.
    const isFreezing = !isFirst && !isLast && fresh.length > 0;
    if (isFreezing) for (const entry of found) signalProcess(entry, 'SIGSTOP');
    else {
      killGroups(query.leaders.filter(({ pid }) => found.some(({ group }) => group === pid)));
      for (const entry of found) signalProcess(entry, 'SIGKILL');
      onKilled?.();
    }
    isFirst = false;
    return !isFreezing;
  };
  return searchUntilNone(query, known, KILL_WAIT_MS, each);
}

/**
 * Searches until nothing is found any more. `each` gets what was found, what of it is new, and whether the time is over, and
 * says whether it needs a pause. False when the time is over, or `hurry` aborts, while something is left.
 */
async function searchUntilNone(
  query: DescendantQuery,
  known: Known,
  withinMs: number,
  each: (found: readonly ProcessEntry[], fresh: readonly ProcessEntry[], isLast: boolean) => boolean,
  hurry?: AbortSignal,
): Promise<boolean> {
  const until = performance.now() + withinMs;
  let empty = 0;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
    const found = await findDescendants(query, known);
    const fresh = found.filter(({ pid, started }) => known.get(pid)?.started !== started);
    for (const entry of fresh) known.set(entry.pid, entry);
    const leftMs = until - performance.now();
    const needsPause = each(found, fresh, leftMs <= 0);
    empty = found.length === 0 ? empty + 1 : 0;
    if (empty === (known.size === 0 ? 1 : EMPTY_SEARCHES)) return true;
    if (leftMs <= 0 || hurry?.aborted) return false;
    if (needsPause && empty === 0) await sleep(Math.min(pauseMs, leftMs), hurry);
  }
}

/**
 * The processes that may be descendants which no search finds: they left their session, lost their parent, and do not carry
 * the marker. The system gives them one of our ancestors as their parent, so others whom an ancestor has started in a
 * session of their own are among them.
 *
 * @param self this process, one of `all`
 */
export function possibleEscapes(all: readonly ProcessEntry[], self: number, since: number): ProcessEntry[] {
  const ancestors = new Set([1]);
  const parentOf = (pid: number): number => all.find((entry) => entry.pid === pid)?.parent ?? 0;
  for (let pid = parentOf(self); pid > 1 && !ancestors.has(pid); pid = parentOf(pid)) ancestors.add(pid);
  const oldSessions = new Set(all.filter((entry) => !isYoung(entry, since)).map(({ session }) => session));
  return all.filter((entry) => isYoung(entry, since) && ancestors.has(entry.parent) && !oldSessions.has(entry.session));
}

/** True when all descendants can have ended, after a search found none: no other process may be one of them. */
export async function haveAllEnded(since: number, ownMarker: string): Promise<boolean> {
  const all = await readProcesses();
  // Elsewhere neither sessions nor all environments are shown.
  if (process.platform !== 'linux' || all.length === 0) return false;
  const escapes = possibleEscapes(all, process.pid, since);
  // Those with a marker of ours belong to other children.
  return escapes.length === (await withMarker(escapes, ownMarker)).length;
}

/**
 * Finds and ends all processes that a child, or all children of one process, left running: the groups that children
 * lead, the processes that carry the marker of `markerName`, and the processes that these started.
 *
 * A process that calls `setsid`, forks twice or ignores SIGTERM is found by its marker. Only one that left its group,
 * lost its parent and cleared its environment is not.
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

/** Describes the processes to find. */
export interface DescendantQuery {
  /** Text in `markerName` that no other process carries; undefined: only groups and the processes that they started. */
  readonly marker?: string;
  readonly leaders: readonly Leader[];
  /** Start of the first leader: older processes are none of its descendants. */
  readonly since: number;
}

/** Time for killed processes to disappear; only one that is stuck in the kernel takes longer. */
export const KILL_WAIT_MS = 2_000;
/** Pauses between two searches, milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 10;
const LAST_PAUSE_MS = 160;
/** A process that ends right after it has started another can hide it from one search. */
const EMPTY_SEARCHES = 2;

/**
 * Returns the descendants that run now. A process that an earlier search found still counts if its parent has ended
 * since.
 */
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

/** Returns true for processes that can have been started since; never for this process and the first one. */
const isYoung = ({ pid, started }: ProcessEntry, since: number): boolean =>
  pid !== process.pid && pid > 1 && (started >= since || isSameStart(started, since));

/** Returns the processes of the groups and sessions that the leaders lead. */
function groupsOf(leaders: readonly Leader[], all: readonly ProcessEntry[]): ProcessEntry[] {
  const groups = new Set<number>();
  for (const leader of leaders) {
    const entry = all.find(({ pid }) => pid === leader.pid);
    // Without its leader a group keeps its number; with another leader the number was used again.
    if (entry === undefined || isSameStart(entry.started, leader.started)) groups.add(leader.pid);
  }
  return all.filter(({ group, session }) => groups.has(group) || groups.has(session));
}

/** Returns `found` and all processes that these have started, as far as their parents run. */
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

/**
 * Sends SIGKILL to the groups of the leaders and all processes that these have started, at once: for a process that
 * exits. Never throws.
 */
export function killNow(leaders: readonly Leader[]): void {
  // Reads before the first one ends: the parent of the processes that it has started is unknown afterwards.
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
      // The process has ended.
    }
  }
}

/** Options of {@link endDescendants}. */
export interface EndingOptions {
  /** Between SIGTERM and SIGKILL, milliseconds; 0: SIGKILL at once. */
  readonly graceMs: number;
  /** Ends the grace. */
  readonly hurry?: AbortSignal;
  /** Called when SIGKILL was sent to all processes found; the processes that they leave are searched for afterwards. */
  readonly onKilled?: () => void;
}

/**
 * Sends SIGTERM to all processes found, and SIGKILL to those that remain after the grace. Resolves with false when a
 * process remains that cannot be killed. Bounded, never rejects.
 */
export async function endDescendants(query: DescendantQuery, options: EndingOptions): Promise<boolean> {
  const known = new Map<number, ProcessEntry>();
  return (options.graceMs > 0 && (await terminate(query, known, options))) || kill(query, known, options);
}

/** Processes by their ids. */
type Known = Map<number, ProcessEntry>;

/** Sends SIGTERM, once to each process. Resolves with false when one remains after the grace. */
function terminate(query: DescendantQuery, known: Known, { graceMs, hurry }: EndingOptions): Promise<boolean> {
  const each = (_: readonly ProcessEntry[], fresh: readonly ProcessEntry[]): boolean => {
    for (const entry of fresh) signalProcess(entry, 'SIGTERM');
    return true;
  };
  return searchUntilNone(query, known, graceMs, each, hurry);
}

/** Sends SIGKILL. Resolves with false when a process remains that cannot be killed. */
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
 * Searches until no process is found. `each` gets the processes found, the new ones among them, and whether the time is
 * over, and returns whether it needs a pause. Resolves with false when the time is over, or `hurry` aborts, while a
 * process remains.
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
 * Returns the processes that may be descendants which no search finds: they left their session, lost their parent, and
 * do not carry the marker. The system gives them an ancestor of this process as their parent, so other processes that
 * an ancestor started in their own session are among them.
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

/** Resolves with true when all descendants can have ended, after a search found none: no other process may be one of them. */
export async function haveAllEnded(since: number, ownMarker: string): Promise<boolean> {
  const all = await readProcesses();
  // Elsewhere neither sessions nor all environments are shown.
  if (process.platform !== 'linux' || all.length === 0) return false;
  const escapes = possibleEscapes(all, process.pid, since);
  // Processes with a marker of this process belong to other children.
  return escapes.length === (await withMarker(escapes, ownMarker)).length;
}

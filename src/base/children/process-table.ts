/**
 * The processes of this system: their parents, their groups, their start times, and the markers in their environments.
 * Linux provides them in `/proc`, other systems through `ps`; Windows is not asked.
 *
 * A process id is used again and again; together with the time its process was started it is not.
 */
import { execFile } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs';
import { promisify } from 'node:util';
import { sharedRuns } from '../shared-runs.ts';

/** One process that has not ended. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Session of the process; NaN if the system does not report it. */
  readonly session: number;
  /** Start of the process: clock ticks since boot on Linux, elsewhere seconds since the epoch. See {@link isSameStart}. */
  readonly started: number;
}

/** The environment variable by which a process that has left its group is known. */
export const markerName = 'HANDFAST_CHILD_OF';

const HAS_PROC = process.platform === 'linux';
/** False if this system does not list its processes: then only a group can be ended, or a single process. */
export const seesProcesses = HAS_PROC ? existsSync('/proc/self/stat') : process.platform !== 'win32';
/** On other systems than Linux a start is known to the second, and a child's is read from this process's clock. */
const START_TOLERANCE = HAS_PROC ? 0 : 3;
/** Processes that are read before other work of this thread has its turn. */
const READ_AT_ONCE = 32;
const PS_TIMEOUT_MS = 5_000;
const PS_MAX_BYTES = 64 * 1024 * 1024;

/** Returns true when two readings of a start can be of one process. */
export const isSameStart = (one: number, other: number): boolean => Math.abs(one - other) <= START_TOLERANCE;

/**
 * Returns the identity of this boot of the machine and this namespace of process ids; '' if the system does not provide
 * it.
 */
export function systemIdentity(): string {
  if (!HAS_PROC) return '';
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return '';
  }
}

/** Returns the start time of a child that was started just now, or of this process. */
export function startOf(pid: number): number {
  if (HAS_PROC) return readStat(pid)?.entry.started ?? Number.NaN;
  return Math.round(Date.now() / 1000 - (pid === process.pid ? process.uptime() : 0));
}

/**
 * Finds the process of this id; undefined when no process has it, or the process has ended and was not collected by its
 * parent.
 */
export async function findProcess(pid: number): Promise<ProcessEntry | undefined> {
  return HAS_PROC ? readEntry(pid) : (await readProcesses()).find((each) => each.pid === pid);
}

/** Resolves with true while this very process runs. */
export async function isRunning({ pid, started }: Pick<ProcessEntry, 'pid' | 'started'>): Promise<boolean> {
  const entry = await findProcess(pid);
  return entry !== undefined && isSameStart(entry.started, started);
}

/**
 * Returns the number of the user whose rights a process has; undefined if no such process exists, or the system does
 * not provide it.
 */
export async function userOf(pid: number): Promise<number | undefined> {
  let text: string;
  if (HAS_PROC) {
    try {
      // The owner of the folder is not asked: that of a process with rights of its program is root.
      text = /^Uid:\s+\d+\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? '';
    } catch {
      return undefined;
    }
  } else text = await ps('-o', 'uid=', '-p', String(pid));
  const uid = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isInteger(uid) ? uid : undefined;
}

/** Sends a signal to one process, unless its id belongs to another one by now. */
export function signalProcess({ pid, started }: ProcessEntry, signal: NodeJS.Signals): void {
  if (pid <= 1 || (HAS_PROC && readEntry(pid)?.started !== started)) return;
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended, or belongs to another user.
  }
}

/**
 * All processes that have not ended; empty where {@link seesProcesses} is false. Callers that ask at the same time, as
 * when many children are ended at once, share one reading, which begins after they have asked.
 */
export const readProcesses: () => Promise<readonly ProcessEntry[]> = sharedRuns(readAll);

async function readAll(): Promise<ProcessEntry[]> {
  if (!seesProcesses) return [];
  const entries: ProcessEntry[] = [];
  if (HAS_PROC) {
    for (const [at, pid] of pidsOfProc().entries()) {
      if (at % READ_AT_ONCE === READ_AT_ONCE - 1) await otherWork();
      const entry = readEntry(pid);
      if (entry !== undefined) entries.push(entry);
    }
  } else entries.push(...(await readPs()));
  return entries;
}

/** Reads as {@link readProcesses}, synchronously: for a process that exits. Empty where reading needs `ps`. */
export function readProcessesNow(): ProcessEntry[] {
  return HAS_PROC
    ? pidsOfProc()
        .map(readEntry)
        .filter((entry) => entry !== undefined)
    : [];
}

/**
 * Returns those of `entries` whose environment, as it was when their program started, has `marker` in
 * {@link markerName}. Environments of other users' processes are not visible; on macOS, those of system programs
 * neither.
 */
export async function withMarker(entries: readonly ProcessEntry[], marker: string): Promise<ProcessEntry[]> {
  if (HAS_PROC) {
    const found: ProcessEntry[] = [];
    for (const [at, entry] of entries.entries()) {
      if (at % READ_AT_ONCE === READ_AT_ONCE - 1) await otherWork();
      if (markersOf(entry).includes(marker)) found.push(entry);
    }
    return found;
  }
  if (process.platform !== 'darwin') return [];
  const lines = (await ps('-A', '-E', '-ww', '-o', 'pid=,command=')).split('\n');
  const pids = new Set(lines.filter((line) => line.includes(marker)).map((line) => Number.parseInt(line, 10)));
  return entries.filter(({ pid }) => pids.has(pid));
}

const otherWork = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function pidsOfProc(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/**
 * Reads the entry of a process that has not ended: ended ones stay until their parent collects them, and the first
 * process of a container may never do so.
 */
function readEntry(pid: number): ProcessEntry | undefined {
  const found = readStat(pid);
  return found === undefined || found.state === 'Z' || found.state === 'X' ? undefined : found.entry;
}

function readStat(pid: number): { readonly state: string; readonly entry: ProcessEntry } | undefined {
  try {
    const line = readLine(`/proc/${pid}/stat`);
    // `pid (name) state parent group session …`; the name may hold anything, also brackets. The start is the 22nd field.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
    const [parent = Number.NaN, group = Number.NaN, session = Number.NaN] = fields.slice(1, 4).map(Number);
    return { state: fields[0] as string, entry: { pid, parent, group, session, started: Number(fields[19]) } };
  } catch {
    return undefined;
  }
}

/** At most these bytes of a line are read; the part that counts is shorter. */
const scratch = Buffer.alloc(1024);

/** Reads a line in half the time of `readFileSync`: every process of the system is read this way. */
function readLine(file: string): string {
  const descriptor = openSync(file, 'r');
  try {
    return scratch.toString('latin1', 0, readSync(descriptor, scratch, 0, scratch.length, null));
  } finally {
    closeSync(descriptor);
  }
}

/** The markers of each process, read once for all callers that use one reading. */
const markers = new WeakMap<ProcessEntry, string>();

function markersOf(entry: ProcessEntry): string {
  let text = markers.get(entry);
  if (text === undefined) {
    text = readMarkers(entry.pid);
    markers.set(entry, text);
  }
  return text;
}

function readMarkers(pid: number): string {
  let found = '';
  try {
    const environment = readFileSync(`/proc/${pid}/environ`);
    // All, wherever they are: a variable with the same text in its value must not hide the one that counts.
    for (let at = environment.indexOf(markerName); at >= 0; at = environment.indexOf(markerName, at + 1)) {
      const end = environment.indexOf(0, at);
      found += environment.toString('latin1', at, end < 0 ? environment.length : end);
    }
  } catch {
    // The process has ended, or belongs to another user.
  }
  return found;
}

async function readPs(): Promise<ProcessEntry[]> {
  return parsePs(await ps('-A', '-o', 'pid=,ppid=,pgid=,stat=,lstart='));
}

/** Parses the output of `ps -o pid=,ppid=,pgid=,stat=,lstart=` in the C locale. */
export function parsePs(output: string): ProcessEntry[] {
  const entries: ProcessEntry[] = [];
  for (const line of output.split('\n')) {
    const [, pid, parent, group, state = 'Z', start = ''] =
      /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.+)$/.exec(line) ?? [];
    if (state.startsWith('Z')) continue;
    const started = Math.round(Date.parse(start) / 1000);
    entries.push({ pid: Number(pid), parent: Number(parent), group: Number(group), session: Number.NaN, started });
  }
  return entries;
}

const run = promisify(execFile);

/** Returns the output of `ps`; empty when it is missing or does not respond. */
async function ps(...args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH, LC_ALL: 'C', ...(process.env.TZ !== undefined && { TZ: process.env.TZ }) };
  const options = { env, timeout: PS_TIMEOUT_MS, maxBuffer: PS_MAX_BYTES };
  return run('ps', args, options).then(
    ({ stdout }) => stdout,
    () => '',
  );
}

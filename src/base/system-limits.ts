/**
 * Limits that the system enforces on a process and all it starts: time on the processor, memory, files. `prlimit` of
 * util-linux sets them before it becomes the program. A test, run once, shows which of them can be set here; none is
 * assumed.
 */
import { isShortage } from './not-started.ts';
import { runProgram } from './program.ts';

/** Limits by their names on the wire; undefined: none. */
export interface ResourceLimits {
  /** Seconds on the processor, of each process; SIGXCPU ends it. */
  readonly cpu_seconds?: number | undefined;
  /** Private writable memory of each process. */
  readonly memory_bytes?: number | undefined;
  /** Size of a file it writes; SIGXFSZ ends it. */
  readonly file_bytes?: number | undefined;
  /** Open files of each process. */
  readonly open_files?: number | undefined;
}

export interface LimitsInForce {
  /** Words before the program and its arguments. */
  readonly prefix: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
}

const PROBE_MS = 5_000;

/** Options of `prlimit`. SIGKILL follows a second after the soft limit of the processor. */
const FLAGS: Readonly<Record<keyof ResourceLimits, (value: number) => string>> = {
  cpu_seconds: (value) => `--cpu=${value}:${value + 1}`,
  memory_bytes: (value) => `--data=${value}`,
  file_bytes: (value) => `--fsize=${value}`,
  open_files: (value) => `--nofile=${value}`,
};

/**
 * Returns the limits that can be set here; tries each. Rejects only if the test cannot run now, because of missing
 * descriptors or processes.
 */
export async function limitsInForce(wanted: ResourceLimits, path: string): Promise<LimitsInForce> {
  const limits: Record<string, number> = {};
  const flags: string[] = [];
  for (const name of Object.keys(FLAGS) as (keyof ResourceLimits)[]) {
    const value = wanted[name];
    if (value === undefined) continue;
    const flag = FLAGS[name](value);
    if (!(await canSet(flag, path))) continue;
    limits[name] = value;
    flags.push(flag);
  }
  // No limit that was asked for: no program more for each spawn.
  if (flags.length === 0) return { prefix: [], limits };
  return { prefix: ['prlimit', '--core=0', ...flags, '--'], limits };
}

async function canSet(flag: string, path: string): Promise<boolean> {
  try {
    const argv = ['prlimit', '--core=0', flag, '--', 'true'] as const;
    return (await runProgram({ argv, env: { PATH: path }, timeoutMs: PROBE_MS })).code === 0;
  } catch (thrown) {
    if (isShortage(thrown)) throw thrown;
    return false;
  }
}

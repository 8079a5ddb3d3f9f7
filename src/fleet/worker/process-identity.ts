/**
 * Which process a number stands for, so that after a crash only what the worker itself had started is ended. A process id
 * is used again and again; together with the time it was started (and, on Linux, which boot that was) it is not.
 *
 * Called by `task-run.ts` when an executor starts a program, and by `recovery.ts`.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { programEnvironment, runProgram } from '../../base/program.ts';

/** A program of an executor; it leads a process group of its own. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque text, the same for as long as the process is the same. */
  readonly started: string;
}

const ASK_MS = 2000;
const TERMINATE_MS = 2000;
const KILL_MS = 1000;
const LOOK_EVERY_MS = 25;

/** The process that has this number now; undefined when none has, or the system does not say. */
export async function identityOf(pid: number): Promise<ProcessIdentity | undefined> {
  const started = process.platform === 'linux' ? await startedOnLinux(pid) : await startedAsTold(pid);
  return started === undefined ? undefined : { pid, started };
}

async function startedOnLinux(pid: number): Promise<string | undefined> {
  try {
    const [status, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
    ]);
    // The program's name is in brackets and may hold anything, brackets too; the 20th field behind it is the start time.
    const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended: nothing of it is left to be stopped.
    return fields[0] === 'Z' || fields[19] === undefined ? undefined : `${boot.trim()}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

async function startedAsTold(pid: number): Promise<string | undefined> {
  try {
    const { code, stdout } = await runProgram({
      argv: ['ps', '-o', 'lstart=', '-p', String(pid)],
      cwd: '/',
      env: programEnvironment({ LC_ALL: 'C' }),
      timeoutMs: ASK_MS,
    });
    return code === 0 && stdout.trim() !== '' ? stdout.trim() : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Ends the process group of `process` when its leader is provably still the same process: SIGTERM, 2 s, SIGKILL. Resolves
 * with whether there was anything to end; at the latest after some 3 s.
 */
export async function endGroup({ pid, started }: ProcessIdentity): Promise<boolean> {
  const same = async (): Promise<boolean> => (await identityOf(pid))?.started === started;
  if (!(await same())) return false;
  for (const [signal, waitMs] of [
    ['SIGTERM', TERMINATE_MS],
    ['SIGKILL', KILL_MS],
  ] as const) {
    try {
      process.kill(-pid, signal);
    } catch {
      // It ended in between.
    }
    for (let waited = 0; waited < waitMs; waited += LOOK_EVERY_MS) {
      if (!(await same())) return true;
      await sleep(LOOK_EVERY_MS);
    }
  }
  return true;
}

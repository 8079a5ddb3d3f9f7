/**
 * Ends a process and all that it started, as far as they stayed in its process group. Used by `shell.ts`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errnoOf } from './workspace/file-error.ts';

/** Pauses between two looks at a group that is given time, in milliseconds; each is twice the one before. */
const FIRST_PAUSE_MS = 10;
const LAST_PAUSE_MS = 160;
/** How long a killed group may take to disappear; only a process stuck in the kernel takes longer. */
const KILL_WAIT_MS = 1000;

/** Sends a signal (0 = only look) to the group that `leader` began; false when nobody is in it. */
export function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  // Process 0 would be our own group and process 1 stands for everybody.
  if (!Number.isSafeInteger(leader) || leader <= 1) throw new RangeError('no process group of a child');
  try {
    process.kill(-leader, signal);
    return true;
  } catch (error) {
    // Somebody is there who changed its user: not ours to signal.
    return errnoOf(error) === 'EPERM';
  }
}

/** Asks the group to end (SIGTERM) and after `graceMs` makes it end (SIGKILL). False when somebody is left. */
export async function endGroup(leader: number, graceMs: number): Promise<boolean> {
  if (!signalGroup(leader, 'SIGTERM') || (await isGone(leader, graceMs))) return true;
  return !signalGroup(leader, 'SIGKILL') || (await isGone(leader, KILL_WAIT_MS));
}

/** True once nobody in the group runs any more; false when somebody still does after `withinMs`. */
export async function isGone(leader: number, withinMs: number): Promise<boolean> {
  let leftMs = withinMs;
  for (let pauseMs = FIRST_PAUSE_MS; await isRunning(leader); pauseMs = Math.min(2 * pauseMs, LAST_PAUSE_MS)) {
    if (leftMs <= 0) return false;
    await delay(Math.min(pauseMs, leftMs));
    leftMs -= pauseMs;
  }
  return true;
}

async function isRunning(leader: number): Promise<boolean> {
  if (!signalGroup(leader, 0)) return false;
  if (process.platform !== 'linux') return true;
  // The dead stay in the group until their parent takes note, and the first process of a container may never do so.
  const group = String(leader);
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    const line = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '');
    // `pid (name) state parent group …`; the name may hold anything, also parentheses.
    const [state = 'X', , of] = line.slice(line.lastIndexOf(')') + 2).split(' ');
    if (of === group && state !== 'Z' && state !== 'X') return true;
  }
  return false;
}

/**
 * Ends a process and all that it started, as far as they stayed in its process group. Used by `shell.ts`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { errnoOf } from './file-error.ts';

/** How often the group is looked at while it is given time, in milliseconds. */
const LOOK_MS = 20;
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

async function isGone(leader: number, withinMs: number): Promise<boolean> {
  for (let waited = 0; waited < withinMs; waited += LOOK_MS) {
    await delay(LOOK_MS);
    if (!signalGroup(leader, 0)) return true;
  }
  return false;
}

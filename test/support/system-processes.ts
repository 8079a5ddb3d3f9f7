/**
 * The processes of this system as `/proc` shows them, for tests of remaining processes.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** Returns state, group and start of a process; undefined once nothing of it remains. */
export function statOf(
  pid: number,
): { readonly state: string; readonly parent: number; readonly group: number; readonly start: string } | undefined {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0]!, parent: Number(fields[1]), group: Number(fields[2]), start: fields[19]! };
  } catch {
    return undefined;
  }
}

/** Returns every process id. */
export const allPids = (): number[] => readdirSync('/proc').map(Number).filter(Number.isInteger);

/** Returns the processes that run and carry `text` in their environment. */
export const carriers = (text: string): number[] =>
  allPids().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(text) && !'ZX'.includes(statOf(pid)?.state ?? 'X');
    } catch {
      return false;
    }
  });

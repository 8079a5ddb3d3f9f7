/**
 * The processor time that another process has used.
 */
import { readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100;

/** Returns the seconds of all its threads; NaN if the system has no `/proc`. */
export function cpuOf({ pid }: { readonly pid?: number | undefined }): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  } catch {
    return Number.NaN;
  }
}

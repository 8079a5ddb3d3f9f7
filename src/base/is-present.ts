/**
 * Asks the disk whether a path exists.
 */
import { lstat } from 'node:fs/promises';

/** Resolves with true when a path exists, also for a link to a missing target. */
export const isPresent = (path: string | Buffer): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

/** Asks the disk whether something is at a path. */
import { lstat } from 'node:fs/promises';

/** True when something is at a path, also a link that leads nowhere. */
export const isPresent = (path: string | Buffer): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

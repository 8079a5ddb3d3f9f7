/**
 * The errors of the file system that only say that the store is full. One rule for all reports of `disk_full`, so that
 * a used-up quota and a file size limit are reported like a full disk: the user can fix them, and a later write may
 * succeed.
 */

/** No space, no quota, or the limit for the size of a file (`RLIMIT_FSIZE`; Node ignores its signal). */
const OUT_OF_SPACE: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Returns true for an error that the file system gave because it has no space left. */
export function isOutOfSpace(thrown: unknown): boolean {
  return OUT_OF_SPACE.has((thrown as { code?: unknown } | null)?.code);
}

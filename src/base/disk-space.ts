/**
 * Which errors of the file system only say that there is no room. Asked by all that report `disk_full`, so that a used-up
 * quota and a file size limit are reported as a full disk is: the user can mend it, and a later write may succeed.
 */

/** No space, no quota, or the limit for the size of a file (`RLIMIT_FSIZE`; Node ignores its signal). */
const OUT_OF_SPACE: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** True for an error that the file system gave for want of room. */
export function isOutOfSpace(thrown: unknown): boolean {
  return OUT_OF_SPACE.has((thrown as { code?: unknown } | null)?.code);
}

/**
 * Errors of failed file operations, with the path as the caller gave it and a reason code.
 *
 * Callers of file tools never get the message of the operating system, because it contains absolute paths of the host.
 * Commands report errors of files that their user names.
 */
import { fail, HandfastError } from '../../wire/errors.ts';

/** Longest piece of a caller's input that an error repeats, in characters. */
const SHOWN_CHARACTERS = 200;

/** Errno name → [`detail.reason`, the text after the path]. */
const reasons: Readonly<Record<string, readonly [reason: string, text: string]>> = {
  ENOENT: ['not_found', 'does not exist'],
  ENOTDIR: ['not_a_directory', 'is not a directory, or passes through a file'],
  EISDIR: ['is_a_directory', 'is a directory'],
  EFTYPE: ['not_a_regular_file', 'is a pipe, a socket or a device and not a file'],
  ENXIO: ['not_a_regular_file', 'is a socket or a device and not a file'],
  EEXIST: ['exists', 'exists already'],
  EACCES: ['permission_denied', 'may not be accessed'],
  EPERM: ['permission_denied', 'may not be accessed'],
  EROFS: ['read_only', 'is on a read-only file system'],
  ELOOP: ['too_many_links', 'passes through too many symbolic links'],
  ENAMETOOLONG: ['name_too_long', 'is too long'],
  ENOSPC: ['no_space', 'could not be written: the disk is full'],
  EDQUOT: ['no_space', 'could not be written: the disk quota is used up'],
  EFBIG: ['too_large', 'would be larger than a file may be'],
  ETIMEDOUT: ['timeout', 'is a pipe that nothing came out of in time'],
  EMFILE: ['too_many_open_files', 'could not be opened: too many files are open; raise the limit (ulimit -n)'],
  ENFILE: ['too_many_open_files', 'could not be opened: too many files are open'],
};

/**
 * Returns the reason why a file that the user named cannot be used, in words: `it does not exist`. If it has no words,
 * the code of the system.
 */
export function fileProblem(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  const [, text] = reasons[code ?? ''] ?? [];
  return text === undefined ? (code ?? message) : `it ${text}`;
}

/** Returns the caller's input, cut to a length that fits an error message. */
export function shown(input: string): string {
  return input.length <= SHOWN_CHARACTERS ? input : `${input.slice(0, SHOWN_CHARACTERS)}…`;
}

/** Returns `tool_error` with `detail {reason, path}`; `path` in the caller's spelling. */
export function fileFailure(
  reason: string,
  path: string,
  text: string,
  detail: Record<string, unknown> = {},
): HandfastError {
  return fail('tool_error', `"${shown(path)}" ${text}`, { reason, path: shown(path), ...detail });
}

/** Returns `tool_denied` for a path that is not, or does not stay, inside the workspace. */
export function outsideWorkspace(path: string): HandfastError {
  return fail('tool_denied', `"${shown(path)}" is outside the workspace`, {
    reason: 'outside_workspace',
    path: shown(path),
  });
}

/** Returns the errno name of a system error, or undefined. */
export function errnoOf(thrown: unknown): string | undefined {
  const code = (thrown as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/**
 * Returns the tool's error for an error that a file operation threw. A {@link HandfastError} passes unchanged. An errno
 * without a row above becomes `reason: 'io_error'`, with the errno name and the original as `cause` for the host's log.
 */
export function fileError(thrown: unknown, path: string): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const errno = errnoOf(thrown);
  const known = errno === undefined ? undefined : reasons[errno];
  if (known !== undefined) return fileFailure(known[0], path, known[1]);
  return fail(
    'tool_error',
    `"${shown(path)}" could not be processed`,
    { reason: 'io_error', path: shown(path), errno },
    thrown,
  );
}

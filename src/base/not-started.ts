/**
 * The reason why a program or a thread could not be started, in the system's words, with the remedy. A start that fails
 * because of missing descriptors, processes or memory fails its own call: the next one may succeed.
 */
import { HandfastError } from '../wire/errors.ts';
import { errnoOf } from './workspace/file-error.ts';

/** Reasons why the system did not start a program, for the codes that a user can fix. */
const NOT_STARTED: Readonly<Record<string, string>> = {
  ENOENT: 'it was not found',
  ENOTDIR: 'it was not found',
  EACCES: 'this user may not run it',
  EPERM: 'this user may not run it',
  ENOEXEC: 'it is not a program of this system',
  E2BIG: 'its arguments and variables are longer than the system allows; shorten them',
  EMFILE: 'this process has no file descriptor left; raise its limit (ulimit -n), or close sessions and programs',
  ENFILE: 'the system has no file descriptor left; close programs, or raise fs.file-max',
  EAGAIN: 'the system allows no further process; end some, or raise the limit (ulimit -u, pids.max of the cgroup)',
  ENOMEM: 'the system has no memory left; end other programs',
};

/** Codes of a shortage that passes: a later start may succeed. */
const PASSING: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM']);

/** Returns true when a start failed because of missing descriptors, processes or memory: it may succeed later. */
export const isShortage = (cause: unknown): boolean => PASSING.has(codeOf(cause));

/**
 * Returns the reason why a program could not be started, as half a sentence with its remedy; `cwd` is the folder it was
 * to run in.
 */
export function whyNotStarted(cause: unknown, cwd?: string): string {
  const { message } = cause as Error;
  const code = codeOf(cause);
  // The system names the program also where the folder is missing.
  if (code === 'ENOENT' && cwd !== undefined && !isThere(cwd)) return 'the folder it is to run in does not exist';
  return NOT_STARTED[code] ?? message;
}

/** Returns true if the path exists. The first handshake of a host loads no `node:fs`. */
const isThere = (path: string): boolean => process.getBuiltinModule('node:fs').existsSync(path);

/** Returns the system's code; for a thread whose start failed it is the last word of the message. */
function codeOf(cause: unknown): string {
  const reason = cause instanceof HandfastError ? cause.detail.reason : errnoOf(cause);
  const code = typeof reason === 'string' ? reason : '';
  if (code !== 'ERR_WORKER_INIT_FAILED') return code;
  return /E[A-Z0-9]+$/.exec((cause as Error).message)?.[0] ?? code;
}

/**
 * How a command fails: one message on stderr, as a line of text or of JSON, and the exit code of the error table.
 *
 * Exit codes: 0 done, 2 wrong usage or configuration, 3 not allowed, 4 unreachable, 5 failed at the other side,
 * 6 refused in the handshake, 7 out of time, 130 interrupted.
 */
import { exitCodeOf } from '../wire/errors.ts';
import { escapeControls } from './output/escape-controls.ts';

/** An error as `--json` prints it, on one line of stderr. */
export interface FailureLine {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly detail: Readonly<Record<string, unknown>>;
    readonly retryable: boolean;
  };
}

/** Any thrown value in the shape of an error of the table. */
export function failureOf(thrown: unknown): FailureLine['error'] {
  const { code, message, detail, retryable } = (thrown ?? {}) as Partial<FailureLine['error']>;
  // Errors of the system carry codes too, but not ours.
  const named = thrown instanceof Error && typeof code === 'string' && /^[a-z][a-z_]*(\.[a-z_]+)?$/.test(code);
  return {
    code: named ? code : 'runtime_error',
    message: typeof message === 'string' && message !== '' ? message : String(thrown),
    detail: named && typeof detail === 'object' && detail !== null ? detail : {},
    retryable: named && retryable === true,
  };
}

/** Writes the failure to stderr and returns its exit code. */
export function reportFailure(thrown: unknown, json: boolean): number {
  const error = failureOf(thrown);
  if (json) process.stderr.write(`${JSON.stringify({ error })}\n`);
  else process.stderr.write(`handfast: ${escapeControls(error.message)} [${escapeControls(error.code)}]\n`);
  return exitCodeOf(error.code, error.detail);
}

/**
 * The error codes of the proc capability, each with the row of the error table it behaves like. Requests of A2E 1.0 are refused
 * with `ok: false`, the text as `error` and the error as `refusal`; all others with an error message. @see docs/proc.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('proc', {
  /** This principal and agent have no such process. */
  unknown: { row: 'not_found', code: 'unknown_proc' },
  /** It has ended, or its input is closed. */
  dead: { row: 'denied', code: 'proc_dead' },
  /** A limit of the host is reached; `detail.limit` names it. */
  limit: { row: 'quota_exceeded', code: 'proc_limit' },
  /** The program, its folder or its environment is not allowed. */
  denied: 'unauthorized',
  /** A field does not fit; `detail.field` names it. */
  invalid: 'schema_violation',
  /** The system could not start the program; `detail.reason` is its code. */
  not_started: 'tool_error',
});

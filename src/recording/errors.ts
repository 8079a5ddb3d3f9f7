/**
 * The error codes of recordings, each with the row of the error table whose behaviour it has.
 *
 * Readers of bundles throw them, and a replay sends them. @see docs/record-replay.md#errors
 */
import { capabilityErrors } from '../wire/errors.ts';

export const failure = capabilityErrors('recording', {
  /** A bundle is damaged, or is none; `detail.line` is the line. */
  invalid: 'config_invalid',
  /** The recording that is replayed has no such message; `detail` names the nearest one and where it differs. Nothing was run. */
  not_recorded: 'not_found',
});

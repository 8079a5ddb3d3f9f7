/**
 * The error codes of the chains capability, each with the row of the error table it behaves like. A run that failed is no error
 * message but a reply with success false; these are for requests that cannot be served, and for causes inside of runs.
 *
 * @see docs/chains.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('chains', {
  /** An expression has no value: it is invalid for its data, or exceeds its steps; `detail.reason`. */
  expression: 'schema_violation',
});

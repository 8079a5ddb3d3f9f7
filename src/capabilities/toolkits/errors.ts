/**
 * The error codes of the toolkits capability, each with the row of the error table it behaves like. A configuration is refused
 * with `status: "error"` and the error as `refusal`; all other requests with an error message.
 *
 * Thrown by the plugin and the toolkits behind it. @see docs/toolkits.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('toolkits', {
  /** There is no such toolkit, or session, for this principal. */
  unknown: 'not_found',
  /** A configuration does not fit; `detail.errors` has the fields. */
  invalid: 'schema_violation',
  /** It needs a configuration first; `detail.errors` says what is missing. */
  not_configured: 'denied',
  /** A secret cannot be read on the host, or must not be sent where it would go. */
  secret: 'denied',
});

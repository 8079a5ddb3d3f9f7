/**
 * The error codes of the toolkits capability, each with the row of the error table it behaves like. A configuration is refused
 * with `status: "error"` and the error as `refusal`; all other requests with an error message. @see docs/toolkits.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('toolkits', {
  /** This principal has no such toolkit, or session. */
  unknown: 'not_found',
  /** A configuration does not fit; `detail.errors` has the fields. */
  invalid: 'schema_violation',
  /** The toolkit needs a configuration first; `detail.errors` lists the missing fields. */
  not_configured: 'denied',
  /** A secret cannot be read on the host, or must not be sent to its destination. */
  secret: 'denied',
});

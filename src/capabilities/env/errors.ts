/** The error codes of the capability: three spellings that A2E fixes, and one additional code. */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('env', {
  /** `runtime_error`: an unknown episode, an episode that has ended, or a failure inside the environment. */
  runtime_error: { row: 'runtime_error', code: 'runtime_error' },
  /** `unknown_action`: the payload is no element of the action space. */
  unknown_action: { row: 'schema_violation', code: 'unknown_action' },
  /** `reset_denied`: an unknown environment, or one that this principal may not run. */
  reset_denied: { row: 'denied', code: 'reset_denied' },
  /** `env.invalid_options`: options that do not fit the environment's schema. */
  invalid_options: 'schema_violation',
  /** `reset_denied`: a limit of episodes is reached; closing one helps. */
  limit: { row: 'over_capacity', code: 'reset_denied' },
  /** `runtime_error`: an unknown episode or environment, or one of another agent. */
  missing: { row: 'not_found', code: 'runtime_error' },
  /** `runtime_error`: the limit of waiting work is exceeded. */
  busy: { row: 'over_capacity', code: 'runtime_error' },
});

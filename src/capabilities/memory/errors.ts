/**
 * The error codes of the memory capability, each with the row of the table that it behaves like.
 *
 * @see docs/memory.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const memoryFailure = capabilityErrors('memory', {
  /** `memory_full`: the stored entries and the request together exceed the quota; `detail.used`, `detail.quota`. */
  full: { row: 'quota_exceeded', code: 'memory_full' },
  /** `memory_not_found`: this agent of this principal has no memory of this id. */
  not_found: { row: 'not_found', code: 'memory_not_found' },
  /** `memory.space_denied`: the principal is not granted this use of the shared space. */
  space_denied: 'denied',
  /** `memory.too_many_watches`: the session has reached its maximum of watched memories. */
  too_many_watches: 'quota_exceeded',
  /** `memory.damaged`: the database was damaged and is in quarantine; `detail.recovered` entries are in the new one. */
  damaged: 'journal_corrupt',
  /** `memory.embedder_failed`: the endpoint that computes vectors failed or sent an unusable response. */
  embedder_failed: 'provider_error',
});

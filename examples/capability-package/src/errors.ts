/** The error codes of the capability, each with the row of Handfast's table that it behaves like. */
import { capabilityErrors } from 'handfast/capability';

export const failure = capabilityErrors('notes', {
  /** `notes.missing`: no note has this key. */
  missing: 'not_found',
  /** `notes.read_only`: the principal has no grant to write. */
  read_only: 'denied',
  /** `notes.full`: as many notes as the configuration allows. */
  full: 'quota_exceeded',
  /** `notes.kept`: the agent did not confirm the deletion. */
  kept: 'denied',
});

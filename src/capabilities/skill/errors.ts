/**
 * The error codes of the skill capability, each with the row of the error table it behaves like. @see docs/skill.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('skill', {
  /** The skill or version does not exist, or the principal may not use it. */
  unknown: { row: 'not_found', code: 'unknown_skill' },
  /** The skill threw, returned a value that is no JSON, or reached a limit; `detail.reason` names it. */
  failed: { row: 'tool_error', code: 'skill_error' },
  /** Its files are not those that were pinned, or requested. */
  changed: 'denied',
  /** The sandbox that the configuration requires does not work here; `detail.tier`, `detail.reason`. */
  no_sandbox: 'denied',
  /** The sandbox ended, or sent a text that is no message. */
  crash: { row: 'sandbox_crash', code: 'sandbox_crash' },
  /** The skill exceeded its memory. */
  memory: { row: 'out_of_memory', code: 'out_of_memory' },
});

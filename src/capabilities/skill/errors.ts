/**
 * The error codes of the skill capability, each with the row of the error table it behaves like. Thrown by the plugin and what
 * is behind it. @see docs/skill.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('skill', {
  /** There is no such skill or version, or the principal may not use it. */
  unknown: { row: 'not_found', code: 'unknown_skill' },
  /** The skill threw, returned what is no JSON, or reached a limit; `detail.reason` names it. */
  failed: { row: 'tool_error', code: 'skill_error' },
  /** Its files are not those that were pinned, or asked for. */
  changed: 'denied',
  /** The sandbox that the configuration requires does not work here; `detail.tier`, `detail.reason`. */
  no_sandbox: 'denied',
  /** The sandbox ended, or what came out of it was no message. */
  crash: { row: 'sandbox_crash', code: 'sandbox_crash' },
  /** It used more memory than it may. */
  memory: { row: 'out_of_memory', code: 'out_of_memory' },
});

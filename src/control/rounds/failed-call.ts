/** The result of a call that was not made, or failed, in the one shape the model and clients know. */
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';

/** Reason why the tool itself has no result. `interrupted` = by a restart: whether it took effect is not known. */
export type FailedStatus =
  | 'not_found'
  | 'invalid_input'
  | 'denied'
  | 'expired'
  | 'cancelled'
  | 'interrupted'
  | 'timeout'
  | 'lost'
  | 'failed';

/** Makes a finished call with `ok: false`; `error` is written for the model, `more` is added to the result. */
export function failedCall(
  { callId, name, input }: Pick<ToolCall, 'callId' | 'name' | 'input'>,
  status: FailedStatus,
  error: string,
  more: Readonly<Record<string, unknown>> = {},
): ToolDone {
  return { name, ok: false, input, result: { callId, tool: name, status, ...more }, error, callId };
}

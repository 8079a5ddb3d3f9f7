/**
 * Results that this side makes for a peer that sends none: in the normalised form of one that was received.
 */
import { fail } from '../../../wire/errors.ts';
import { decodeValue } from '../../messages/decode.ts';
import type { Reported } from '../../messages/decoded.ts';
import { resultMessage } from '../../messages/encode.ts';

export type ResultMembers = Partial<Parameters<typeof resultMessage>[0]>;

/** Makes a result; its status is `error` unless the members name another. */
export function ownResult(taskId: string, attempt: number | undefined, members: ResultMembers): Reported {
  const decoded = decodeValue(resultMessage({ task_id: taskId, status: 'error', ...members }, { attempt }));
  if (decoded.valid) return decoded.message as Reported;
  throw fail('runtime_error', 'a result made here is not valid', { codes: decoded.errors.map(({ code }) => code) });
}

/**
 * Shortens the result of a run that no message of its session may hold, so that a run of hours does not end in an error at its
 * caller. Pure.
 */
import { asciiLength } from '../../wire/ascii.ts';
import type { ChainResp } from './chains.schema.ts';

type Result = Omit<ChainResp, 'type' | 'id' | 'req_id'>;

/** Bytes of a result beside its outputs: its error, and the envelope. */
const MAX_FRAME_BYTES = 64 * 1024;

/** Returns a result without its outputs, and without its final output where that alone is too long for a message. */
export function shortResult(result: Result, maxBytes: number): Result {
  const { final_output: final = null } = result;
  const fits = asciiLength(JSON.stringify(final)) <= maxBytes - MAX_FRAME_BYTES;
  return {
    ...result,
    outputs: {},
    final_output: fits ? final : null,
    left_out: fits ? ['outputs'] : ['outputs', 'final_output'],
  };
}

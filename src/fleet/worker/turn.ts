/** One turn of an executor: waits for its end with a bound, and reads its reply. */

import { withGrace } from '../../base/race.ts';
import type { Timer } from '../../base/timer-queue.ts';
import type { AnswerCheck } from '../../base/value-check.ts';
import type { ExecutorOutcome } from '../executors/executor.ts';
import type { Dispatched } from '../messages/decoded.ts';
import { checkAnswer } from '../phases/answer-schema.ts';
import { type Extracted, extractReply } from '../phases/reply.ts';

/** Longest time that an executor that was stopped may take before it is abandoned, milliseconds. */
const STOPPING_MS = 15_000;

/** A turn that has ended, and the reading of its reply. */
export interface Turn {
  readonly outcome: ExecutorOutcome;
  readonly extracted: Extracted;
  /** undefined: no schema was given. */
  readonly answer: AnswerCheck | undefined;
}

/** Returns the outcome; `undefined` when the executor does not end soon after it was stopped. */
export function endOf(
  outcome: Promise<ExecutorOutcome>,
  signal: AbortSignal,
  timer: Timer,
): Promise<ExecutorOutcome | undefined> {
  return withGrace<ExecutorOutcome | undefined>(outcome, signal, STOPPING_MS, () => undefined, timer);
}

/** Reads the reply of a turn, and checks the answer where one was asked for. */
export async function readTurn(outcome: ExecutorOutcome, dispatch: Dispatched): Promise<Turn> {
  const { text, exitCode } = outcome;
  const { task_id: taskId, answer_schema: schema, reply_schema } = dispatch;
  // An answer is part of a block.
  const replySchema = schema !== null && reply_schema === 'prose' ? 'structured' : reply_schema;
  const extracted = extractReply({ text, taskId, replySchema, exitCode });
  if (schema === null || extracted.result === null) return { outcome, extracted, answer: undefined };
  return { outcome, extracted, answer: await checkAnswer(schema, extracted.result) };
}

/** Returns the parts that the reply of a turn that ended well lacks, in codes and in words; empty: none. */
export function problemsOf({ outcome, extracted, answer }: Turn): readonly string[] {
  if (outcome.ending !== 'completed' || outcome.failure !== undefined || (outcome.exitCode ?? 0) !== 0) return [];
  if (extracted.diagnostics.includes('R_NO_BLOCK') && extracted.result?.status === 'partial') {
    return extracted.diagnostics;
  }
  return answer?.ok === false ? answer.problems : [];
}

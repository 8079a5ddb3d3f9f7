/** Reads the responses of a receiver. */
import type { Buffer } from 'node:buffer';
import type { Reported } from '../../messages/decoded.ts';
import type { OpenTask } from '../plain/open-tasks.ts';
import type { HttpMessage } from './messages.ts';

/** `{"ok": false}` of a health page. */
export function reportsFailure(body: Buffer): boolean {
  try {
    return (JSON.parse(body.toString('utf8')) as { readonly ok?: unknown } | null)?.ok === false;
  } catch {
    return false;
  }
}

/** True for a TASK_ACK with which the receiver reports an unknown task. */
export const isUnknownTask = ({ data }: HttpMessage): boolean =>
  data.some((one) => {
    const { type, state } = one as { readonly type?: unknown; readonly state?: unknown };
    return type === 'TASK_ACK' && state === 'unknown';
  });

/** Returns the result of a reply in text. Its figures are the claim of a language model, not measured. */
export function claimed(result: Reported, open: OpenTask, prose: string, conformance: string): Reported {
  const usage = { ...result.usage, source: result.tokens_spent === null ? 'unknown' : 'claimed' } as const;
  return { ...withAttempt(result, open), usage, prose: prose || null, conformance };
}

/** Replies do not name their attempt; it is the one that was dispatched. */
export function withAttempt(result: Reported, open: OpenTask | undefined): Reported {
  if (open === undefined || result.envelope.attempt !== undefined) return result;
  return { ...result, envelope: { ...result.envelope, attempt: open.attempt } };
}

/**
 * The reply of a worker as text, for senders that read nothing else.
 *
 * @see docs/protocol/fleet.md#http
 */
import type { ReplySchema, SessionAnnounce, TaskResult } from '../../../protocol/fleet.ts';

/** The form of reply a sender asks for; `plain`: it sent no hints, so a block would mean nothing to it. */
export type ReplyForm = ReplySchema | 'plain';

/** Returns a fenced block that the other side finds again in a text. */
function block(value: object): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;
}

/** Returns the block beside the first reply of a context, without the envelope, which belongs to one link. */
export function announceBlock({ envelope: _, ...announce }: SessionAnnounce): string {
  return block(announce);
}

/** Returns the result in the form the sender asked for. */
export function replyText(result: TaskResult, form: ReplyForm): string {
  const { envelope: _envelope, prose, conformance: _conformance, ...members } = result;
  if (form === 'json') return JSON.stringify(members);
  const text = (prose ?? result.summary ?? '').trim();
  if (form === 'structured') return [text, block(members)].filter(Boolean).join('\n\n');
  return [...statusLine(result), text, ...remaining(result)].filter(Boolean).join('\n\n') || '(done, without a word)';
}

/** States the status, which the executor's text may not. Upstream looks for `[error]` and `[busy]`. */
function statusLine({ status, error_summary, blocked_reason, blocked }: TaskResult): string[] {
  switch (status) {
    case 'error':
      return [`[error] ${error_summary ?? 'the task failed'}`];
    case 'blocked':
      return [
        `${blocked?.code === 'busy' ? '[busy] ' : ''}Not started: ${blocked_reason ?? 'the worker refused the task'}`,
      ];
    default:
      return [];
  }
}

function remaining({ status, next_steps }: TaskResult): string[] {
  if (status !== 'partial') return [];
  return [['Not finished. Remaining steps:', ...(next_steps ?? []).map((step) => `- ${step}`)].join('\n')];
}

/** Returns the text of a receiver that will send its reply later. Upstream looks at its end. */
export function queuedText(announce: string): string {
  return [announce, 'Message received; executing. [queued]'].filter(Boolean).join('\n\n');
}

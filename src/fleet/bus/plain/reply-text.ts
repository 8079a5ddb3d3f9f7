/**
 * What a worker answers in words, for senders that read nothing but text.
 *
 * Used by `fleet/bus/http/worker-server.ts` and `callbacks.ts`. @see docs/protocol/fleet.md#http
 */
import type { ReplySchema, SessionAnnounce, TaskResult } from '../../../protocol/fleet.ts';

/** How a sender wants its answer; `plain`: it sent no hints, so a block would mean nothing to it. */
export type ReplyForm = ReplySchema | 'plain';

/** A fenced block that the other side finds again in a text. */
function block(value: object): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;
}

/** The block that is put beside the first reply of a context, without what only one link is meant to see. */
export function announceBlock({ envelope: _, ...announce }: SessionAnnounce): string {
  return block(announce);
}

/** The result in the form that was asked for. */
export function replyText(result: TaskResult, form: ReplyForm): string {
  const { envelope: _envelope, prose, conformance: _conformance, ...told } = result;
  if (form === 'json') return JSON.stringify(told);
  const words = (prose ?? result.summary ?? '').trim();
  if (form === 'structured') return [words, block(told)].filter(Boolean).join('\n\n');
  return [...statusLine(result), words, ...remaining(result)].filter(Boolean).join('\n\n') || '(done, without a word)';
}

/** Says what the words of the executor may not say. `[error]` and `[busy]` are what upstream looks for. */
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
  return [['Not finished. What remains:', ...(next_steps ?? []).map((step) => `- ${step}`)].join('\n')];
}

/** The words of a receiver that will send its reply later. Upstream looks at their end. */
export function queuedText(announce: string): string {
  return [announce, 'Message received; executing. [queued]'].filter(Boolean).join('\n\n');
}

/**
 * Reads the request of a client of a plain worker server: a task, as a message of the fleet protocol, as hints in the text or
 * as the bare brief; or another message of the fleet protocol.
 *
 * Where text and data differ, the data counts.
 * @see docs/a2a.md#dispatch
 */
import { decodeValue } from '../../messages/decode.ts';
import type { Dispatched, Finding, Incoming } from '../../messages/decoded.ts';
import { dispatchMessage } from '../../messages/encode.ts';
import { parseInline } from '../../phases/inline.ts';
import type { ReplyForm } from './reply-text.ts';

export type ClientMessage =
  | {
      readonly kind: 'dispatch';
      readonly dispatch: Dispatched;
      readonly form: ReplyForm;
      /** `data`: a fleet message · `hints`: a text that names its task · `text`: a text whose task id was made here. */
      readonly by: 'data' | 'hints' | 'text';
    }
  | { readonly kind: 'message'; readonly message: Exclude<Incoming, Dispatched> }
  | {
      readonly kind: 'malformed';
      /** The task it was meant for, where that could be read. */
      readonly taskId: string | undefined;
      readonly errors: readonly Finding[];
      readonly form: ReplyForm;
      readonly by: 'data' | 'text';
    };

/** True for a data part that is a message of the fleet protocol, valid or not. */
export function isFleetMessage(part: unknown): part is object {
  const { type, protocol_version } = part as { readonly type?: unknown; readonly protocol_version?: unknown };
  return typeof type === 'string' && /^[A-Z]+_[A-Z_]+$/.test(type) && protocol_version !== undefined;
}

/** Reads a data part. A dispatch that names no context gets that of the request. */
export function readStructured(value: object, contextId: string | null): ClientMessage {
  const decoded = decodeValue(value);
  if (!decoded.valid) {
    return { kind: 'malformed', taskId: decoded.taskId, errors: decoded.errors, form: 'structured', by: 'data' };
  }
  const { message } = decoded;
  if (message.type !== 'TASK_DISPATCH') return { kind: 'message', message };
  const envelope = { ...message.envelope, context_id: message.envelope.context_id ?? contextId };
  return { kind: 'dispatch', dispatch: { ...message, envelope }, form: message.reply_schema, by: 'data' };
}

export interface TextOptions {
  readonly contextId: string | null;
  /** Undefined: the client gave none that can be used. */
  readonly messageId: string | undefined;
  /** An id the client gave the task beside the text. */
  readonly taskId?: string;
  /** Makes the id of a task without one. */
  readonly newId: () => string;
}

/** Reads a text: hints and a brief, or the bare brief. */
export function readText(text: string, { contextId, messageId, taskId, newId }: TextOptions): ClientMessage {
  const { is_dispatch, hints, brief } = parseInline(text);
  const form: ReplyForm = is_dispatch ? (hints.reply_schema ?? 'structured') : 'plain';
  const named = hints.task_id ?? taskId;
  const dispatch = dispatchMessage(
    {
      task: {
        task_id: named ?? newId(),
        priority: hints.priority,
        reply_schema: form === 'plain' ? 'prose' : form,
        token_budget: hints.token_budget,
      },
      requirements: { required_mcp: hints.required_mcp, required_capabilities: hints.required_capabilities },
      deadline: hints.deadline,
      brief,
    },
    { context_id: contextId, ...(messageId !== undefined && { message_id: messageId }) },
  );
  const decoded = decodeValue(dispatch);
  if (!decoded.valid) {
    return { kind: 'malformed', taskId: dispatch.task.task_id, errors: decoded.errors, form, by: 'text' };
  }
  const by = named === undefined ? 'text' : 'hints';
  return { kind: 'dispatch', dispatch: decoded.message as Dispatched, form, by };
}

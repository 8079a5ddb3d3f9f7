/**
 * What a message of an A2A client asks of a worker: a task, as a message of the fleet protocol, as hints in the text or as
 * bare words; or something about a task, which only clients that have named our extension can say.
 *
 * Called by `admission.ts`. Where text and data differ, the data counts.
 * @see docs/a2a.md#dispatch
 */
import { hash } from 'node:crypto';
import { decodeValue } from '../../messages/decode.ts';
import type { Dispatched, Finding, Incoming } from '../../messages/decoded.ts';
import { dispatchMessage } from '../../messages/encode.ts';
import { isId } from '../../messages/names.ts';
import { parseInline } from '../../phases/inline.ts';
import { dataOf, fleetDataOf, fleetMetadata, textOf } from '../a2a/messages.ts';
import type { Message } from '../a2a/sdk.ts';
import type { ReplyForm } from './reply-text.ts';

export type Asked =
  | {
      readonly kind: 'dispatch';
      readonly dispatch: Dispatched;
      readonly form: ReplyForm;
      /** `data`: a message of ours · `hints`: a text that names its task · `words`: a text, whose task was named here. */
      readonly by: 'data' | 'hints' | 'words';
    }
  | { readonly kind: 'message'; readonly message: Exclude<Incoming, Dispatched> }
  | {
      readonly kind: 'unreadable';
      /** A task it was meant for, where that much could be read. */
      readonly taskId: string | undefined;
      readonly errors: readonly Finding[];
      readonly form: ReplyForm;
    };

export interface ReadOptions {
  /** The client has named our extension; without it data is nothing but data. */
  readonly fleet: boolean;
  /** Context of the A2A task; null: the client named none. */
  readonly contextId: string | null;
  /** Makes the id of a task the client gave no id. */
  readonly newId: () => string;
}

export function readAsked(message: Message, options: ReadOptions): Asked {
  const [structured] = options.fleet ? fleetDataOf(message.parts) : [];
  return structured === undefined ? readText(message, options) : readStructured(structured, options);
}

function readStructured(value: object, { contextId }: ReadOptions): Asked {
  const decoded = decodeValue(value);
  if (!decoded.valid) return { kind: 'unreadable', taskId: decoded.taskId, errors: decoded.errors, form: 'structured' };
  const { message } = decoded;
  if (message.type !== 'TASK_DISPATCH') return { kind: 'message', message };
  const envelope = { ...message.envelope, context_id: message.envelope.context_id ?? contextId };
  return { kind: 'dispatch', dispatch: { ...message, envelope }, form: message.reply_schema, by: 'data' };
}

function readText(message: Message, { fleet, contextId, newId }: ReadOptions): Asked {
  const { is_dispatch, hints, brief } = parseInline(wordsOf(message));
  const form: ReplyForm = is_dispatch ? (hints.reply_schema ?? 'structured') : 'plain';
  const meant = fleet ? fleetMetadata(message.metadata).task_id : undefined;
  const named = hints.task_id ?? (typeof meant === 'string' && isId(meant) ? meant : undefined);
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
    { context_id: contextId, ...(isId(message.messageId) && { message_id: message.messageId }) },
  );
  const decoded = decodeValue(dispatch);
  if (!decoded.valid) return { kind: 'unreadable', taskId: dispatch.task.task_id, errors: decoded.errors, form };
  return {
    kind: 'dispatch',
    dispatch: decoded.message as Dispatched,
    form,
    by: named === undefined ? 'words' : 'hints',
  };
}

/** The words of a message; data of clients that send nothing else, as JSON. */
function wordsOf({ parts }: Message): string {
  const text = textOf(parts);
  return text === ''
    ? dataOf(parts)
        .map((one) => JSON.stringify(one))
        .join('\n\n')
    : text;
}

/** SHA-256 (hex) of what a message says, to tell one that was sent again from another under the same id. */
export const digestOfParts = ({ parts, taskId }: Message): string =>
  hash('sha256', JSON.stringify([taskId, parts.map(({ content }) => content)]));

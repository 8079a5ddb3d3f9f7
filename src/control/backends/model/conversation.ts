/**
 * The history of a session as a prompt for a provider: images as data, calls paired with their results, and what the
 * provider wants back with its own messages. However the history looks after interrupts, restarts, compactions and
 * changes of model, the prompt is one that providers accept.
 *
 * Used by `context.ts` and `model-backend.ts` for every round, and by `summary.ts`. Pure.
 */
import type { Image } from '../../../protocol/session-types.ts';
import { AUDIO_OF_PROVIDERS, isAudio } from '../../../protocol/session-words.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import { type ProviderData, providerDataOf } from './provider-data.ts';
import type {
  CallPart,
  ImagePart,
  PromptMessage,
  ProviderFields,
  ReasoningPart,
  ResultPart,
  TextPart,
} from './provider-model.ts';
import type { ToolNames } from './tool-names.ts';

type AssistantItem = Extract<HistoryItem, { role: 'assistant' }>;
type ToolItem = Extract<HistoryItem, { role: 'tool' }>;

export interface ConversationOptions {
  readonly provider: string;
  readonly model: string;
  readonly names: Pick<ToolNames, 'toProvider'>;
  /** The running turn: reasoning of earlier turns is only sent where the provider signed it. */
  readonly turnId: string;
  /** The beginning of an answer that was cut off, which the model is asked to continue. */
  readonly partial?: string | undefined;
}

/** Asked of the model behind an answer that was cut off: not every provider continues an answer that stands last. */
const CONTINUE =
  'The connection was lost in the middle of your answer. Continue it exactly where it stops, and repeat nothing of it.';

/** Bytes of the images of earlier turns in a request: it is written whole, in each round. */
const EARLIER_IMAGE_BYTES = 8 * 1024 * 1024;

const CALL_ID = /^[A-Za-z0-9_-]{1,64}$/;
/** What a call is answered with whose result is not in the history. */
const NO_RESULT = 'no result: the call was interrupted, it may or may not have taken effect';

/** The messages of a history, without the system prompt. */
export function messagesOf(history: readonly HistoryItem[], options: ConversationOptions): PromptMessage[] {
  const messages: PromptMessage[] = [];
  const usedIds = new Set<string>();
  const left = leftOut(history, options.turnId);
  for (const [at, item] of history.entries()) {
    if (item.role === 'user') {
      const content = [
        ...textParts(item.text),
        ...(item.images ?? []).flatMap((image) => attachmentPart(image, options.provider, left)),
      ];
      if (content.length > 0) messages.push({ role: 'user', content });
    } else if (item.role === 'assistant') {
      const ids = (item.calls ?? []).map(({ callId }) => freshId(callId, usedIds));
      const data = providerDataOf(item, options.provider, options.model);
      const content = assistantParts(item, ids, data, options);
      if (content.length > 0) {
        messages.push({ role: 'assistant', content, ...(data?.fields && { providerOptions: data.fields }) });
      }
      if (ids.length > 0) messages.push({ role: 'tool', content: resultParts(item, ids, history, at, options) });
    }
    // Results stand with their calls; one without a call would be refused.
  }
  if (options.partial !== undefined) {
    messages.push({ role: 'assistant', content: textParts(options.partial) }, userMessage(CONTINUE));
  }
  // Every provider requires a user message first, and most of them a user message last.
  if (messages[0]?.role === 'assistant') messages.unshift(userMessage('Sum up our conversation so far.'));
  if (messages.at(-1)?.role === 'assistant') messages.push(userMessage('Continue.'));
  return messages;
}

const userMessage = (text: string): PromptMessage => ({ role: 'user', content: [{ type: 'text', text }] });

/** Empty texts are refused by several providers. */
const textParts = (text: string, fields?: ProviderFields): TextPart[] =>
  text === '' ? [] : [{ type: 'text', text, ...(fields && { providerOptions: fields }) }];

/** Images of earlier turns that no longer fit: the newest ones do. */
function leftOut(history: readonly HistoryItem[], turnId: string): ReadonlySet<Image> {
  const left = new Set<Image>();
  let room = EARLIER_IMAGE_BYTES;
  for (const item of history.toReversed()) {
    if (item.role !== 'user' || item.turn === turnId) continue;
    for (const image of (item.images ?? []).toReversed()) {
      room -= image.byteSize;
      if (room < 0) left.add(image);
    }
  }
  return left;
}

/** An image or audio; one that no longer fits, and audio of an earlier prompt that this provider does not take, are named. */
function attachmentPart(image: Image, provider: string, left: ReadonlySet<Image>): (ImagePart | TextPart)[] {
  const { mimeType } = image;
  if (left.has(image) || (isAudio(mimeType) && !takesAudio(provider, mimeType)))
    return textParts(`[${mimeType} that is not included]`);
  const { dataUrl } = image;
  const data = dataUrl.slice(dataUrl.indexOf(',') + 1);
  return data === '' ? [] : [{ type: 'file', mediaType: mimeType, data: { type: 'data', data } }];
}

/** True where models of a provider may be given audio of a type. */
export const takesAudio = (provider: string, mimeType: string): boolean =>
  AUDIO_OF_PROVIDERS[provider]?.includes(mimeType) === true;

/** An id that no other call of the prompt has, in letters every provider takes. */
function freshId(callId: string, used: Set<string>): string {
  const stem = CALL_ID.test(callId) ? callId : callId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 60) || 'call';
  let id = stem;
  for (let count = 2; used.has(id); count += 1) id = `${stem.slice(0, 60)}_${count}`;
  used.add(id);
  return id;
}

function assistantParts(
  item: AssistantItem,
  ids: readonly string[],
  data: ProviderData | undefined,
  options: ConversationOptions,
): (TextPart | ReasoningPart | CallPart)[] {
  const calls = item.calls ?? [];
  const call = (at: number, fields?: ProviderFields): CallPart[] => {
    const made = calls[at];
    if (made === undefined) return [];
    const toolName = options.names.toProvider(made.name);
    const part: CallPart = { type: 'tool-call', toolCallId: ids[at] as string, toolName, input: made.input };
    return [fields ? { ...part, providerOptions: fields } : part];
  };
  if (data === undefined) return [...textParts(item.text), ...calls.flatMap((_, at) => call(at))];

  const parts: (TextPart | ReasoningPart | CallPart)[] = [];
  let next = 0;
  for (const part of data.parts) {
    if (part.kind === 'call') {
      parts.push(...call(next++, part.fields));
    } else if (part.kind === 'text') {
      parts.push(...textParts(item.text.slice(part.start, part.end), part.fields));
    } else if (part.fields !== undefined || data.fields !== undefined || item.turn === options.turnId) {
      // Unsigned reasoning belongs to the work it led to; sent later, some servers take it for an answer.
      const text = (item.reasoning ?? '').slice(part.start, part.end);
      parts.push({ type: 'reasoning', text, ...(part.fields && { providerOptions: part.fields }) });
    }
  }
  while (next < calls.length) parts.push(...call(next++));
  return parts;
}

/** A result for each call, in call order: the ones that follow the message, before the model speaks again. */
function resultParts(
  item: AssistantItem,
  ids: readonly string[],
  history: readonly HistoryItem[],
  at: number,
  { names }: ConversationOptions,
): ResultPart[] {
  const results = new Map<string, ToolItem>();
  for (let next = at + 1; next < history.length; next += 1) {
    const item = history[next] as HistoryItem;
    if (item.role === 'assistant') break;
    if (item.role === 'tool' && !results.has(item.callId)) results.set(item.callId, item);
  }
  return (item.calls ?? []).map(({ callId, name }, index) => {
    const result = results.get(callId);
    return {
      type: 'tool-result',
      toolCallId: ids[index] as string,
      toolName: names.toProvider(name),
      output:
        result === undefined
          ? { type: 'error-text', value: NO_RESULT }
          : { type: result.ok ? 'text' : 'error-text', value: resultText(result) },
    };
  });
}

/** A tool's result as the model reads it. Results are data: what is not a text is JSON. */
export function resultText({ ok, result, error }: Pick<ToolItem, 'ok' | 'result' | 'error'>): string {
  const text = typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null');
  if (ok || error === undefined || error === '') return text;
  return text === 'null' || text === '{}' || text === '' ? error : `${error}\n${text}`;
}

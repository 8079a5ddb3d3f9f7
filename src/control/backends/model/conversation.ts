/**
 * The history of a session as a prompt for a provider: images as data, calls paired with their results, and the data that the
 * provider wants back with its own messages. In every form that the history can have after interrupts, restarts, compactions
 * and changes of model, the prompt is one that providers accept.
 *
 * Pure.
 * @see docs/decisions/0062-requests-that-providers-take.md
 */
import { FreeNames } from '../../../base/free-names.ts';
import type { Image } from '../../../protocol/session-types.ts';
import { markOf } from '../../../protocol/session-words.ts';
import type { HistoryItem } from '../../contract/session-log.ts';
import { type Admission, admissions, dataOf } from './attachments.ts';
import { withoutLeftOut } from './left-out.ts';
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
import { acceptedReasoning } from './reasoning.ts';
import { wellFormed } from './schema-parts.ts';
import type { ToolNames } from './tool-names.ts';

type AssistantItem = Extract<HistoryItem, { role: 'assistant' }>;
type ToolItem = Extract<HistoryItem, { role: 'tool' }>;

export interface ConversationOptions {
  readonly provider: string;
  readonly model: string;
  readonly names: Pick<ToolNames, 'toProvider' | 'inputToProvider'>;
  /** The running turn: reasoning of earlier turns is only sent where the provider signed it. */
  readonly turnId: string;
  /** The beginning of an answer that was cut off, which the model is asked to continue. */
  readonly partial?: string | undefined;
  /** Receives each attachment that is left out, and why. */
  readonly onLeftOut?: (image: Image, reason: string) => void;
}

/** Prompt behind an answer that was cut off: not every provider continues an answer that stands last. */
const CONTINUE =
  'The connection was lost in the middle of your answer. Continue it exactly where it stops, and repeat nothing of it.';

const HALF_PAIR = /\\ud[89a-f]/i;
const CALL_ID = /^[A-Za-z0-9_-]{1,64}$/;
/** Models whose servers take ids of nine letters and digits, and no prompt directly behind results. */
const MISTRAL = /mistral|mixtral|ministral|magistral|devstral|codestral|pixtral|voxtral/i;
const MISTRAL_ID = /^[A-Za-z0-9]{9}$/;
/** The result of a call whose result is not in the history. */
const NO_RESULT = 'no result: the call was interrupted, it may or may not have taken effect';
/** Providers that sign texts, also empty ones. */
const SIGNS_TEXTS: ReadonlySet<string> = new Set(['google', 'antigravity']);
/**
 * Providers whose results of tools may have images in them; others get these as a message of the user, and so do all for a call
 * that failed: beside images a result has no mark of an error.
 */
const IMAGES_IN_RESULTS: ReadonlySet<string> = new Set(['anthropic', 'openai', 'google', 'antigravity']);

/** Returns the messages of a history, without the system prompt. */
export function messagesOf(history: readonly HistoryItem[], options: ConversationOptions): PromptMessage[] {
  return new Conversation(withoutLeftOut(history), options).messages();
}

class Conversation {
  readonly #items: readonly HistoryItem[];
  readonly #options: ConversationOptions;
  readonly #admissions: ReadonlyMap<Image, Admission>;
  readonly #ids = new FreeNames({ longest: 64 });
  readonly #mistralIds = new Set<string>();
  readonly #reasoningIds = new Set<unknown>();
  readonly #messages: PromptMessage[] = [];
  readonly #isMistral: boolean;

  constructor(items: readonly HistoryItem[], options: ConversationOptions) {
    this.#items = items;
    this.#options = options;
    this.#isMistral = MISTRAL.test(options.model);
    const { provider, model, turnId, onLeftOut } = options;
    const images = items.flatMap(imagesOf);
    const earlier = items.filter(({ turn }) => turn !== turnId).flatMap(imagesOf);
    this.#admissions = admissions(images, provider, model, new Set(earlier));
    for (const image of images) {
      const admission = this.#admissions.get(image) as Admission;
      if ('reason' in admission) onLeftOut?.(image, admission.reason);
    }
  }

  messages(): PromptMessage[] {
    for (const [at, item] of this.#items.entries()) {
      if (item.role === 'user') {
        this.#user([
          ...textParts(item.text),
          ...(item.images ?? []).map((image, number) => this.#attachment(image, number)),
        ]);
      } else if (item.role === 'assistant') this.#assistant(item, at);
      // Results stand with their calls; one without a call would be refused.
    }
    const { partial } = this.#options;
    if (partial !== undefined && !isBlank(partial)) {
      this.#messages.push({ role: 'assistant', content: textParts(partial) }, userMessage(CONTINUE));
    }
    // Every provider requires a user message first, and most of them a user message last.
    if (this.#messages[0]?.role === 'assistant') this.#messages.unshift(userMessage('Sum up our conversation so far.'));
    if (this.#messages.at(-1)?.role === 'assistant') this.#messages.push(userMessage('Continue.'));
    return this.#messages;
  }

  /** Adds a message of the user, or a part of the last one: templates of some models want the roles to alternate. */
  #user(content: readonly (TextPart | ImagePart)[]): void {
    if (content.length === 0) return;
    if (this.#isMistral && this.#messages.at(-1)?.role === 'tool')
      this.#messages.push({ role: 'assistant', content: textParts('Done.') });
    const last = this.#messages.at(-1);
    if (last?.role !== 'user') this.#messages.push({ role: 'user', content });
    else this.#messages[this.#messages.length - 1] = { ...last, content: joined([...last.content, ...content]) };
  }

  #assistant(item: AssistantItem, at: number): void {
    const { provider, model } = this.#options;
    const ids = (item.calls ?? []).map(({ callId }) =>
      this.#isMistral ? freshMistralId(callId, this.#mistralIds) : this.#ids.take(plainId(callId)),
    );
    const data = providerDataOf(item, provider, model);
    const content = this.#withoutRepeated(this.#parts(item, ids, data));
    const last = this.#messages.at(-1);
    if (content.length > 0 && last?.role === 'assistant' && last.providerOptions === undefined && !data?.fields) {
      // An answer and the next one without anything between them: a call must follow on a message of the user.
      this.#messages[this.#messages.length - 1] = { ...last, content: joined([...last.content, ...content]) };
    } else if (content.length > 0) {
      this.#messages.push({ role: 'assistant', content, ...(data?.fields && { providerOptions: data.fields }) });
    }
    if (ids.length > 0) this.#results(item, ids, at);
  }

  /**
   * Returns the parts without reasoning whose id an earlier message has: not every server that speaks OpenAI's language gives
   * each its own.
   */
  #withoutRepeated<Part extends TextPart | ReasoningPart | CallPart>(parts: readonly Part[]): readonly Part[] {
    const ids = new Map(parts.flatMap((part) => (part.type === 'reasoning' ? [[part, itemIdOf(part)] as const] : [])));
    const kept = parts.filter((part) => !this.#reasoningIds.has(ids.get(part as never)));
    for (const id of ids.values()) if (id !== undefined) this.#reasoningIds.add(id);
    return kept;
  }

  #parts(
    item: AssistantItem,
    ids: readonly string[],
    data: ProviderData | undefined,
  ): (TextPart | ReasoningPart | CallPart)[] {
    const { names, provider, turnId } = this.#options;
    const calls = item.calls ?? [];
    const call = (at: number, fields?: ProviderFields): CallPart[] => {
      const made = calls[at];
      if (made === undefined) return [];
      const toolName = names.toProvider(made.name);
      const input = wellFormed(names.inputToProvider(made.name, made.input));
      const part: CallPart = { type: 'tool-call', toolCallId: ids[at] as string, toolName, input };
      return [fields ? { ...part, providerOptions: fields } : part];
    };
    if (data === undefined) return [...textParts(item.text), ...calls.flatMap((_, at) => call(at))];

    const parts: (TextPart | ReasoningPart | CallPart)[] = [];
    let next = 0;
    for (const part of data.parts) {
      if (part.kind === 'call') {
        parts.push(...call(next++, part.fields));
      } else if (part.kind === 'text') {
        parts.push(...textParts(item.text.slice(part.start, part.end), part.fields, provider));
      } else if (part.fields !== undefined || data.fields !== undefined || item.turn === turnId) {
        // Unsigned reasoning belongs to the work it led to; sent later, some servers take it for an answer.
        const text = (item.reasoning ?? '').slice(part.start, part.end);
        parts.push({ type: 'reasoning', text, ...(part.fields && { providerOptions: part.fields }) });
      }
    }
    while (next < calls.length) parts.push(...call(next++));
    return acceptedReasoning(parts, provider);
  }

  /** Adds a result for each call, in call order: the ones that follow the message, before the model speaks again. */
  #results(item: AssistantItem, ids: readonly string[], at: number): void {
    const { names, provider } = this.#options;
    const results = new Map<string, ToolItem>();
    for (let next = at + 1; next < this.#items.length; next += 1) {
      const item = this.#items[next] as HistoryItem;
      if (item.role === 'assistant') break;
      if (item.role === 'tool' && !results.has(item.callId)) results.set(item.callId, item);
    }
    const beside: (TextPart | ImagePart)[] = [];
    const content = (item.calls ?? []).map(({ callId, name }, index): ResultPart => {
      const result = results.get(callId);
      const part = { type: 'tool-result', toolCallId: ids[index] as string, toolName: names.toProvider(name) } as const;
      if (result === undefined) return { ...part, output: { type: 'error-text', value: NO_RESULT } };
      const value = sentText(resultText(result));
      const images = (result.images ?? []).map((image, number) => this.#attachment(image, number));
      if (images.length === 0) return { ...part, output: { type: result.ok ? 'text' : 'error-text', value } };
      if (result.ok && IMAGES_IN_RESULTS.has(provider)) {
        // One text first: Google's SDK makes a further response of a text behind an image, and a call has one.
        const ordered = [
          ...images.filter(({ type }) => type === 'text'),
          ...images.filter(({ type }) => type === 'file'),
        ];
        return { ...part, output: { type: 'content', value: joined([{ type: 'text', text: value }, ...ordered]) } };
      }
      beside.push({ type: 'text', text: `[Attachments of the result of ${name} (${ids[index]})]` }, ...images);
      return { ...part, output: { type: result.ok ? 'text' : 'error-text', value } };
    });
    this.#messages.push({ role: 'tool', content });
    if (beside.length > 0) this.#user(beside);
  }

  /** Returns an attachment, or the reason for which it is left out. */
  #attachment(image: Image, number: number): ImagePart | TextPart {
    const admission = this.#admissions.get(image) as Admission;
    if ('type' in admission) {
      return { type: 'file', mediaType: admission.type, data: { type: 'data', data: dataOf(image) } };
    }
    return { type: 'text', text: `${markOf(image.mimeType, number + 1)} is left out: ${admission.reason}` };
  }
}

const userMessage = (text: string): PromptMessage => ({ role: 'user', content: [{ type: 'text', text }] });

/** Returns the attachments of an item. */
export const imagesOf = (item: HistoryItem): readonly Image[] => (item.role === 'assistant' ? [] : (item.images ?? []));

const itemIdOf = ({ providerOptions }: ReasoningPart): unknown => providerOptions?.openai?.itemId;

const isBlank = (text: string): boolean => text.trim() === '';

/** Several providers refuse empty texts and texts of white space. A signed text goes back unchanged. */
const textParts = (text: string, fields?: ProviderFields, provider = ''): TextPart[] =>
  isBlank(text) && !(SIGNS_TEXTS.has(provider) && fields?.google?.thoughtSignature !== undefined)
    ? []
    : [{ type: 'text', text: text.toWellFormed(), ...(fields && { providerOptions: fields }) }];

/** Joins adjacent texts: many servers take one text and no list. */
function joined<Part extends TextPart | ImagePart | ReasoningPart | CallPart>(parts: readonly (TextPart | Part)[]) {
  const all: (TextPart | Part)[] = [];
  for (const part of parts) {
    const last = all.at(-1);
    if (part.type === 'text' && last?.type === 'text' && !part.providerOptions && !last.providerOptions)
      all[all.length - 1] = { ...last, text: `${last.text}\n\n${part.text}` };
    else all.push(part);
  }
  return all;
}

/** Returns the id of a call in letters that every provider takes. */
const plainId = (callId: string): string =>
  CALL_ID.test(callId) ? callId : callId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 60) || 'call';

function freshMistralId(callId: string, used: Set<string>): string {
  let id = callId;
  for (let count = used.size + 1; !MISTRAL_ID.test(id) || used.has(id); count += 1)
    id = `call${String(count).padStart(5, '0')}`;
  used.add(id);
  return id;
}

/** Puts a text of white space in quotes: providers refuse an empty result, or take it for a missing one. */
const sentText = (text: string): string => (isBlank(text) ? JSON.stringify(text) : text).toWellFormed();

/** Returns a tool's result as the model reads it. Results are data: a value other than a text is sent as JSON. */
export function resultText({ ok, result, error }: Pick<ToolItem, 'ok' | 'result' | 'error'>): string {
  const json = typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null');
  // JSON writes half of a surrogate pair as an escape, which some servers read once more.
  const text = typeof result !== 'string' && HALF_PAIR.test(json) ? JSON.stringify(wellFormed(result)) : json;
  if (ok || error === undefined || error === '') return text;
  return text === 'null' || text === '{}' || text === '' ? error : `${error}\n${text}`;
}

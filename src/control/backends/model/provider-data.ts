/**
 * Data that a provider wants back with its own message: signatures of reasoning, encrypted reasoning, ids of items. Stored
 * in the history beside the message, in the order the model produced the parts, and goes back unchanged.
 *
 * Texts are not stored twice: a part states its position in the message's text, or reasoning.
 */
import type { HistoryItem } from '../../contract/session-log.ts';
import type { Json, ProviderFields } from './provider-model.ts';

/** Origin of a part of a message. `call` parts stand for the message's calls, in order. */
export type PartRecord =
  | {
      readonly kind: 'reasoning' | 'text';
      readonly start: number;
      readonly end: number;
      readonly fields?: ProviderFields;
    }
  | { readonly kind: 'call'; readonly fields?: ProviderFields };

/** `providerData` of an assistant's message. */
export interface ProviderData {
  readonly provider: string;
  readonly model: string;
  readonly parts: readonly PartRecord[];
  /** Fields of the message itself. */
  readonly fields?: ProviderFields;
}

/**
 * The members that providers want back; all others (citations, log probabilities, usage) are only information. The list has the
 * members that the SDK's packages read again when they turn a message into a request.
 */
const KEPT: ReadonlySet<string> = new Set([
  // Anthropic
  'signature',
  'redactedData',
  // OpenAI
  'itemId',
  'reasoningEncryptedContent',
  'phase',
  // Google, and Google's models behind other APIs
  'thoughtSignature',
]);

/** Returns the part of the provider's data about content that the provider wants back; undefined when it wants nothing. */
export function keptFields(fields: ProviderFields | undefined): ProviderFields | undefined {
  const found: Record<string, Record<string, Json>> = {};
  for (const [provider, members] of Object.entries(fields ?? {})) {
    for (const [name, value] of Object.entries(members)) {
      if (!KEPT.has(name) || value === undefined || value === null) continue;
      found[provider] ??= {};
      found[provider][name] = value;
    }
  }
  return Object.keys(found).length > 0 ? found : undefined;
}

type AssistantItem = Extract<HistoryItem, { role: 'assistant' }>;

/** Returns the data stored with `item` for this model; undefined for another model, or when it does not fit the message. */
export function providerDataOf(item: AssistantItem, provider: string, model: string): ProviderData | undefined {
  const data = item.providerData as Partial<ProviderData> | undefined;
  if (data?.provider !== provider || data.model !== model || !Array.isArray(data.parts)) return undefined;
  const fits = (data.parts as readonly PartRecord[]).every(
    (part) => part.kind === 'call' || part.end <= (part.kind === 'text' ? item.text : (item.reasoning ?? '')).length,
  );
  return fits ? (data as ProviderData) : undefined;
}

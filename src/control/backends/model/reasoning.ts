/**
 * Reasoning as providers take it back. Their rules differ: OpenAI wants a reasoning item followed by the item that it led to, and
 * encrypted, since OpenAI stores nothing; Anthropic wants a signature, and no message that ends with thinking. Reasoning that does not
 * fit is left out: the conversation is complete without it.
 *
 * Used by `conversation.ts`. Pure.
 */
import type { CallPart, ReasoningPart, TextPart } from './provider-model.ts';

type Part = TextPart | ReasoningPart | CallPart;

/** The parts of a message without the reasoning that its provider would refuse. */
export function acceptedReasoning(parts: readonly Part[], provider: string): Part[] {
  const sealed = sealedItems(parts);
  const accepted = parts.filter((part) => part.type !== 'reasoning' || isAccepted(part, provider, sealed));
  // Where a message ends with reasoning, the answer that it led to is missing.
  while (accepted.at(-1)?.type === 'reasoning') accepted.pop();
  return accepted;
}

function isAccepted(
  { text, providerOptions = {} }: ReasoningPart,
  provider: string,
  sealed: ReadonlySet<unknown>,
): boolean {
  // A signature holds for the text as it was, so it cannot be mended.
  if (!text.isWellFormed()) return false;
  switch (provider) {
    case 'anthropic': {
      const { signature, redactedData } = providerOptions.anthropic ?? {};
      return isText(signature) || isText(redactedData);
    }
    case 'openai': {
      const { itemId, reasoningEncryptedContent } = providerOptions.openai ?? {};
      return isText(reasoningEncryptedContent) || (itemId !== undefined && sealed.has(itemId));
    }
    default:
      return text !== '' || Object.keys(providerOptions).length > 0;
  }
}

/** Items of OpenAI whose encrypted content came with one of their parts. */
function sealedItems(parts: readonly Part[]): ReadonlySet<unknown> {
  const items = new Set<unknown>();
  for (const part of parts) {
    const { itemId, reasoningEncryptedContent } = part.providerOptions?.openai ?? {};
    if (part.type === 'reasoning' && isText(reasoningEncryptedContent)) items.add(itemId);
  }
  return items;
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

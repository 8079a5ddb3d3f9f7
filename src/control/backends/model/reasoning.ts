/**
 * Reasoning as providers take it back. Their rules differ: OpenAI wants a reasoning item followed by the item that it led to,
 * and encrypted, since OpenAI stores nothing; Anthropic wants a signature, no message that ends with thinking, and either all
 * calls behind thinking or none. Reasoning that does not fit is left out: the conversation is complete without it.
 *
 * Pure.
 */
import type { ModelChoice } from '../../contract/providers.ts';
import type { CallPart, PromptMessage, ReasoningPart, TextPart } from './provider-model.ts';

type Part = TextPart | ReasoningPart | CallPart;

/** Returns the parts of a message without the reasoning that its provider would refuse. */
export function acceptedReasoning(parts: readonly Part[], provider: string): Part[] {
  const sealed = sealedItems(parts);
  const accepted = parts.filter((part) => part.type !== 'reasoning' || isAccepted(part, provider, sealed));
  // Where a message ends with reasoning, the answer that it led to is missing.
  while (accepted.at(-1)?.type === 'reasoning') accepted.pop();
  return accepted;
}

/**
 * Returns the choice and the messages in one mode of thinking. Anthropic refuses thinking while the work that the request
 * continues began without: an answer of another model, one that was cut off, or whose signature was refused. Then this request
 * is made without thinking.
 */
export function inOneMode(
  choice: ModelChoice,
  messages: readonly PromptMessage[],
): { readonly choice: ModelChoice; readonly messages: readonly PromptMessage[] } {
  const isClaude = choice.provider === 'openrouter' && choice.model.startsWith('anthropic/');
  if (choice.provider !== 'anthropic' && !isClaude) return { choice, messages };
  const thinks = choice.thinking !== 'OFF' && beganWithThinking(messages);
  return thinks ? { choice, messages } : { choice: { ...choice, thinking: 'OFF' }, messages: messages.map(unthought) };
}

/** False where the last results are of calls whose first message has no thinking at its beginning. */
function beganWithThinking(messages: readonly PromptMessage[]): boolean {
  let at = messages.findLastIndex(({ role }) => role !== 'user');
  if (messages[at]?.role !== 'tool') return true;
  // A message of the user right behind results is sent as one with them.
  const isWithin = (index: number): boolean =>
    messages[index]?.role === 'user' ? messages[index - 1]?.role === 'tool' : messages[index] !== undefined;
  while (isWithin(at - 1)) at -= 1;
  const first = messages[at];
  return first?.role === 'assistant' && first.content[0]?.type === 'reasoning';
}

function unthought(message: PromptMessage): PromptMessage {
  if (message.role !== 'assistant') return message;
  // Fields of the message itself are reasoning as well.
  const { providerOptions: _reasoning, ...rest } = message;
  return { ...rest, content: message.content.filter(({ type }) => type !== 'reasoning') };
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

/** Returns items of OpenAI whose encrypted content came with one of their parts. */
function sealedItems(parts: readonly Part[]): ReadonlySet<unknown> {
  const items = new Set<unknown>();
  for (const part of parts) {
    const { itemId, reasoningEncryptedContent } = part.providerOptions?.openai ?? {};
    if (part.type === 'reasoning' && isText(reasoningEncryptedContent)) items.add(itemId);
  }
  return items;
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

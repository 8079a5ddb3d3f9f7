/**
 * A prompt as content blocks of the protocol, and the conversation so far for an agent that does not know it. Pure.
 */
import { pathToFileURL } from 'node:url';
import type { ContentBlock } from '../../../acp/sdk.ts';
import { isAudio } from '../../../protocol/session-words.ts';
import { fail } from '../../../wire/errors.ts';
import type { Turn } from '../../contract/backend.ts';
import type { HistoryItem } from '../../contract/session-log.ts';

/** Longest transcript of an earlier conversation, in characters; its newest part is sent. */
const MAX_TRANSCRIPT_CHARS = 64 * 1024;

/** Maximum number of characters of one result of a tool in it. */
const MAX_RESULT_CHARS = 1000;

export interface PromptBlockOptions {
  /** The name of the agent. */
  readonly agent: string;
  /** The content types that the agent announced. */
  readonly takes: { readonly image?: boolean; readonly audio?: boolean } | undefined;
  /** The conversation to send first. */
  readonly earlier?: readonly HistoryItem[];
}

/**
 * Returns the blocks of a prompt.
 *
 * @throws not_configured when the prompt has an image or audio that the agent cannot take
 */
export function promptBlocks(
  { text, images }: Turn['prompt'],
  { agent, takes, earlier = [] }: PromptBlockOptions,
): ContentBlock[] {
  for (const { mimeType } of images) {
    const kind = isAudio(mimeType) ? 'audio' : 'image';
    if (takes?.[kind] === true) continue;
    throw fail('not_configured', `the agent ${agent} does not accept ${kind === 'audio' ? kind : 'images'}`, { agent });
  }
  const blocks: ContentBlock[] = [];
  const before = transcript(earlier);
  if (before !== '') blocks.push({ type: 'text', text: before });
  if (text !== '') blocks.push({ type: 'text', text });
  for (const { dataUrl, mimeType, path } of images) {
    const data = dataUrl.slice(dataUrl.indexOf(',') + 1);
    const uri = path.startsWith('/') ? pathToFileURL(path).href : undefined;
    if (isAudio(mimeType)) blocks.push({ type: 'audio', data, mimeType });
    else blocks.push({ type: 'image', data, mimeType, ...(uri && { uri }) });
  }
  return blocks;
}

/** Returns the conversation as text, the newest part of it; `''` without one. */
export function transcript(history: readonly HistoryItem[]): string {
  const lines: string[] = [];
  let left = MAX_TRANSCRIPT_CHARS;
  for (const item of history.toReversed()) {
    const line = lineOf(item);
    if (line === '') continue;
    left -= line.length;
    if (left < 0) break;
    lines.push(line);
  }
  if (lines.length === 0) return '';
  const text = lines.reverse().join('\n\n');
  return `This session continues an earlier conversation. The conversation so far:\n\n${text}\n\nThe next message is the user's.`;
}

function lineOf(item: HistoryItem): string {
  if (item.role === 'user') return `User: ${item.text}`;
  if (item.role === 'assistant') return item.text === '' ? '' : `Assistant: ${item.text}`;
  const result = item.error ?? JSON.stringify(item.result) ?? '';
  return `Tool ${item.name} ${item.ok ? 'returned' : 'failed with'}: ${result.slice(0, MAX_RESULT_CHARS)}`;
}

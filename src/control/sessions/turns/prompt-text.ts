/**
 * The words of a prompt: its shown text, and the title it gives its session.
 */
import type { ImageReference } from '../../../protocol/session-types.ts';
import { markOf } from '../../../protocol/session-words.ts';

export interface Prompt {
  readonly text: string;
  readonly images: readonly ImageReference[];
}

/** Longest title made of a prompt, in characters. */
const TITLE_CHARACTERS = 80;
/** Characters in which the media type of a data URL is looked for. */
const TYPE_CHARACTERS = 100;

/** Returns the text that is shown for a prompt before its images were read. */
export function shownText({ text, images }: Prompt): string {
  return text === '' ? images.map((image, index) => markOf(typeOf(image), index + 1)).join(' ') : text;
}

/** Returns the title a prompt gives its session. */
export function titleOf(prompt: Prompt): string {
  const line = shownText(prompt).trim().replace(/\s+/g, ' ');
  return [...line].slice(0, TITLE_CHARACTERS).join('');
}

/** The media type as the client named it; `''` where it did not. */
const typeOf = ({ mime_type, data_url = '' }: ImageReference): string =>
  mime_type ?? /^data:([^;,]+)/i.exec(data_url.slice(0, TYPE_CHARACTERS))?.[1] ?? '';

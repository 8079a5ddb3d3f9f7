/** The words of a prompt: what is shown of it, and the title it gives its session. Used by `session-turns.ts` and `idempotent-prompts.ts`. */
import type { ImageReference } from '../../../protocol/session-types.ts';

export interface Prompt {
  readonly text: string;
  readonly images: readonly ImageReference[];
}

/** Longest title made of a prompt, in characters. */
const TITLE_CHARACTERS = 80;

/** What is shown of a prompt before its images were read. */
export function shownText({ text, images }: Prompt): string {
  return text === '' ? images.map((_, index) => `[Image ${index + 1}]`).join(' ') : text;
}

/** The title a prompt gives its session. */
export function titleOf(prompt: Prompt): string {
  const line = shownText(prompt).trim().replace(/\s+/g, ' ');
  return [...line].slice(0, TITLE_CHARACTERS).join('');
}

/**
 * Names of tools, MCP servers, pools and tiers, and the characters that no name or id contains.
 *
 * Names are compared in their canonical form everywhere in `fleet/`, so that `context-mode` and `context_mode` are equal.
 * @see docs/protocol/fleet.md#scalars
 */
import { AGENT_ID as AGENT_ID_PATTERN, FORBIDDEN as FORBIDDEN_CHARACTERS } from '../../protocol/fleet-words.ts';

export { MAX_NAMES } from '../../protocol/fleet-words.ts';

/** Longest name, in code points of its canonical form. */
const MAX_NAME_CHARS = 128;
/** Longest spelling that is read as a name, with blanks around it. */
const MAX_SPELLED_CHARS = 4096;
/** Longest id, in code points. */
const MAX_ID_CHARS = 256;

const FORBIDDEN = new RegExp(`[${FORBIDDEN_CHARACTERS}]`);
const CANONICAL = /^[a-z0-9_.]+$/;
const PLAIN_ID = /^[!-~](?:[ -~]{0,254}[!-~])?$/;
const AGENT_ID = new RegExp(AGENT_ID_PATTERN);
const VISIBLE = /[^\s\u0085\u180e\u200b-\u200d\u2060]/;

/** Returns the form in which names are compared: trimmed, ASCII letters small, `-` and space as `_`. */
export function canonicalName(name: string): string {
  // A text far beyond the longest name is no name in any form.
  if (name.length > MAX_SPELLED_CHARS || CANONICAL.test(name)) return name;
  return name
    .trim()
    .replace(/[A-Z]/g, (letter) => letter.toLowerCase())
    .replace(/[- ]/g, '_');
}

/** True when a text contains a character that no name, id or path may contain, or half of a surrogate pair. */
export const hasForbidden = (text: string): boolean => FORBIDDEN.test(text) || !text.isWellFormed();

/** True for a text with nothing to see in it; blanks of all scripts and zero-width ones count as nothing. */
export const isBlank = (text: string): boolean => !VISIBLE.test(text);

/** True when the text has 1 to `most` code points. */
function sized(text: string, most: number): boolean {
  if (text.length <= most) return text.length > 0;
  if (text.length > most * 2) return false;
  let count = 0;
  for (const _ of text) count++;
  return count <= most;
}

/** True for the id of a task, a context, a message: 1 to 256 code points, none forbidden, no blank at either end. */
export function isId(text: string): boolean {
  if (PLAIN_ID.test(text)) return true;
  return sized(text, MAX_ID_CHARS) && !hasForbidden(text) && text.trim() === text;
}

/** True for the id of an agent: it stands in subjects, file names and logs. */
export const isAgentId = (text: string): boolean => AGENT_ID.test(text);

/** True for a name, in any spelling. */
export function isName(text: string): boolean {
  return sized(canonicalName(text), MAX_NAME_CHARS) && !hasForbidden(text);
}

/**
 * A question of an agent, for people: what is asked, with everything that would be done. Pure.
 *
 * Used by `chat`, `approve ls` and `session-output.ts`.
 */
import type { Approval } from '../../protocol/session-types.ts';

/** Characters of an id that are shown; the commands accept a prefix. */
const SHOWN_ID = 8;

export const shortId = (id: string): string => id.slice(0, SHOWN_ID);

/** What is asked, with the arguments where the title leaves some out: a user must see what they allow. */
export function questionOf({ title, tool, reason, risks }: Approval): string {
  const about = reason === '' ? risks.join(', ') : reason;
  return `${title}${inputBeside(title, tool?.input)}${about === '' ? '' : ` (${about})`}`;
}

function inputBeside(title: string, input: Readonly<Record<string, unknown>> = {}): string {
  const [only, ...others] = Object.values(input);
  const inTitle = only === undefined || (others.length === 0 && typeof only === 'string' && title.includes(only));
  return inTitle ? '' : ` ${JSON.stringify(input)}`;
}

/** The choices a question offers, if it does: the `enum` of its only member. */
export function choicesOf({ schema }: Approval): readonly string[] {
  const [only] = Object.values((schema?.properties ?? {}) as Record<string, { enum?: unknown }>);
  return Array.isArray(only?.enum) ? only.enum.map(String) : [];
}

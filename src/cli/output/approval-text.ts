/**
 * A question of an agent, for people: the request, with everything that would be done. Pure.
 */
import { escapeControls } from '../../base/escape-controls.ts';
import { choicesOf, expectedOf } from '../../base/question-words.ts';
import type { Approval } from '../../protocol/session-types.ts';

/** Before the further lines of a title: a model writes it, and no line of it may pass for a separate question. */
const MARGIN = '\n    │ ';

/**
 * Returns the text of the question, with the arguments where the title leaves some out: a user must see what they allow.
 * @param input the arguments that are shown here; default: all of the call
 */
export function questionOf(approval: Approval, input = approval.tool?.input): string {
  const { title, reason, risks } = approval;
  const about = [reason === '' ? risks.join(', ') : reason, expectedOf(approval)].filter(Boolean).join('; ');
  const text = `${title}${inputBeside(title, input)}${about === '' ? '' : ` (${about})`}`;
  return text.replaceAll(/\r?\n/g, MARGIN);
}

function inputBeside(title: string, input: Readonly<Record<string, unknown>> = {}): string {
  const [only, ...others] = Object.values(input);
  const inTitle = only === undefined || (others.length === 0 && typeof only === 'string' && title.includes(only));
  return inTitle ? '' : ` ${JSON.stringify(input)}`;
}

/** Returns the prompt while it is pending. Models and agents wrote parts of it, and it goes to the terminal as it is. */
export function promptFor(approval: Approval): string {
  return escapeControls(plainPromptFor(approval)).replaceAll(/\s+/g, ' ');
}

function plainPromptFor(approval: Approval): string {
  if (approval.kind === 'question') {
    const choices = choicesOf(approval.schema).map(String);
    return choices.length === 0 ? 'answer: ' : `answer (${choices.join(', ')}): `;
  }
  const covers = approval.covers === undefined ? '' : ` (${approval.covers})`;
  return `allow? [y]es, [s]ession${covers}, [a]lways in this folder, [n]o, or n and why: `;
}

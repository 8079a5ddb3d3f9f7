/**
 * The approval step: no tool of a session runs before its policy, or its user, has let this very call through.
 *
 * Backends wrap their toolbox in it; `approvals/` decides. The call has exactly the arguments that the user saw: they are
 * copied and frozen before a question goes out.
 */
import type { Approval, ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { asError } from '../../wire/errors.ts';
import type { ApprovalRequest } from '../contract/approver.ts';
import type { Turn } from '../contract/backend.ts';
import { failedCall } from './failed-call.ts';
import type { Foreseen, Toolbox, ToolOffer } from './toolbox.ts';

/** Longest title of a request, in characters. */
const TITLE_CHARACTERS = 160;

/** Members that describe a call, the most descriptive first. */
const DESCRIPTIVE = ['command', 'argv', 'path', 'file_path', 'url', 'pattern', 'patterns', 'query', 'name', 'text'];

/** Returns the toolbox with an approval in front of every call. Calls the policy allows pass without an event. */
export function withApprovals(toolbox: Toolbox, turn: Pick<Turn, 'ask'>): Toolbox {
  return {
    list: () => toolbox.list(),
    find: (name) => toolbox.find(name),
    async call(call, signal, output) {
      const offer = toolbox.find(call.name);
      if (offer === undefined) return failedCall(call, 'not_found', `unknown tool: ${call.name}`);
      let foreseen: Foreseen | undefined;
      try {
        foreseen = await toolbox.foresee?.(call, signal);
      } catch (error) {
        return failedCall(call, signal.aborted ? 'cancelled' : 'failed', `not run: ${asError(error).message}`);
      }
      const input = deepFrozen(structuredClone(foreseen?.input ?? call.input));
      let approval: Approval;
      let problem: string | undefined;
      try {
        const request: ApprovalRequest = {
          kind: 'tool',
          // The arguments as the model gave them: the foreseen input may have more.
          possible: async () => {
            problem = await argumentsProblem(offer, call.input, signal);
            return problem === undefined;
          },
          title: titleOf({ ...call, input }),
          tool: { name: call.name, input, call_id: call.callId },
          risks: foreseen?.risks ?? offer.risks,
          ...(offer.kind !== undefined && { toolKind: offer.kind }),
          ...(foreseen !== undefined && { includes: foreseen.includes }),
        };
        approval = await turn.ask(request, signal);
      } catch (error) {
        return failedCall(call, 'cancelled', `not run: ${asError(error).message}`);
      }
      if (problem !== undefined) return failedCall(call, 'invalid_input', `invalid arguments: ${problem}`);
      if (approval.state !== 'allowed') return refusalOf(call, approval);
      if (signal.aborted) return failedCall(call, 'cancelled', 'not run: the turn was interrupted before');
      return toolbox.call({ ...call, input }, signal, output);
    },
  };
}

/** Returns the reason why arguments do not fit their tool; undefined where they do, or where its schema cannot be checked. */
async function argumentsProblem(
  { name, inputSchema }: ToolOffer,
  input: ToolCall['input'],
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    // Its threads are loaded when the first call waits for a person.
    const { foreignSchemas } = await import('../../base/foreign-schemas.ts');
    await foreignSchemas.check(inputSchema, input, { what: `arguments of ${name}`, fills: false, signal });
    return undefined;
  } catch (thrown) {
    const { code, message, detail } = asError(thrown);
    return code === 'schema_violation' && detail.reason === undefined ? message : undefined;
  }
}

/** Returns the result, for the model, of a call that was not allowed. */
export function refusalOf(call: ToolCall, { id, state, reason, answer }: Approval): ToolDone {
  const more = { approval_id: id };
  if (state === 'expired') {
    return failedCall(
      call,
      'expired',
      'not run: it was not allowed before the deadline. Continue without it, or ask the user.',
      more,
    );
  }
  if (state === 'cancelled') return failedCall(call, 'cancelled', 'not run: the request was withdrawn', more);
  if (answer?.reason !== undefined) {
    const error = `not run: it was not allowed. The user says: ${answer.reason}. Do not try the same by other means.`;
    return failedCall(call, 'denied', error, more);
  }
  const because = answer === undefined && reason !== '' ? ` (${reason})` : '';
  const error = `not run: it was not allowed${because}. Do not try the same by other means; ask the user what to do.`;
  return failedCall(call, 'denied', error, more);
}

/** Returns one line that names the requested call, e.g. `shell: npm test`. Invisible characters are shown as escapes. */
export function titleOf({ name, input }: Pick<ToolCall, 'name' | 'input'>): string {
  const member = DESCRIPTIVE.find((member) => Object.hasOwn(input, member)) ?? Object.keys(input)[0];
  const value = member === undefined ? undefined : input[member];
  if (value === undefined) return name;
  const words = Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.join(' ') : value;
  const text = typeof words === 'string' ? words : (JSON.stringify(words) ?? '');
  return shortened(`${name}: ${visible(text.slice(0, TITLE_CHARACTERS * 4))}`, text.length > TITLE_CHARACTERS * 4);
}

function shortened(title: string, more: boolean): string {
  const characters = [...title];
  if (characters.length <= TITLE_CHARACTERS && !more) return title;
  return `${characters.slice(0, TITLE_CHARACTERS - 1).join('')}…`;
}

/** Escapes line breaks, control and format characters, which could make a request look like another one. */
const visible = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\n' ? '⏎' : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );

function deepFrozen<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    for (const member of Object.values(value)) deepFrozen(member);
    Object.freeze(value);
  }
  return value;
}

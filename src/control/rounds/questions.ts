/**
 * `ask_user`: lets a model put a question to the user during its turn, and continue with the answer.
 *
 * Backends that think in rounds wrap their toolbox in it; the approver holds the question until a client answers.
 */
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { asError } from '../../wire/errors.ts';
import type { Turn } from '../contract/backend.ts';
import { failedCall } from './failed-call.ts';
import type { Toolbox, ToolOffer } from './toolbox.ts';

const MAX_CHOICES = 20;

/** The tool as the model is offered it. */
export const askUser: ToolOffer = {
  name: 'ask_user',
  description:
    'Asks the user a question and waits for the answer. Use it only when the work cannot continue without the answer; ' +
    'with `choices` when there are few possible ones.',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['question'],
    properties: {
      question: { type: 'string', minLength: 1, description: 'The question, complete in itself.' },
      choices: {
        type: 'array',
        items: { type: 'string', minLength: 1 },
        maxItems: MAX_CHOICES,
        description: 'The answers to choose from.',
      },
    },
  },
  kind: 'question',
  risks: [],
};

/** Returns the toolbox with `ask_user`. A tool of that name in it cannot be reached any more. */
export function withQuestions(toolbox: Toolbox, turn: Pick<Turn, 'ask'>): Toolbox {
  return {
    async list() {
      const others = (await toolbox.list()).filter(({ name }) => name !== askUser.name);
      return [...others, askUser].sort((one, other) => (one.name < other.name ? -1 : 1));
    },
    find: (name) => (name === askUser.name ? askUser : toolbox.find(name)),
    call: (call, signal, output) => (call.name === askUser.name ? ask(call, turn) : toolbox.call(call, signal, output)),
  };
}

async function ask(call: ToolCall, turn: Pick<Turn, 'ask'>): Promise<ToolDone> {
  const { callId, name, input } = call;
  const { question, choices = [] } = input;
  if (typeof question !== 'string' || question.trim() === '') {
    return failedCall(call, 'invalid_input', 'invalid arguments: question must be a text');
  }
  if (!Array.isArray(choices) || choices.length > MAX_CHOICES || choices.some((choice) => typeof choice !== 'string')) {
    return failedCall(call, 'invalid_input', `invalid arguments: choices must be at most ${MAX_CHOICES} texts`);
  }
  try {
    const { state, answer } = await turn.ask({
      kind: 'question',
      title: question.trim(),
      // Names the call, so that the same question is not asked twice when the turn continues after a restart.
      tool: { name, input, call_id: callId },
      risks: [],
      schema: {
        type: 'object',
        properties: { answer: { type: 'string', ...(choices.length > 0 && { enum: choices }) } },
        required: ['answer'],
      },
    });
    if (state === 'allowed')
      return { name, ok: true, input, result: { answer: answer?.content?.answer ?? '' }, callId };
    if (state === 'expired') return failedCall(call, 'expired', 'no answer before the deadline');
    if (state === 'cancelled') return failedCall(call, 'cancelled', 'the question was withdrawn');
    return failedCall(call, 'denied', 'the user does not want to answer');
  } catch (error) {
    return failedCall(call, 'cancelled', asError(error).message);
  }
}

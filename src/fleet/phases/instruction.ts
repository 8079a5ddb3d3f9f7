/**
 * The instructions that an executor gets with its brief: working directory, depth of checks, limits, and the form of its reply.
 * The first prompt of a task has them, and once more the prompt for a repair of the reply.
 *
 * The status in the example is invalid, so that an executor that echoes the example does not report a finished task.
 * @see docs/fleet-phases.md#result-in-the-reply
 */
import { type Priority, type ReplySchema, STATUSES } from '../../protocol/fleet.ts';

/** Input of the instructions. */
export interface InstructionInput {
  readonly taskId: string;
  readonly replySchema: ReplySchema;
  /** JSON Schema of the result's `answer`. */
  readonly answerSchema?: Readonly<Record<string, unknown>> | null;
  readonly priority: Priority;
  /** Tokens for the whole task; null: no limit. */
  readonly tokenBudget: number | null;
  /** RFC 3339, UTC. */
  readonly deadline: string | null;
  /** Absolute working directory; null where only the receiver knows it. */
  readonly cwd: string | null;
  /** Epoch milliseconds; adds the time left, because not every executor can read a clock. */
  readonly nowMs?: number;
}

/** Depth of checks before `done`: the more urgent, the fewer. */
const CARE: Readonly<Record<Priority, string>> = {
  urgent:
    'Priority: urgent. Take the shortest safe way. Check only that what you changed works, and name in next_steps what you did not check.',
  high: 'Priority: high. Check what you changed with the tests closest to it, and leave the rest.',
  normal: 'Priority: normal. Check what you changed as the project does: run the tests that concern it.',
  low: 'Priority: low. There is no hurry. Be thorough: run all checks of the project and look for side effects before you call it done.',
};

/** Returns the text that follows the brief. */
export function replyInstruction(input: InstructionInput): string {
  const { cwd, priority, tokenBudget, replySchema, answerSchema } = input;
  const rules = [
    ...(cwd === null ? [] : [`Working directory: ${cwd} — work there, and change nothing outside it.`]),
    CARE[priority],
    ...(tokenBudget === null
      ? []
      : [
          `Token budget: ${tokenBudget} for the whole task, tool calls included. When it is used up you are stopped: hand in what you have, as partial, before that.`,
        ]),
    ...deadlineRule(input),
  ];
  const wanted = hasAnswer(answerSchema) && replySchema === 'prose' ? 'structured' : replySchema;
  return [...rules.map((rule) => `- ${rule}`), '', ...contract(wanted, input.taskId, answerSchema)].join('\n');
}

function deadlineRule({ deadline, nowMs }: InstructionInput): string[] {
  if (deadline === null) return [];
  const minutes = nowMs === undefined ? undefined : Math.floor((Date.parse(deadline) - nowMs) / 60_000);
  const left = minutes === undefined || Number.isNaN(minutes) ? '' : `, in ${Math.max(0, minutes)} min`;
  return [
    `Deadline: ${deadline}${left}. Work that is not finished by then counts for nothing: hand in partial before it.`,
  ];
}

const hasAnswer = (schema: InstructionInput['answerSchema']): schema is Readonly<Record<string, unknown>> =>
  schema !== undefined && schema !== null;

/** Form of the reply. */
const FORM: Readonly<Record<Exclude<ReplySchema, 'prose'>, string>> = {
  structured: 'Reply in your own words, then end the reply with exactly one fenced block of this form:',
  json: 'Reply with one JSON object of this form and nothing else, no text before or after it:',
};

function contract(replySchema: ReplySchema, taskId: string, answerSchema: InstructionInput['answerSchema']): string[] {
  if (replySchema === 'prose') return ['Reply in your own words. Say plainly what is done, what is not, and why.'];
  return block(FORM[replySchema], taskId, answerSchema);
}

const block = (form: string, taskId: string, answerSchema: InstructionInput['answerSchema']): string[] => [
  form,
  '',
  '```json',
  example(taskId, hasAnswer(answerSchema)),
  '```',
  '',
  ...meaning(answerSchema),
];

function example(taskId: string, answer: boolean): string {
  const result = {
    type: 'TASK_RESULT',
    protocol_version: '2.0',
    task_id: taskId,
    status: STATUSES.join('|'),
    summary: 'one or two sentences',
    next_steps: [],
    blocked_reason: null,
    error_summary: null,
    artifacts: { pr: null, files_changed: [] },
    ...(answer && { answer: '…' }),
  };
  return JSON.stringify(result, null, 2);
}

function meaning(answerSchema: InstructionInput['answerSchema']): string[] {
  return [
    'status: done = all of it is finished and checked; partial = some of it, and next_steps says what remains; blocked = you cannot continue without another person or team, and blocked_reason says why; error = it failed, and error_summary says how.',
    'files_changed: paths relative to the working directory. pr: the address of a pull request, if you opened one.',
    ...(hasAnswer(answerSchema)
      ? ['answer: a value that fits this JSON Schema, whenever status is done:', JSON.stringify(answerSchema)]
      : []),
  ];
}

/** Input of a repair prompt. */
export interface RepairInput {
  readonly taskId: string;
  readonly replySchema: ReplySchema;
  readonly answerSchema?: Readonly<Record<string, unknown>> | null;
  /** Codes of `extractReply` and problems of `checkAnswer`. */
  readonly problems: readonly string[];
}

const MAX_PROBLEMS = 8;
const MAX_PROBLEM_CHARS = 300;

/** Codes as text; codes without a text do not lead to a repair. */
const IN_WORDS: ReadonlyMap<string, string> = new Map([
  ['R_NO_BLOCK', 'there was no TASK_RESULT in it'],
  ['R_MALFORMED', 'the TASK_RESULT was not valid JSON, or was cut off'],
  ['R_DUP_KEY', 'an object had the same key twice'],
  ['R_RESERVED_KEY', 'an object had the key __proto__'],
  ['R_TASK_ID_MISMATCH', 'the TASK_RESULT was about another task_id'],
  ['R_INVALID', `status was not one of ${STATUSES.join(', ')}, or protocol_version was not 2.0`],
  ['R_EXIT_NONZERO', 'the program ended with an error'],
]);

const REPAIR_FORM: Readonly<Record<ReplySchema, string>> = {
  prose: 'Write exactly one fenced block of this form, and nothing else:',
  structured: 'Write exactly one fenced block of this form, and nothing else:',
  json: FORM.json,
};

/**
 * Returns the prompt of the one repair turn, in the same conversation: it requests the block alone. It does not repeat the
 * brief, so that no work is done twice.
 */
export function repairPrompt({ taskId, replySchema, answerSchema, problems }: RepairInput): string {
  const texts = problems.map((problem) => IN_WORDS.get(problem) ?? problem).filter((text) => !/^R_[A-Z_]+$/.test(text));
  const shown = texts
    .slice(0, MAX_PROBLEMS)
    .map((text) => `- ${text.replace(/\s+/g, ' ').slice(0, MAX_PROBLEM_CHARS)}`);
  return [
    'Your last reply could not be used:',
    ...(shown.length > 0 ? shown : ['- there was no usable TASK_RESULT in it']),
    '',
    'The work itself has ended: do not continue it, run nothing, change nothing. Report it as it stands.',
    ...block(REPAIR_FORM[replySchema], taskId, answerSchema),
  ].join('\n');
}

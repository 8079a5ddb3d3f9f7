/**
 * A worker's question as a message for clients of plain A2A, and their next message as its answer.
 *
 * `executions.ts` makes the task wait, `admission.ts` reads the answer. Clients that speak the fleet protocol get TASK_QUESTION
 * itself.
 * @see docs/a2a.md#questions-of-workers
 */
import { choicesOf, contentFrom, contentSchema, expectedOf } from '../../../base/question-words.ts';
import { checkValue } from '../../../base/value-check.ts';
import type { TaskAnswer, TaskQuestion } from '../../../protocol/fleet.ts';
import { isObject } from '../../../wire/json.ts';
import { dataOf, type MessageContent, STATE, textOf } from './messages.ts';
import type { Message, Task } from './sdk.ts';

/** The verdict of a client on a question, with the content it asked for. */
export type Verdict = Pick<TaskAnswer, 'allowed' | 'content' | 'reason'>;
export type ReadAnswer =
  | { readonly ok: true; readonly verdict: Verdict }
  | { readonly ok: false; readonly problem: string };

/** The choices of a question without a schema. */
const VERDICT_CHOICES = ['yes', 'no'];
const VERDICT_SCHEMA = {
  type: 'object',
  properties: { allowed: { type: 'boolean' }, reason: { type: 'string' } },
  required: ['allowed'],
};
const VERDICTS: Readonly<Record<string, boolean>> = { yes: true, allow: true, no: false, deny: false };

/** Returns the question as text, and as data with its choices and its schema. */
export function questionMessage(question: TaskQuestion): Pick<MessageContent, 'text' | 'plainData'> {
  const { question_id, kind, title, tool, risks = [] } = question;
  const schema = contentSchema(question);
  const choices = schema === undefined ? VERDICT_CHOICES : choicesOf(schema);
  const text = [
    title,
    ...(tool === undefined ? [] : [`Tool: ${tool.name} ${JSON.stringify(tool.input)}`]),
    ...(risks.length === 0 ? [] : [`Risks: ${risks.join(', ')}`]),
    ...howToAnswer(question),
  ].join('\n');
  const plainData = {
    question_id,
    kind,
    title,
    ...(tool !== undefined && { tool }),
    ...(risks.length > 0 && { risks }),
    ...(choices.length > 0 && { choices }),
    schema: schema ?? VERDICT_SCHEMA,
  };
  return { text, plainData };
}

function howToAnswer(question: TaskQuestion): readonly string[] {
  if (contentSchema(question) === undefined) return ['Answer yes or no.'];
  const expected = expectedOf(question);
  return expected === undefined ? [] : [`Answer with ${expected}.`];
}

/** Returns the id of the question whose answer a task waits for; undefined: it waits for none. */
export function questionAskedIn({ status }: Task): unknown {
  if (status?.state !== STATE.inputRequired) return undefined;
  const [asked] = dataOf(status.message?.parts) as { readonly question_id?: unknown }[];
  return asked?.question_id;
}

/** Reads the message of a client: its data, the JSON in its text, or its words. The schema of the question decides. */
export async function readAnswer(question: TaskQuestion, message: Message): Promise<ReadAnswer> {
  const words = textOf(message.parts);
  const [data = jsonIn(words)] = dataOf(message.parts);
  const schema = contentSchema(question);
  if (schema === undefined) return verdictOf(data, words);
  const content = data ?? (words === '' ? undefined : contentFrom(words, question));
  if (content === undefined) return wrong(question, words === '' ? ['the message has neither text nor data'] : []);
  const check = await checkValue(schema, content);
  // A schema that cannot be used is the worker's fault: it gets the client's content unchecked.
  if (!check.ok && !check.hopeless) return wrong(question, check.problems);
  const value = check.ok ? check.answer : content;
  return { ok: true, verdict: { allowed: true, content: value as NonNullable<Verdict['content']> } };
}

function verdictOf(data: object | undefined, words: string): ReadAnswer {
  const { allowed, reason } = (data ?? {}) as { readonly allowed?: unknown; readonly reason?: unknown };
  const verdict = typeof allowed === 'boolean' ? allowed : VERDICTS[words.toLowerCase().replace(/[.!]$/, '')];
  if (verdict === undefined) return { ok: false, problem: 'the answer must be yes or no' };
  return { ok: true, verdict: { allowed: verdict, ...(typeof reason === 'string' && { reason }) } };
}

function wrong(question: TaskQuestion, problems: readonly string[]): ReadAnswer {
  const found = problems.length > 0 ? problems : [`it must be ${expectedOf(question)}`];
  return { ok: false, problem: `the answer was not accepted: ${found.join('; ')}` };
}

function jsonIn(words: string): object | undefined {
  if (!words.startsWith('{')) return undefined;
  try {
    const value: unknown = JSON.parse(words);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

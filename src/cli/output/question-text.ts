/**
 * The questions of workers and agents, as text for people: choices, schema, and how words of a command line become an answer.
 * Pure.
 *
 * Used by `task-output.ts`, `approval-text.ts` and `commands/task.ts`.
 */
import { escapeControls } from '../../base/escape-controls.ts';
import type { TaskQuestion } from '../../protocol/fleet.ts';
import { isObject, type JsonObject } from '../../wire/json.ts';
import { oneLine } from './tool-summary.ts';

type Schema = Readonly<Record<string, unknown>> | undefined;

interface Member {
  readonly name: string;
  readonly schema: JsonObject;
}

/** The only member the content of an answer has; undefined: it has several, or none that is known. */
function onlyMember(schema: Schema): Member | undefined {
  const [first, ...more] = isObject(schema?.properties) ? Object.entries(schema.properties) : [];
  return first === undefined || more.length > 0 || !isObject(first[1])
    ? undefined
    : { name: first[0], schema: first[1] };
}

/** The choices a question offers, if it does: the values its only member may have. */
export function choicesOf(schema: Schema): readonly unknown[] {
  const only = onlyMember(schema)?.schema;
  if (Array.isArray(only?.enum)) return only.enum;
  if (Array.isArray(only?.oneOf))
    return only.oneOf.flatMap((one) => (isObject(one) && 'const' in one ? [one.const] : []));
  return only?.type === 'boolean' ? [true, false] : [];
}

/** True where any text is an answer. */
function takesText(schema: Schema): boolean {
  const only = onlyMember(schema);
  return only?.schema.type === 'string' && choicesOf(schema).length === 0;
}

/** What may be answered: choices, or the schema where it asks for more than a text; undefined: any text, or a yes or no. */
export function expectedOf({ kind, schema }: Pick<TaskQuestion, 'kind' | 'schema'>): string | undefined {
  if (kind !== 'question' || schema === undefined) return undefined;
  const choices = choicesOf(schema);
  if (choices.length > 0) return `one of ${choices.map(String).join(', ')}`;
  return takesText(schema) ? undefined : `JSON by the schema ${JSON.stringify(schema)}`;
}

/** The end of the command that answers a question. */
export function answerHint(question: Pick<TaskQuestion, 'kind' | 'schema'>): string {
  const { kind, schema } = question;
  if (kind !== 'question' || schema === undefined) return 'yes|no';
  const choices = choicesOf(schema);
  if (choices.length > 0) return choices.map((choice) => JSON.stringify(choice).replaceAll('"', '')).join('|');
  return takesText(schema) ? '"TEXT"' : "yes --content 'JSON'";
}

/** A question in one line, with what may be answered and how. */
export function questionLine(taskId: string, question: TaskQuestion): string {
  const expected = expectedOf(question);
  const what = expected === undefined ? '' : ` (${oneLine(expected, 1_000)})`;
  const text = `${oneLine(question.title, 300)}${what}`;
  return escapeControls(
    `${text}; answer: handfast task answer ${taskId} ${question.question_id} ${answerHint(question)}`,
  );
}

/**
 * The content of an answer given in words: the value of the only member. Undefined: the words are a plain yes or no, or the
 * question asks for more than one value.
 */
export function contentFrom(
  words: string,
  { kind, schema }: Pick<TaskQuestion, 'kind' | 'schema'>,
): JsonObject | undefined {
  const only = kind === 'question' ? onlyMember(schema) : undefined;
  if (only === undefined) return undefined;
  const choices = choicesOf(schema);
  const boolean = only.schema.type === 'boolean' ? { yes: true, no: false }[words.toLowerCase()] : undefined;
  const choice = choices.find((one) => String(one).toLowerCase() === words.toLowerCase());
  if (boolean !== undefined || choice !== undefined) return { [only.name]: boolean ?? choice };
  if (words === 'yes' || words === 'no') return undefined;
  if (choices.length > 0) return { [only.name]: words };
  if (only.schema.type === 'string' || only.schema.type === undefined) return { [only.name]: words };
  try {
    return { [only.name]: JSON.parse(words) };
  } catch {
    return { [only.name]: words };
  }
}

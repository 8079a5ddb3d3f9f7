/**
 * The questions of workers and agents: their possible answers, and how words become an answer. Pure.
 */
import { isObject, type JsonObject } from '../wire/json.ts';

type Schema = Readonly<Record<string, unknown>> | undefined;

/** The members of a question, or of an approval, that decide its possible answers. */
export interface Askable {
  readonly kind: 'tool' | 'question';
  /** JSON Schema of the content of the answer; without it a yes or no is asked for. */
  readonly schema?: Schema;
}

interface Member {
  readonly name: string;
  readonly schema: JsonObject;
}

/** Returns the only member that the content of an answer has; undefined if it has several, or none that is known. */
function onlyMember(schema: Schema): Member | undefined {
  const [first, ...more] = isObject(schema?.properties) ? Object.entries(schema.properties) : [];
  return first === undefined || more.length > 0 || !isObject(first[1])
    ? undefined
    : { name: first[0], schema: first[1] };
}

/** Returns the choices of a question: the values that its only member may have. */
export function choicesOf(schema: Schema): readonly unknown[] {
  const only = onlyMember(schema)?.schema;
  if (Array.isArray(only?.enum)) return only.enum;
  if (Array.isArray(only?.oneOf))
    return only.oneOf.flatMap((one) => (isObject(one) && 'const' in one ? [one.const] : []));
  return only?.type === 'boolean' ? [true, false] : [];
}

/** Returns true if any text is an answer. */
export function takesText(schema: Schema): boolean {
  const only = onlyMember(schema);
  return only?.schema.type === 'string' && choicesOf(schema).length === 0;
}

/** Returns the schema of the content that a question asks for; undefined if it asks for a yes or no. */
export const contentSchema = ({ kind, schema }: Askable): Schema => (kind === 'question' ? schema : undefined);

/**
 * Returns the possible answers: choices, or the schema if the question asks for more than a text; undefined: any text,
 * or a yes or no.
 */
export function expectedOf(question: Askable): string | undefined {
  const schema = contentSchema(question);
  if (schema === undefined) return undefined;
  const choices = choicesOf(schema);
  if (choices.length > 0) return `one of ${choices.map(String).join(', ')}`;
  return takesText(schema) ? undefined : `JSON by the schema ${JSON.stringify(schema)}`;
}

/** Returns the choice that words name; undefined if they name none. */
export function choiceIn(words: string, schema: Schema): unknown {
  const said = words.toLowerCase();
  const boolean = onlyMember(schema)?.schema.type === 'boolean' ? { yes: true, no: false }[said] : undefined;
  return boolean ?? choicesOf(schema).find((choice) => String(choice).toLowerCase() === said);
}

/**
 * Returns the content of an answer given in words: the value of the only member. Undefined if the question asks for a
 * yes or no, or for more than one value.
 */
export function contentFrom(words: string, question: Askable): JsonObject | undefined {
  const schema = contentSchema(question);
  const only = onlyMember(schema);
  if (only === undefined) return undefined;
  const choice = choiceIn(words, schema);
  if (choice !== undefined) return { [only.name]: choice };
  const { type } = only.schema;
  if (choicesOf(schema).length > 0 || type === 'string' || type === undefined) return { [only.name]: words };
  try {
    return { [only.name]: JSON.parse(words) };
  } catch {
    return { [only.name]: words };
  }
}

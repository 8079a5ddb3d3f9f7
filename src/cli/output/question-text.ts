/**
 * The questions of workers and agents, as text for people: the command that answers, and how its words become an
 * answer. Pure.
 */
import { escapeControls } from '../../base/escape-controls.ts';
import {
  type Askable,
  choiceIn,
  choicesOf,
  contentFrom,
  contentSchema,
  expectedOf,
  takesText,
} from '../../base/question-words.ts';
import type { TaskQuestion } from '../../protocol/fleet.ts';
import type { JsonObject } from '../../wire/json.ts';
import { oneLine } from './tool-summary.ts';

/** Returns the end of the command that answers a question. */
export function answerHint(question: Askable): string {
  const schema = contentSchema(question);
  if (schema === undefined) return 'yes|no';
  const choices = choicesOf(schema);
  if (choices.length > 0) return choices.map((choice) => JSON.stringify(choice).replaceAll('"', '')).join('|');
  return takesText(schema) ? '"TEXT"' : "yes --content 'JSON'";
}

/** Returns a question in one line, with the possible answers and the command. */
export function questionLine(taskId: string, question: TaskQuestion): string {
  const expected = expectedOf(question);
  const what = expected === undefined ? '' : ` (${oneLine(expected, 1_000)})`;
  const text = `${oneLine(question.title, 300)}${what}`;
  return escapeControls(
    `${text}; answer: handfast task answer ${taskId} ${question.question_id} ${answerHint(question)}`,
  );
}

/**
 * Returns the content of an answer given in words of a command. Undefined: the words are a plain yes or no, or the question
 * asks for more than one value.
 */
export function contentOfWords(words: string, question: Askable): JsonObject | undefined {
  // Without such a choice they allow or refuse, with no content.
  const verdict = words === 'yes' || words === 'no';
  return verdict && choiceIn(words, contentSchema(question)) === undefined ? undefined : contentFrom(words, question);
}

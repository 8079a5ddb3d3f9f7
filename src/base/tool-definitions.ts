/**
 * The score of a tool definition for a search, and its size, in the form that models get. Pure. Hosts and sessions both
 * leave tools out of lists until a search finds them.
 */
import { folded } from './fold-text.ts';

/** The searched members of a tool. */
export interface SearchedTool {
  readonly name: string;
  readonly description: string;
  readonly tags?: readonly string[] | undefined;
}

/** Bounds on the used words and characters of a query: a search costs each word for each tool. */
const MAX_WORDS = 32;
const MAX_QUERY = 1000;

/**
 * Returns the score of a tool for a search; 0 = no match. The whole query somewhere in name, description or a tag
 * matches, and so do its words when each is found somewhere; the name counts most.
 */
export function toolScore(tool: SearchedTool, query: string): number {
  const wanted = folded(query.slice(0, MAX_QUERY)).trim();
  const words = wordsOf(wanted).slice(0, MAX_WORDS);
  const name = folded(tool.name);
  const description = folded(tool.description);
  const tags = (tool.tags ?? []).map(folded);
  const nameWords = wordsOf(name);
  const descriptionWords = wordsOf(description);
  let total = name === wanted ? 200 : name.startsWith(wanted) ? 80 : 0;
  let found = 0;
  for (const word of words) {
    const points =
      (nameWords.includes(word) ? 30 : name.includes(word) ? 15 : 0) +
      (tags.includes(word) ? 12 : tags.some((tag) => tag.includes(word)) ? 6 : 0) +
      (descriptionWords.includes(word) ? 5 : description.includes(word) ? 2 : 0);
    if (points > 0) found++;
    total += points;
  }
  const whole = name.includes(wanted) || description.includes(wanted) || tags.some((tag) => tag.includes(wanted));
  if (!whole && (words.length === 0 || found < words.length)) return 0;
  return total + (whole ? 10 : 0);
}

const wordsOf = (text: string): string[] => text.split(/[^\p{L}\p{N}\p{M}]+/u).filter((word) => word !== '');

const CHARACTERS_PER_TOKEN = 4;

/**
 * Tokens that the definition costs a model that is given it, estimated: one for each four characters of its name, description and schema of
 * arguments as JSON. No tokenizer is loaded: models differ by more than the estimate.
 */
export function toolTokens(tool: {
  readonly name: string;
  readonly description: string;
  readonly input_schema?: object;
}): number {
  const { name, description, input_schema = {} } = tool;
  return Math.ceil(JSON.stringify({ name, description, input_schema }).length / CHARACTERS_PER_TOKEN);
}

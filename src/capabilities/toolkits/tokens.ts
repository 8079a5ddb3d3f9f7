/**
 * What the definition of a tool costs a model that is given it, estimated: a token for each four characters of its name,
 * description and schema of arguments as JSON. No tokenizer is loaded: models differ by more than the estimate.
 *
 * Called by `plugin.ts`. Pure.
 */
import type { ToolDescription } from '../tools/messages.ts';

const CHARACTERS_PER_TOKEN = 4;

export function tokensOf({ name, description, input_schema = {} }: ToolDescription): number {
  return Math.ceil(JSON.stringify({ name, description, input_schema }).length / CHARACTERS_PER_TOKEN);
}

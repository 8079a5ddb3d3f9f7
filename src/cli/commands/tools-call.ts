/** `handfast tools call`: calls one tool, shows its events while it runs and its result at the end. */

import { suggest } from '../../base/suggest.ts';
import type { ToolsClient } from '../../capabilities/tools/client.ts';
import { asError, HandfastError } from '../../wire/errors.ts';
import type { ConnectFlags } from '../connect/find-host.ts';
import { TOOL_CAPABILITIES, withAgent } from '../connect/open-agent.ts';
import { eventOutput } from '../output/event-output.ts';
import { printResult } from '../output/result-output.ts';
import type { Terminal } from '../output/terminal.ts';
import { readText } from '../read-text.ts';
import type { JsonSchema } from '../schema-types.ts';
import { needsSchema, toolArguments } from '../tool-arguments.ts';

export interface ToolCallFlags extends ConnectFlags {
  /** Seconds; 0 = no limit of the caller's own. */
  readonly timeout?: number;
  readonly stream?: boolean;
}

/** Calls a tool with the arguments in `words` (see `tool-arguments.ts`). */
export async function toolsCall(
  name: string,
  words: readonly string[],
  { timeout, stream = false, ...flags }: ToolCallFlags,
  terminal: Terminal,
): Promise<void> {
  // Before anything is opened: a mistake in the arguments needs no connection.
  const early = needsSchema(words) ? undefined : await toolArguments(words, undefined, readText);
  await withAgent(flags, TOOL_CAPABILITIES, terminal, async ({ tools, signal }) => {
    const args = early ?? (await toolArguments(words, await inputOf(name, tools, signal), readText));
    const { onEvent, showedOutput } = eventOutput(terminal, stream);
    const timeoutMs = timeout === undefined ? undefined : timeout * 1000;
    try {
      const result = await tools.call(name, args, { signal, timeoutMs, onEvent });
      if (!terminal.json) printResult(terminal, result, showedOutput());
      else terminal.document(stream ? { result } : result);
    } catch (thrown) {
      const error = asError(thrown);
      throw error.code === 'unknown_tool' ? await withSuggestion(error, name, tools, signal) : error;
    }
  });
}

/** Returns the schema of a tool's arguments, as far as the host sends it. */
async function inputOf(name: string, tools: ToolsClient, signal: AbortSignal): Promise<JsonSchema | undefined> {
  const described = (await tools.list({ includeDeferred: true }, { signal })).find((tool) => tool.name === name);
  if (described === undefined) return undefined;
  if (described.input_schema !== undefined) return described.input_schema as JsonSchema;
  // Other implementations of a host only send the flat form.
  const parameters = described.input_parameters ?? [];
  return { properties: Object.fromEntries(parameters.map((each) => [each.name, { type: each.type }])) };
}

async function withSuggestion(error: HandfastError, name: string, tools: ToolsClient, signal: AbortSignal) {
  const known = await tools.list({ includeDeferred: true }, { signal }).catch(() => []);
  const meant = suggest(
    name,
    known.map((tool) => tool.name),
  );
  if (meant === undefined) return error;
  const { code, message, detail, capability } = error;
  return new HandfastError(code, `${message}; did you mean ${JSON.stringify(meant)}?`, {
    detail,
    capability,
    cause: error,
  });
}

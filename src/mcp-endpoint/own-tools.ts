/**
 * Tools that clients get beside those of the host: its memory, its skills with code, and the search for tools that are
 * left out of lists.
 */
import type { SkillClient } from '../capabilities/skill/client.ts';
import type { ToolsClient } from '../capabilities/tools/client.ts';
import type { ToolDescription } from '../capabilities/tools/messages.ts';
import type { CallOptions } from '../connection/call.ts';
import { fail } from '../wire/errors.ts';
import { type MemoryCalls, memoryRisks, memoryTools } from './memory-tools.ts';
import { type HostSkill, isRun, skillToolName } from './skills.ts';
import { annotationsOf, dataMembers, isObjectSchema, type McpTool, textMembers, toolOf } from './tool-results.ts';

type Arguments = Readonly<Record<string, unknown>>;

/** One tool beside those of the host. */
export interface OwnTool {
  readonly tool: McpTool;
  readonly risks: readonly string[];
  /** Resolves with the members of the result. `isAlone`: the request stands alone. */
  run(args: Arguments, options: CallOptions & { readonly signal: AbortSignal }, isAlone: boolean): Promise<string>;
}

export const memoryOwnTools = (memory: MemoryCalls): OwnTool[] =>
  memoryTools.map((tool) => ({
    tool,
    risks: memoryRisks(tool.name),
    run: async (args, { signal }) => textMembers(JSON.stringify(await memory.call(tool.name, args, signal))),
  }));

/** Skills that have code; the others are prompts alone. */
export const skillOwnTools = (client: SkillClient, skills: readonly HostSkill[]): OwnTool[] =>
  skills.filter(isRun).map(({ name, description, input_schema, output_schema }) => {
    const isStructured = isObjectSchema(output_schema);
    const tool: McpTool = {
      name: skillToolName(name),
      description,
      inputSchema: { ...input_schema, type: 'object' },
      ...(isStructured && { outputSchema: output_schema as object }),
      annotations: annotationsOf(undefined, false),
    };
    return {
      tool,
      // The capability call that it makes is checked as a separate call.
      risks: [],
      run: async (args, options) => dataMembers((await client.call(name, args, options)).data, isStructured),
    };
  });

const MAX_FOUND = 20;
const DEFAULT_FOUND = 5;

/**
 * Returns the tool that searches tools that are left out of lists. `load` adds the found tools to the list of this
 * client.
 */
export function searchTool(
  tools: ToolsClient,
  deferred: readonly ToolDescription[],
  load: (names: readonly string[]) => void,
): OwnTool {
  const known = new Set(deferred.map(({ name }) => name));
  return {
    risks: [],
    tool: {
      name: 'tool_search',
      description: `Find further tools by what they do: ${known.size} are not listed here. A tool that is found can be called by its name.`,
      inputSchema: {
        type: 'object',
        properties: {
          query: { type: 'string', description: 'Words of what the tool is to do.' },
          limit: {
            type: 'integer',
            minimum: 1,
            maximum: MAX_FOUND,
            description: `Tools at most. Default ${DEFAULT_FOUND}.`,
          },
        },
        required: ['query'],
        additionalProperties: false,
      },
      annotations: annotationsOf([], true),
    },
    async run({ query, limit = DEFAULT_FOUND }, options, isAlone) {
      if (typeof query !== 'string' || query.trim() === '') throw fail('schema_violation', '/query must be a text');
      if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_FOUND) {
        throw fail('schema_violation', `/limit must be a whole number from 1 to ${MAX_FOUND}`);
      }
      const matches = (await tools.search(query, {}, options)).filter(({ name }) => known.has(name));
      const found = matches.slice(0, limit as number);
      // Clients whose requests stand alone share one session.
      if (!isAlone && found.length > 0) load(found.map(({ name }) => name));
      return textMembers(JSON.stringify({ tools: found.map(toolOf) }));
    },
  };
}

/** Slash commands of the server in an editor: the offered commands, and the result of a command as text. */
import type { AvailableCommand } from '../../acp/sdk.ts';
import { fenced } from './tool-calls.ts';

/** Not offered: they act on the whole server and all its clients, which is not for one editor to do by a slip. */
const NOT_OFFERED = new Set(['/quit', '/exit', '/forgeteverything']);

const HINTS: Readonly<Record<string, string>> = { '/history': '"last", or the id of a saved chat' };

/** Longest description in a list. */
const SHORT_CHARACTERS = 160;

interface NamedRow {
  readonly name: string;
  readonly description?: string;
}

/** Returns the commands in the output of `/help`. */
export function commandsOf(help: unknown): AvailableCommand[] {
  const { commands } = (help ?? {}) as { commands?: unknown };
  if (!isNamed(commands)) return [];
  return commands
    .filter(({ name }) => name.startsWith('/') && !NOT_OFFERED.has(name))
    .map(({ name, description = '' }) => {
      const hint = HINTS[name];
      return { name: name.slice(1), description, ...(hint !== undefined && { input: { hint } }) };
    });
}

/** Returns the offered command that a prompt is; undefined for a prompt to the agent, such as one that starts with a path. */
export function commandIn(text: string, offered: readonly AvailableCommand[]): string | undefined {
  const [, name] = /^\/(\S+)/.exec(text) ?? [];
  return offered.some((command) => command.name === name?.toLowerCase()) ? text : undefined;
}

/** Returns the outcome of a command, for people: lists as lists, all else unchanged. */
export function commandOutput(output: unknown): string {
  if (output === undefined || output === null) return 'Done.';
  if (typeof output !== 'object') return String(output);
  const { error } = output as { error?: unknown };
  if (typeof error === 'string') return error;
  for (const list of Object.values(output)) {
    const lines = Array.isArray(list) ? list.map(lineOf) : [];
    if (lines.length > 0 && lines.every((line) => line !== undefined)) return lines.join('\n');
  }
  return fenced(JSON.stringify(output, null, 2));
}

/** Returns a row of a list: a command, a tool or a skill by its name, a saved chat by its id. */
function lineOf(row: unknown): string | undefined {
  const { name, description, id, title } = (row ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof name === 'string')
    return typeof description === 'string' ? `- \`${name}\`: ${short(description)}` : `- ${name}`;
  return typeof id === 'string' && typeof title === 'string' ? `- \`${id}\`: ${short(title)}` : undefined;
}

function short(text: string): string {
  const [line = ''] = text.split('\n');
  return line.length > SHORT_CHARACTERS ? `${line.slice(0, SHORT_CHARACTERS)}…` : line;
}

function isNamed(value: unknown): value is readonly NamedRow[] {
  return Array.isArray(value) && value.every((row: NamedRow | null) => typeof row?.name === 'string');
}

/**
 * The result of a tool for people: text where the result is a text, the output of a program where it is one, else JSON
 * that is indented. Programs get the whole result as one JSON document.
 */
import type { ToolResult } from '../../capabilities/tools/messages.ts';
import type { Terminal } from './terminal.ts';

/** Fields with the data that the caller asked for, when one of them is a text. */
const TEXT_FIELDS = ['content', 'text', 'diff'];

/** @param showedOutput the output of the program was shown while it ran */
export function printResult(terminal: Terminal, result: ToolResult, showedOutput: boolean): void {
  const data = (result.data ?? {}) as Record<string, unknown>;
  const { exit_code } = result;
  if (typeof data.stdout === 'string' && typeof data.stderr === 'string') {
    if (!showedOutput) {
      terminal.raw(data.stdout);
      if (data.stderr !== '') terminal.rawError(data.stderr);
    }
  } else printData(terminal, data);
  if (result.truncated) terminal.note('(there is more: the result was cut)');
  if (typeof exit_code === 'number' && exit_code !== 0) terminal.note(`(exit code ${exit_code})`);
  // The summary, which a person at a terminal would otherwise have to find in the JSON.
  if (terminal.watched && typeof result.summary === 'string') terminal.note(`(${result.summary})`);
}

function printData(terminal: Terminal, data: Record<string, unknown>): void {
  const only = Object.keys(data).length === 1 ? data.value : undefined;
  if (typeof only === 'string') return terminal.line(only);
  const field = TEXT_FIELDS.find((name) => typeof data[name] === 'string');
  if (field === undefined) return terminal.line(JSON.stringify(only ?? data, undefined, 2));
  // On a terminal the prompt starts a new line. `--json` has the exact characters.
  const text = data[field] as string;
  terminal.raw(Number.isFinite(terminal.width) && !text.endsWith('\n') ? `${text}\n` : text);
}

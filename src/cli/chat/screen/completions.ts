/**
 * Completion with Tab in `handfast chat`: `/commands` at the start of the input, `@file` anywhere in it, and with Tab itself
 * any word as a path.
 */
import { escapeControls } from '../../../base/escape-controls.ts';
import { oneLine } from '../../output/tool-summary.ts';
import type { ProjectFiles } from './project-files.ts';
import { type AutocompleteProvider, fuzzyFilter } from './widgets.ts';

type Suggestions = Awaited<ReturnType<AutocompleteProvider['getSuggestions']>>;

/** A command and its description. */
export type CommandRow = readonly [name: string, about: string];

const MAX_SUGGESTIONS = 50;

export class Completions implements AutocompleteProvider {
  /** The commands of this session's server. */
  commands: readonly CommandRow[] = [];
  /** Files of the session's folder; undefined: none are completed. */
  files: ProjectFiles | undefined;
  /** False while the input is an answer. */
  active = true;

  async getSuggestions(
    lines: string[],
    line: number,
    column: number,
    { force = false }: { force?: boolean },
  ): Promise<Suggestions> {
    if (!this.active) return null;
    const before = lines[line]?.slice(0, column) ?? '';
    const [, command] = (line === 0 && /^\s*(\/\S*)$/.exec(before)) || [];
    if (command !== undefined) return this.#commands(command);
    const [, mention] = /(?:^|\s)(@\S*)$/.exec(before) ?? [];
    if (mention !== undefined) return this.#paths(mention, '@');
    const [word = ''] = /\S+$/.exec(before) ?? [];
    return force && word !== '' ? this.#paths(word, '') : null;
  }

  applyCompletion(lines: string[], line: number, column: number, item: { value: string }, prefix: string) {
    const text = lines[line] ?? '';
    const start = text.slice(0, column - prefix.length);
    const space = item.value.endsWith('/') || text.slice(column).startsWith(' ') ? '' : ' ';
    const changed = `${start}${item.value}${space}`;
    return {
      lines: lines.with(line, `${changed}${text.slice(column)}`),
      cursorLine: line,
      cursorCol: changed.length,
    };
  }

  #commands(prefix: string): Suggestions {
    const items = this.commands
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, about]) => ({ value: name, label: name, description: escapeControls(oneLine(about)) }));
    return items.length === 0 ? null : { items, prefix };
  }

  async #paths(prefix: string, mark: '@' | ''): Promise<Suggestions> {
    const paths = (await this.files?.paths()) ?? [];
    const wanted = prefix.slice(mark.length);
    const found = wanted === '' ? paths : fuzzyFilter([...paths], wanted, (path) => path);
    const items = found
      .slice(0, MAX_SUGGESTIONS)
      .map((path) => ({ value: `${mark}${/\s/.test(path) ? JSON.stringify(path) : path}`, label: path }));
    // A complete word needs no list, which Enter would choose from.
    const isComplete = items.length === 1 && items[0]?.value === prefix;
    return items.length === 0 || isComplete ? null : { items, prefix };
  }
}

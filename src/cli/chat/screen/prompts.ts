/**
 * Prompts that take the place of the input for a moment: a list to choose from, narrowed by typing, and a text that is not
 * shown.
 *
 * Escape and Ctrl-C end both without a result.
 */
import { escapeControls } from '../../../base/escape-controls.ts';
import { oneLine } from '../../output/tool-summary.ts';
import type { Theme } from './theme.ts';
import { fuzzyFilter, isEscape, matchesKey, type SelectList, selectList } from './widgets.ts';

/** Rows of a list that are shown at once. */
const ROWS = 10;
const MAX_SECRET = 4096;
// biome-ignore lint/suspicious/noControlCharactersInRegex: pastes are marked by them
const PASTE = /^\u001b\[200~(.*)\u001b\[201~$/s;

/** One thing to choose. */
export interface Choice {
  readonly value: string;
  readonly label: string;
  readonly about?: string;
  /** True for the current choice: marked, and the row the list starts at. */
  readonly isCurrent?: boolean;
}

/** A prompt that has the keys, and its lines. */
export interface ChatPrompt {
  key(key: string): void;
  lines(columns: number): string[];
}

export class ChoicePrompt implements ChatPrompt {
  readonly #title: string;
  readonly #choices: readonly Choice[];
  readonly #theme: Theme;
  readonly #done: (value: string | undefined) => void;
  #typed = '';
  #list: SelectList;

  constructor(title: string, choices: readonly Choice[], theme: Theme, done: (value: string | undefined) => void) {
    this.#title = title;
    this.#choices = choices;
    this.#theme = theme;
    this.#done = done;
    this.#list = this.#listed();
  }

  key(key: string): void {
    if (isEscape(key) || matchesKey(key, 'ctrl+c')) return this.#done(undefined);
    if (matchesKey(key, 'backspace')) this.#narrow(this.#typed.slice(0, -1));
    else if (/^[^\p{Cc}]+$/u.test(key)) this.#narrow(`${this.#typed}${key}`);
    else this.#list.handleInput(key);
  }

  lines(columns: number): string[] {
    const { bold, dim } = this.#theme;
    const typed = this.#typed === '' ? 'type to narrow the list' : `› ${this.#typed}`;
    return [bold(escapeControls(this.#title)), ...this.#list.render(columns), dim(`${typed} · Enter · Esc`)];
  }

  #narrow(typed: string): void {
    this.#typed = typed;
    this.#list = this.#listed();
  }

  #listed(): SelectList {
    const items = this.#choices.map(({ value, label, about, isCurrent }) => ({
      value,
      label: `${escapeControls(oneLine(label))}${isCurrent ? ' ✓' : ''}`,
      ...(about !== undefined && { description: escapeControls(oneLine(about)) }),
    }));
    const found = this.#typed === '' ? items : fuzzyFilter(items, this.#typed, ({ label }) => label);
    const list = selectList(found, ROWS, this.#theme);
    // Typed text sorts the list by how well its rows fit.
    const current = this.#choices.findIndex(({ isCurrent }) => isCurrent);
    if (this.#typed === '' && current >= 0) list.setSelectedIndex(current);
    list.onSelect = ({ value }) => this.#done(value);
    return list;
  }
}

export class SecretPrompt implements ChatPrompt {
  readonly #title: string;
  readonly #theme: Theme;
  readonly #done: (text: string | undefined) => void;
  #text = '';

  constructor(title: string, theme: Theme, done: (text: string | undefined) => void) {
    this.#title = title;
    this.#theme = theme;
    this.#done = done;
  }

  key(key: string): void {
    if (isEscape(key) || matchesKey(key, 'ctrl+c')) return this.#done(undefined);
    if (matchesKey(key, 'enter')) return this.#done(this.#text.trim() || undefined);
    if (matchesKey(key, 'backspace')) this.#text = this.#text.slice(0, -1);
    const text = PASTE.exec(key)?.[1] ?? (/^[^\p{Cc}]+$/u.test(key) ? key : '');
    this.#text = `${this.#text}${text}`.slice(0, MAX_SECRET);
  }

  lines(columns: number): string[] {
    const { bold, dim } = this.#theme;
    const shown = '•'.repeat(Math.min(this.#text.length, columns - 2));
    return [bold(escapeControls(this.#title)), `› ${shown}`, dim('not shown · Enter · Esc')];
  }
}

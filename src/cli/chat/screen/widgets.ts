/**
 * The adapter of `@earendil-works/pi-tui`: its input editor, Markdown, lists, keys and widths, set up as `handfast chat`
 * uses them. Of the package's own renderers nothing is used: see `live-area.ts`.
 *
 * Loaded by the first chat at a terminal; no other command loads it.
 * @see docs/decisions/0031-a-terminal-library.md
 */
import {
  type AutocompleteProvider,
  CURSOR_MARKER,
  Editor,
  fuzzyFilter,
  isKeyRelease,
  Markdown,
  matchesKey,
  ProcessTerminal,
  SelectList,
  setCapabilities,
  type TUI,
  truncateToWidth,
  visibleWidth,
  wrapTextWithAnsi,
} from '@earendil-works/pi-tui';
import type { Theme } from './theme.ts';

export {
  type AutocompleteProvider,
  fuzzyFilter,
  isKeyRelease,
  matchesKey,
  ProcessTerminal,
  SelectList,
  truncateToWidth,
  visibleWidth,
  wrapTextWithAnsi,
};

/** Completions that are listed at once. */
const COMPLETIONS = 6;

/** Takes the place of the line that ends the input, which is not drawn. */
const END_OF_INPUT = '\u0000';

/** The editor's picture of its cursor, which the cursor of the terminal replaces. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it consists of them
const DRAWN_CURSOR = /\u001b\[7m(.*?)\u001b\[0m/s;

/** True for Esc, also pressed twice so fast, or over so slow a link, that both presses arrive as one. */
export const isEscape = (key: string): boolean => matchesKey(key, 'escape') || key === '\u001b\u001b';

/** Lines, and where in them the cursor stands. */
export interface InputPicture {
  readonly lines: readonly string[];
  readonly cursor: { readonly row: number; readonly column: number } | undefined;
  /** The list of completions. */
  readonly below: readonly string[];
}

/** An input of several lines, with history, paste, undo and completion. */
export class InputEditor extends Editor {
  readonly #theme: Theme;

  constructor(theme: Theme, terminal: { readonly rows: number }, requestRender: () => void) {
    super({ terminal, requestRender } as unknown as TUI, editorTheme(theme), { autocompleteMaxVisible: COMPLETIONS });
    this.#theme = theme;
    this.focused = true;
  }

  protected override renderTopBorder(_width: number, hidden: number): string {
    return hidden === 0 ? '' : this.#theme.dim(`↑ ${hidden} more`);
  }

  protected override renderBottomBorder(_width: number, hidden: number): string {
    return `${END_OF_INPUT}${hidden === 0 ? '' : this.#theme.dim(`↓ ${hidden} more`)}`;
  }

  picture(width: number): InputPicture {
    const [top = '', ...rest] = this.render(width);
    const end = rest.findIndex((line) => line.startsWith(END_OF_INPUT));
    const text = rest.slice(0, end).map((line) => line.trimEnd());
    const row = text.findIndex((line) => line.includes(CURSOR_MARKER));
    const [before = '', behind = ''] = text[row]?.split(CURSOR_MARKER) ?? [];
    if (row >= 0) text[row] = `${before}${behind.replace(DRAWN_CURSOR, '$1')}`;
    const bottom = rest[end]?.slice(END_OF_INPUT.length) ?? '';
    const above = top === '' ? [] : [top];
    return {
      lines: [...above, ...text, ...(bottom === '' ? [] : [bottom])],
      cursor: row < 0 ? undefined : { row: row + above.length, column: visibleWidth(before) },
      below: rest.slice(end + 1).map((line) => line.trimEnd()),
    };
  }
}

/** Returns lines of Markdown. Addresses of links are shown beside their text: a link must not hide where it leads. */
export function markdownLines(text: string, width: number, theme: Theme): string[] {
  // This also keeps the package from asking the terminal, or a program, about its features.
  setCapabilities({ images: null, trueColor: false, hyperlinks: false });
  const lines = new Markdown(text, 0, 0, markdownTheme(theme), undefined, { renderLatex: false }).render(width);
  return lines.map((line) => line.trimEnd());
}

/** Makes a list to choose from. */
export function selectList(items: ConstructorParameters<typeof SelectList>[0], rows: number, theme: Theme): SelectList {
  return new SelectList(items, rows, listTheme(theme));
}

function listTheme({ cyan, bold, dim }: Theme) {
  const selectedText = (text: string): string => bold(cyan(text));
  return { selectedPrefix: cyan, selectedText, description: dim, scrollInfo: dim, noMatch: dim };
}

const editorTheme = (theme: Theme) => ({ borderColor: theme.dim, selectList: listTheme(theme) });

function markdownTheme({ cyan, yellow, bold, dim, italic, plain, strikethrough, underline }: Theme) {
  return {
    heading: cyan,
    link: underline,
    linkUrl: dim,
    code: yellow,
    codeBlock: plain,
    codeBlockBorder: dim,
    quote: dim,
    quoteBorder: dim,
    hr: dim,
    listBullet: cyan,
    bold,
    italic,
    strikethrough,
    underline,
  };
}

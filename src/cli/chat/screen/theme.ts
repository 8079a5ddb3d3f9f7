/**
 * Colours and weights of text in `handfast chat`, and their removal where the terminal shows none. Pure.
 */
import type { Tone } from '../../output/tones.ts';

type Style = (text: string) => string;

/** The tones of all commands, and further styles for Markdown. Cyan: choices, headings, marks. */
export type Theme = Readonly<Record<Tone | 'plain' | 'italic' | 'underline' | 'strikethrough', Style>>;

/** Makes a style of SGR codes. Text with other styles inside keeps this one behind them. */
const sgr = (on: number, off: number): Style => {
  const start = `\u001b[${on}m`;
  const end = `\u001b[${off}m`;
  return (text) => (text === '' ? '' : `${start}${text.replaceAll(end, `${end}${start}`)}${end}`);
};

export const theme: Theme = {
  plain: (text) => text,
  bold: sgr(1, 22),
  dim: sgr(2, 22),
  italic: sgr(3, 23),
  underline: sgr(4, 24),
  strikethrough: sgr(9, 29),
  cyan: sgr(36, 39),
  yellow: sgr(33, 39),
  green: sgr(32, 39),
  red: sgr(31, 39),
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: styles are made of them
const SGR = /\u001b\[[\d;:]*m/g;

/** The text without any style, those of the widgets included. */
export const unstyled: Style = (text) => text.replaceAll(SGR, '');

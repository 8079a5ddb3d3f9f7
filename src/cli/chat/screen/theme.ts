/**
 * Colours and weights of text in `handfast chat`. Weights (bold, dim) are no colours, so `NO_COLOR` leaves them. Pure.
 *
 * Used by `chat-screen.ts` and what it draws.
 */
import type { Tone } from '../../output/tones.ts';

type Style = (text: string) => string;

/** The tones of all commands, and what Markdown needs besides. Cyan: what can be chosen, headings, marks. */
export type Theme = Readonly<Record<Tone | 'plain' | 'italic' | 'underline' | 'strikethrough', Style>>;

/** A style of SGR codes. Text that has styles of its own inside keeps this one behind them. */
const sgr = (on: number, off: number): Style => {
  const start = `\u001b[${on}m`;
  const end = `\u001b[${off}m`;
  return (text) => (text === '' ? '' : `${start}${text.replaceAll(end, `${end}${start}`)}${end}`);
};

const plain: Style = (text) => text;

/** @param coloured false for terminals without colours, and where `NO_COLOR` is set */
export function themeFor(coloured: boolean): Theme {
  const colour = (code: number): Style => (coloured ? sgr(code, 39) : plain);
  return {
    plain,
    bold: sgr(1, 22),
    dim: sgr(2, 22),
    italic: sgr(3, 23),
    underline: sgr(4, 24),
    strikethrough: sgr(9, 29),
    cyan: colour(36),
    yellow: colour(33),
    green: colour(32),
    red: colour(31),
  };
}

/**
 * The frame of a picture of a terminal, as SVG: paper, font and cells. For the scripts that draw docs/images.
 */

export const CELL = { width: 8.4, height: 18 };
export const INK = '#d8dee9';
const PAPER = '#1b1f27';

/** Returns text of a terminal as text of an SVG. Spaces keep their width. */
export const escapedText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll(' ', '\u00a0');

/** Returns the start of the first cell of a row, and its baseline; in units of the picture. */
export const placeOf = (row: number, column: number): { readonly x: string; readonly y: number } => ({
  x: (column * CELL.width + 12).toFixed(1),
  y: row * CELL.height + 26,
});

export interface TerminalPicture {
  readonly title: string;
  readonly columns: number;
  readonly rows: number;
  /** SVG elements. */
  readonly content: readonly string[];
  /** CSS of the picture. */
  readonly style?: string;
}

export function terminalPicture({ title, columns, rows, content, style }: TerminalPicture): string {
  const width = Math.ceil(columns * CELL.width + 24);
  const height = rows * CELL.height + 24;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<title>${title}</title>`,
    ...(style === undefined ? [] : [`<style>${style}</style>`]),
    `<rect width="100%" height="100%" rx="8" fill="${PAPER}"/>`,
    '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14">',
    ...content.filter((element) => element !== ''),
    '</g></svg>\n',
  ].join('\n');
}

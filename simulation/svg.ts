/**
 * The little of SVG that plots need. Numbers are rounded, texts are escaped, and no reference leads outside.
 */

const round = (value: number): string => String(Math.round(value * 10) / 10);

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** Returns a whole picture. */
export function svg(width: number, height: number, title: string, children: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${round(width)} ${round(height)}" width="${round(width)}" height="${round(height)}" font-family="system-ui, sans-serif" font-size="12" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${round(width)}" height="${round(height)}" fill="#ffffff"/>`,
    text(16, 24, title, { size: 15, bold: true }),
    ...children,
    '</svg>',
    '',
  ].join('\n');
}

export interface TextStyle {
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly size?: number;
  readonly bold?: boolean;
  readonly color?: string;
}

export function text(x: number, y: number, said: string, style: TextStyle = {}): string {
  const { anchor = 'start', size = 12, bold = false, color = '#222222' } = style;
  const weight = bold ? ' font-weight="600"' : '';
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" font-size="${size}"${weight} fill="${color}">${escaped(said)}</text>`;
}

export function rect(x: number, y: number, width: number, height: number, color: string): string {
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(0, width))}" height="${round(height)}" fill="${color}"/>`;
}

export function line(x1: number, y1: number, x2: number, y2: number, color: string, dashed = false): string {
  const dash = dashed ? ' stroke-dasharray="4 4"' : '';
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${color}"${dash}/>`;
}

export function path(points: readonly (readonly [x: number, y: number])[], color: string): string {
  const drawn = points.map(([x, y], at) => `${at === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`).join('');
  return `<path d="${drawn}" fill="none" stroke="${color}" stroke-width="2" stroke-linejoin="round"/>`;
}

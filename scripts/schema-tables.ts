/**
 * The shared part of the generators of the protocol pages: tables of Markdown out of schemas, and their place in a page
 * written by hand.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Schema } from './members.ts';

/** The text of a shape with a separate table, by the JSON of its schema: a link, or a name. */
export type Shapes = ReadonlyMap<string, string>;

export const NO_SHAPES: Shapes = new Map();

/** Links to the tables of some shapes. */
export const linksTo = (shapes: Readonly<Record<string, Schema>>): Shapes =>
  new Map(Object.entries(shapes).map(([name, schema]) => [keyOf(schema), `[${name}](#${name.toLowerCase()})`]));

/** Schemas are the same shape when they have the same content, at any place. */
const keyOf = ({ description: _, ...schema }: Schema): string => JSON.stringify(schema);

export const cell = (text = ''): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** Returns the JSON type of a value in words; shapes that have a table are named by it. */
export function kindOf(schema: Schema, shapes: Shapes = NO_SHAPES): string {
  const shape = shapes.get(keyOf(schema));
  if (shape !== undefined) return shape;
  if (schema.enum !== undefined) return schema.enum.map((word) => `\`${word}\``).join(', ');
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.anyOf !== undefined) return schema.anyOf.map((each) => kindOf(each, shapes)).join(' or ');
  if (schema.type === 'array') {
    const items = kindOf(schema.items ?? {}, shapes);
    return /[ ,]/.test(items) ? `(${items})[]` : `${items}[]`;
  }
  return [schema.type ?? 'any'].flat().join(' or ');
}

/** Returns a table: its head, then its rows, of cells. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** Returns a page with the text between `<!-- KIND NAME -->` and its end mark renewed; everything else stays unchanged. */
export function pageWith(root: string, page: string, kind: string, parts: Readonly<Record<string, string>>): string {
  let text = readFileSync(join(root, page), 'utf8');
  for (const [name, generated] of Object.entries(parts)) {
    const [start, end] = [`<!-- ${kind} ${name} -->\n`, `<!-- /${kind} ${name} -->`];
    const from = text.indexOf(start);
    const to = text.indexOf(end);
    if (from === -1 || to < from) throw new Error(`${page} has lost the marks around its ${name} ${kind}`);
    text = `${text.slice(0, from + start.length)}\n${generated}\n\n${text.slice(to)}`;
  }
  return text;
}

/**
 * The commented `handfast.yaml` that `handfast init` writes, made from `config-schema.ts` so that no setting and no
 * default can be forgotten or grow stale. Read by the command line only.
 */
import type { Field, Fields } from './config-fields.ts';
import { configFields } from './config-schema.ts';

const WIDTH = 100;

const OPENING = `Configuration of a Handfast host.

A line that starts with # and no blank is a setting at its default, or an example: take the # away to use it.
Relative paths start at the folder of this file. Check it with: handfast config check`;

/** The template as text. Loading it unchanged gives the defaults. */
export function configTemplate(): string {
  return `${[...comment(OPENING, ''), '', ...lines(configFields, '')].join('\n').trimEnd()}\n`;
}

function lines(fields: Fields, indent: string): string[] {
  return Object.entries(fields).flatMap(([key, field]) => [
    ...comment(field.about, indent),
    ...(field.fields ? [`${indent}${key}:`, ...lines(field.fields, `${indent}  `)] : setting(key, field, indent)),
    ...(indent === '' ? [''] : []),
  ]);
}

/** The setting itself: live when it is `shown`, else behind a `#` in the column where it would stand. */
function setting(key: string, field: Field<unknown>, indent: string): string[] {
  const standing = field.fallback === undefined ? [] : yaml(key, field.fallback);
  const hidden = field.example ?? (field.shown ? [] : standing);
  return [...(field.shown ? standing : []).map((line) => indent + line), ...hidden.map((line) => `${indent}#${line}`)];
}

/** Defaults are scalars and lists of scalars. */
function yaml(key: string, value: unknown): string[] {
  if (!Array.isArray(value)) return [`${key}: ${String(value)}`];
  return value.length === 0 ? [`${key}: []`] : [`${key}:`, ...value.map((item) => `  - ${String(item)}`)];
}

/** Wraps prose at the page width; lines of the text stay apart. */
function comment(prose: string, indent: string): string[] {
  return prose.split('\n').flatMap((paragraph) => {
    const wrapped = [`${indent}#`];
    for (const word of paragraph.split(' ')) {
      if (wrapped.at(-1)!.length + word.length >= WIDTH) wrapped.push(`${indent}#`);
      wrapped[wrapped.length - 1] += word === '' ? '' : ` ${word}`;
    }
    return wrapped;
  });
}

/**
 * The commented `handfast.yaml` that `handfast init` writes, from the schema, so that it has every setting with its
 * present default.
 */
import { handfast } from './handfast.generated.ts';
import type { SettingSchema } from './setting.ts';

const WIDTH = 100;

const OPENING = `Configuration of a Handfast host.

A line that starts with # and no blank is a setting at its default, or an example: take the # away to use it.
Relative paths start at the folder of this file. Check it with: handfast config check`;

/** Returns the template as text. Loading it unchanged gives the defaults. */
export function configTemplate(schema: SettingSchema = handfast): string {
  return `${[...comment(OPENING, ''), '', ...lines(schema, '')].join('\n').trimEnd()}\n`;
}

function lines({ properties = {} }: SettingSchema, indent: string): string[] {
  return Object.entries(properties).flatMap(([key, member]) => [
    ...comment(member.description ?? '', indent),
    ...(member.properties ? [`${indent}${key}:`, ...lines(member, `${indent}  `)] : setting(key, member, indent)),
    ...(indent === '' ? [''] : []),
  ]);
}

/** Returns the lines of the setting: live when it is `shown`, else commented out with `#` in its column. */
function setting(key: string, schema: SettingSchema, indent: string): string[] {
  const { default: fallback, example, shown } = schema;
  const live = fallback === undefined ? [] : yaml(key, fallback);
  const hidden = typeof example === 'string' ? [`${key}: ${example}`] : (example ?? (shown ? [] : live));
  return [...(shown ? live : []).map((line) => indent + line), ...hidden.map((line) => `${indent}#${line}`)];
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

/**
 * Writes `docs/configuration.md`: every key of every configuration file, with its values, default and meaning, from the
 * schemas.
 */
import type { SettingSchema } from '../src/config/setting.ts';
import { configurationFiles } from './generate-config.ts';
import { said } from './generate-limits.ts';
import { cell, table } from './schema-tables.ts';

const intro = `# Configuration

<!-- Generated from src/config by "npm run generate". -->

Every key of every file. \`handfast init\` writes a commented \`handfast.yaml\`, \`handfast config check\` and \`handfast fleet check\`
report problems by line and column, and the JSON Schemas in \`schema/\` give editors completion: the first line of a file that
\`handfast init\` writes names its schema. A key with \`[]\` is a member of each item of a list, one with \`*\` of each named entry.
`;

/** Returns the possible values of a setting. */
function kindOf(schema: SettingSchema): string {
  if (schema.enum !== undefined) return schema.enum.map((word) => `\`${word}\``).join(', ');
  if (schema.type === 'array') return schema.items === undefined ? 'list' : `list of ${kindOf(schema.items)}`;
  return [schema.type ?? 'any'].flat().join(' or ');
}

/** Returns the default in the form for people; empty if a setting has none. */
function defaultOf(key: string, fallback: unknown): string {
  if (fallback === undefined || (Array.isArray(fallback) && fallback.length === 0)) return '';
  if (typeof fallback === 'number') return said(key, fallback);
  return `\`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``;
}

/** Returns the objects that a value may be, with the text between it and their members. */
function objectsIn(schema: SettingSchema): [suffix: string, schema: SettingSchema][] {
  if (schema.variants !== undefined)
    return [schema, ...Object.values(schema.variants.of)].map((each): [string, SettingSchema] => ['', each]);
  if (schema.properties !== undefined) return [['', schema]];
  if (schema.items !== undefined)
    return objectsIn(schema.items).map(([suffix, inner]): [string, SettingSchema] => [`[]${suffix}`, inner]);
  const named = schema.additionalProperties;
  if (typeof named !== 'object') return [];
  return objectsIn(named).map(([suffix, inner]): [string, SettingSchema] => [`.*${suffix}`, inner]);
}

/** Returns a row for each setting, followed by those of the objects it may be. */
function rows(schema: SettingSchema, prefix: string): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, member]) => {
    const path = `${prefix}${key}`;
    const inner = objectsIn(member).flatMap(([suffix, object]) => rows(object, `${path}${suffix}.`));
    if (member.properties !== undefined) return inner;
    const own = [`\`${path}\``, cell(kindOf(member)), cell(defaultOf(key, member.default)), cell(member.description)];
    return [own, ...inner];
  });
}

/** Returns the whole page. */
export function configurationPage(): string {
  const sections = configurationFiles.map(({ title, file, schema }) =>
    [
      `## ${title}`,
      `JSON Schema: \`schema/${file}\`.`,
      table(
        ['Key', 'Values', 'Default', 'Meaning'],
        rows(schema, '').filter((row, index, all) => all.findIndex(([key]) => key === row[0]) === index),
      ),
    ].join('\n\n'),
  );
  return `${[intro.trimEnd(), ...sections].join('\n\n')}\n`;
}

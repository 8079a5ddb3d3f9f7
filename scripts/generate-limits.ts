/**
 * Writes the limits table of `SECURITY.md`, between its two marks, from the schema of the configuration: every bound of
 * a host, its value without a configuration, and the key that changes it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SettingSchema } from '../src/config/setting.ts';
import { handfastSchema, optionSchemas } from './generate-config.ts';

const page = 'SECURITY.md';
const start = /<!-- limits: .* -->\n/;
const end = '<!-- /limits -->';

type Steps = readonly (readonly [size: number, name: string])[];

const bytes: Steps = [
  [1024 ** 3, 'GiB'],
  [1024 ** 2, 'MiB'],
  [1024, 'KiB'],
  [1, 'bytes'],
];

const units: readonly (readonly [suffix: string, steps: Steps])[] = [
  ['_bytes', bytes],
  ['bytes_per_second', bytes],
  ['_bytes_per_principal', bytes],
  [
    '_ms',
    [
      [86_400_000, 'd'],
      [60_000, 'min'],
      [1000, 's'],
      [1, 'ms'],
    ],
  ],
];

/** Returns a number in the words of people: in the largest unit of its key's kind that divides it. */
export function said(key: string, value: number): string {
  const steps = units.find(([suffix]) => key.endsWith(suffix))?.[1] ?? [];
  const step = value === 0 ? undefined : steps.find(([size]) => value % size === 0);
  if (step === undefined) return value.toLocaleString('en');
  const [size, unit] = step;
  return `${(value / size).toLocaleString('en')} ${value === 1 && unit === 'bytes' ? 'byte' : unit}`;
}

/** Returns one row for each number with a default, in the order of the schema. */
function rows({ properties = {} }: SettingSchema, prefix = ''): string[] {
  return Object.entries(properties).flatMap(([key, member]) => {
    const path = `${prefix}${key}`;
    if (member.properties !== undefined) return rows(member, `${path}.`);
    const { type, minimum = 0, maximum = 0, default: fallback, description } = member;
    if (type !== 'integer' || typeof fallback !== 'number') return [];
    return [
      `| \`${path}\` | ${said(key, fallback)} | ${said(key, minimum)} to ${said(key, maximum)} | ${description} |`,
    ];
  });
}

/**
 * Returns the numbers among the options of the capabilities. The texts of those that leave a default to their plugin
 * state it.
 */
function optionRows(): string[] {
  return optionSchemas.flatMap(([name, { properties = {} }]) =>
    Object.entries(properties).flatMap(
      ([key, { type, minimum = 0, maximum = 0, default: fallback, description = '' }]) => {
        if (type !== 'integer') return [];
        const [, bounds = '', stated] = /^(.*?)(?: Default ([^.]+)\.)?$/s.exec(description) ?? [];
        const value = typeof fallback === 'number' ? said(key, fallback) : stated;
        if (value === undefined) throw new Error(`options of ${name}: ${key} has no default`);
        return [`| \`${name}\` \`${key}\` | ${value} | ${said(key, minimum)} to ${said(key, maximum)} | ${bounds} |`];
      },
    ),
  );
}

/** Returns the whole page with its table renewed; everything outside the marks stays unchanged. */
export function securityPage(root: string): string {
  const text = readFileSync(join(root, page), 'utf8');
  const mark = start.exec(text);
  const to = text.indexOf(end);
  if (mark === null || to === -1) throw new Error(`${page} has lost the marks around its limits table`);
  const heading = (first: string): string[] => [
    `| ${first} | Default | Range | Bounded value |`,
    '| --- | --- | --- | --- |',
  ];
  const table = [
    ...[...heading('Key'), ...rows(handfastSchema), ''],
    ...['The options of capabilities, below `options` of their entry in `plugins`:', ''],
    ...[...heading('Option'), ...optionRows()],
  ];
  return `${text.slice(0, mark.index + mark[0].length)}\n${table.join('\n')}\n\n${text.slice(to)}`;
}

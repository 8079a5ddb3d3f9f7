/**
 * The entries with which MCP clients start `handfast mcp`, in the format and the file of each client; and merging one into a
 * file without touching anything else of it. Pure, except the table of paths.
 */
import { join } from 'node:path';
import { trimmedEnd } from '../base/trim-end.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { tomlStatements } from './toml-statements.ts';

export const CLIENTS = ['claude', 'cursor', 'vscode', 'codex', 'opencode'] as const;
export type ClientName = (typeof CLIENTS)[number];

/** The program and its arguments. */
export interface Start {
  readonly command: string;
  readonly args: readonly string[];
}

/** The settings file of a client, and the entry in it. */
export interface ClientEntry {
  readonly file: string;
  /** Members from the root of the file to the entry. */
  readonly path: readonly string[];
  readonly value: Readonly<Record<string, unknown>>;
  readonly format: 'json' | 'toml';
}

const NAME = 'handfast';

/** Returns the entry of a client. `platform` decides where VS Code has the settings of its user. */
export function clientEntry(
  client: ClientName,
  { command, args }: Start,
  { home, env, platform }: { home: string; env: Readonly<Record<string, string | undefined>>; platform: string },
): ClientEntry {
  const plain = { command, args };
  const settings = env.XDG_CONFIG_HOME || join(home, '.config');
  switch (client) {
    case 'claude':
      return json(join(home, '.claude.json'), ['mcpServers', NAME], { type: 'stdio', ...plain });
    case 'cursor':
      return json(join(home, '.cursor', 'mcp.json'), ['mcpServers', NAME], plain);
    case 'vscode': {
      const folder = platform === 'darwin' ? join(home, 'Library', 'Application Support') : settings;
      return json(join(folder, 'Code', 'User', 'mcp.json'), ['servers', NAME], { type: 'stdio', ...plain });
    }
    case 'codex':
      return {
        file: join(env.CODEX_HOME || join(home, '.codex'), 'config.toml'),
        path: ['mcp_servers', NAME],
        value: plain,
        format: 'toml',
      };
    case 'opencode':
      return json(join(settings, 'opencode', 'opencode.json'), ['mcp', NAME], {
        type: 'local',
        command: [command, ...args],
        enabled: true,
      });
  }
}

const json = (file: string, path: readonly string[], value: Readonly<Record<string, unknown>>): ClientEntry => ({
  file,
  path,
  value,
  format: 'json',
});

/** Returns the entry alone, as a file that has nothing else. */
export function entryText({ path, value, format }: ClientEntry): string {
  if (format === 'toml') return tomlText(path, value);
  const whole = path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);
  return `${JSON.stringify(whole, null, 2)}\n`;
}

/**
 * Returns the text of a file with the entry in it: added, or in place of the one it had. Fails with `config_invalid` for a text
 * that cannot be parsed.
 */
export function mergedText(text: string, entry: ClientEntry): string {
  if (text.trim() === '') return entryText(entry);
  // Line ends are those of the file.
  if (text.includes('\r\n')) return mergedText(text.replaceAll('\r\n', '\n'), entry).replaceAll('\n', '\r\n');
  return entry.format === 'toml' ? mergedToml(text, entry) : mergedJson(text, entry);
}

/** Writes a value as TOML. Basic strings of TOML are those of JSON, as far as these values go. */
function tomlText(path: readonly string[], value: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(value).map(
    ([name, each]) => `${name} = ${JSON.stringify(each).replaceAll('","', '", "')}`,
  );
  return `[${path.join('.')}]\n${lines.join('\n')}\n`;
}

/**
 * Replaces the pairs of the table that the entry sets; pairs that the user added stay. Where the entry is written in another
 * form, a second table of its name would make the whole file invalid for its client, so that is refused.
 */
function mergedToml(text: string, { path, value }: ClientEntry): string {
  const name = path.join('.');
  const statements = tomlStatements(text);
  if (statements === undefined) throw fail('config_invalid', 'the file is not TOML; mend it, or add the entry by hand');
  const startsWith = (whole: readonly string[], start: readonly string[]): boolean =>
    start.every((each, depth) => whole[depth] === each);
  const isOwn = (at: readonly string[]): boolean => at.length === path.length && startsWith(at, path);
  const inAnotherForm = statements.some(
    ({ kind, path: at, table }) =>
      kind === 'pair' && (startsWith(path, at) || (startsWith(at, path) && table.length < path.length)),
  );
  if (inAnotherForm) throw fail('config_invalid', `it has ${name} in another form than a table; change it by hand`);
  const fresh = tomlText(path, value).trimEnd().split('\n');
  const own = statements.find(({ kind, path: at }) => kind === 'table' && isOwn(at));
  if (own === undefined) return `${trimmedEnd(text, '\n')}\n\n${fresh.join('\n')}\n`;
  const replaced = statements.filter(
    ({ kind, path: at, table }) => kind === 'pair' && isOwn(table) && Object.hasOwn(value, at[path.length] as string),
  );
  const isReplaced = (line: number): boolean => replaced.some(({ from, to }) => line >= from && line < to);
  const lines = text.split('\n');
  const rest = lines.filter((_, line) => line >= own.to && !isReplaced(line));
  return [...lines.slice(0, own.from), ...fresh, ...rest].join('\n');
}

/** A member of an object in a text: where its value starts and ends. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** Comments, commas behind the last member and the layout stay as they are. */
function mergedJson(text: string, { path, value }: ClientEntry): string {
  let at: Span = valueAt(text, 0);
  for (const [depth, name] of path.entries()) {
    const found = membersAt(text, at);
    const member = found.members.get(name);
    if (member !== undefined) {
      at = member;
      continue;
    }
    const inner = path.slice(depth + 1).reduceRight<unknown>((below, each) => ({ [each]: below }), value);
    const indent = '  '.repeat(depth + 1);
    const body = `\n${indent}${JSON.stringify(name)}: ${indented(inner, indent)}`;
    const tail = found.lastEnd === undefined && !found.hasComment ? `\n${'  '.repeat(depth)}` : '';
    const place = found.lastEnd ?? at.start + 1;
    const comma = found.lastEnd === undefined ? '' : ',';
    // Behind the last member there may be a comma already.
    const after = found.lastEnd !== undefined && found.trailingComma ? ',' : '';
    const rest = text.slice(place + after.length);
    return `${text.slice(0, place)}${comma}${body}${after}${tail}${rest}`;
  }
  const indent = '  '.repeat(path.length);
  const before = readJson(text.slice(at.start, at.end));
  const next = isObject(before) ? { ...before, ...value } : value;
  if (JSON.stringify(next) === JSON.stringify(before)) return text;
  return `${text.slice(0, at.start)}${indented(next, indent)}${text.slice(at.end)}`;
}

const indented = (value: unknown, indent: string): string =>
  JSON.stringify(value, null, 2).replaceAll('\n', `\n${indent}`);

const BROKEN = 'the file is not JSON with comments; mend it, or add the entry by hand';
const broken = () => fail('config_invalid', BROKEN);

/** Returns the value of a text whose comments and last commas are left out. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail('config_invalid', 'the entry has comments of its own; change it by hand');
  }
}

/** Returns the index behind blanks and comments. */
function skip(text: string, from: number): number {
  const blank = /(?:[\s\uFEFF]|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y;
  blank.lastIndex = from;
  blank.test(text);
  return blank.lastIndex;
}

function stringAt(text: string, from: number): number {
  const string = /"(?:[^"\\\n]|\\.)*"/y;
  string.lastIndex = from;
  if (!string.test(text)) throw broken();
  return string.lastIndex;
}

/** Returns the span of the value that follows. Throws for a text that is no value. */
function valueAt(text: string, from: number): Span {
  const start = skip(text, from);
  const first = text[start];
  if (first === '"') return { start, end: stringAt(text, start) };
  if (first === '{' || first === '[') {
    // Strings and comments may hold brackets, so both are passed over.
    let depth = 0;
    for (let at = start; at < text.length; ) {
      const char = text[at];
      if (char === '"') at = stringAt(text, at);
      else if (char === '/') {
        const next = skip(text, at);
        if (next === at) throw broken();
        at = next;
      } else {
        if (char === '{' || char === '[') depth += 1;
        if (char === '}' || char === ']') depth -= 1;
        at += 1;
        if (depth === 0) return { start, end: at };
      }
    }
    throw broken();
  }
  const word = /[-+.\w]+/y;
  word.lastIndex = start;
  if (!word.test(text)) throw broken();
  return { start, end: word.lastIndex };
}

/** Returns the members of an object, and the place where another may be added. */
function membersAt(text: string, { start, end }: Span) {
  if (text[start] !== '{') throw broken();
  const members = new Map<string, Span>();
  let lastEnd: number | undefined;
  let trailingComma = false;
  let at = skip(text, start + 1);
  const hasComment = text.slice(start + 1, at).trim() !== '';
  while (at < end - 1) {
    const keyEnd = stringAt(text, at);
    const colon = skip(text, keyEnd);
    if (text[colon] !== ':') throw broken();
    const value = valueAt(text, colon + 1);
    members.set(JSON.parse(text.slice(at, keyEnd)) as string, value);
    lastEnd = value.end;
    at = skip(text, value.end);
    trailingComma = text[at] === ',' && at === value.end;
    if (text[at] === ',') at = skip(text, at + 1);
    else if (at < end - 1) throw broken();
  }
  return { members, lastEnd, trailingComma: trailingComma, hasComment };
}

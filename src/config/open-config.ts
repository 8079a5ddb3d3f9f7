/**
 * Opens a configuration file: reads it with positions by its schema, collects every problem, and fails once with all of
 * them.
 *
 * It opens `handfast.yaml`, `fleet.yaml`, the file of a worker, task batches and chain files.
 */
import { statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { leadsOut } from '../base/is-inside.ts';
import { readNamed } from '../base/regular-file.ts';
import { fileProblem } from '../base/workspace/file-error.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { type ConfigNode, type Position, type Reading, readSetting } from './reader.ts';
import { checkSettingSchema, type SettingSchema } from './setting.ts';

/** A configuration file is read whole; a real one has a few kilobytes. */
const MAX_FILE_BYTES = 1024 * 1024;

/** Bounds of a file that may be larger than a configuration. */
export interface FileLimits {
  readonly maxBytes?: number;
  /** Values it may unfold to. */
  readonly maxValues?: number;
}

/** A problem or a warning, and its place. Line and column count from 1. */
export interface ConfigProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** The setting: `limits.max_depth`, `auth.tokens[0].name`; `''` for the file as a whole. */
  readonly path: string;
  /** `expected …, got …`; never holds the value of a secret. */
  readonly message: string;
}

/** A file that is being read. */
export interface OpenedConfig<T> {
  /** Settings of the file. A setting with a problem is undefined in here, against its type. */
  readonly settings: T;
  /** Folder at which relative paths start. */
  readonly folder: string;
  /** Absolute; undefined for the defaults. */
  readonly file: string | undefined;
  readonly warnings: readonly ConfigProblem[];
  /** Returns the path of a list's item; of the list itself where a single value stands for a list of one. */
  item(path: string, index: number): string;
  problem(path: string, message: string): void;
  warn(path: string, message: string): void;
  /**
   * Reads a part of the file again, by a schema that was not known when the file was opened: the options of a plugin
   * whose module has been loaded since. Fails with `config_invalid` and the problems of that part.
   */
  readPart(path: string, schema: SettingSchema): unknown;
  /** Returns the error for problems that other code finds in settings later: `config_invalid`, with the position of each. */
  refusal(found: readonly Pick<ConfigProblem, 'path' | 'message'>[]): HandfastError;
  /** Fails with `config_invalid` when a problem was found. */
  finish(): void;
}

/**
 * Reads a file by its schema, or the defaults when `file` is undefined.
 *
 * Fails with `config_invalid` when the whole file cannot be used; problems of single settings fail in `finish`.
 * @param content the text of the file, if it was read already
 * @param limits if they differ from those of a configuration
 */
export async function openConfig<T>(
  file: string | undefined,
  schema: SettingSchema,
  cwd: string,
  content?: Uint8Array,
  limits: FileLimits = {},
): Promise<OpenedConfig<T>> {
  const absolute = file === undefined ? undefined : resolve(cwd, file);
  const shown = absolute === undefined ? 'defaults' : shownPath(absolute, cwd);
  const folder = absolute === undefined ? cwd : dirname(absolute);
  const nodes = new Map<string, ConfigNode>();
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const collect =
    (into: ConfigProblem[]) =>
    ({ line, column }: Position, path: string, message: string) =>
      into.push({ file: shown, line, column, path, message });
  const reading: Reading = { problem: collect(problems), nodes, folder, secret: false };
  const root = absolute === undefined ? undefined : await readTree(absolute, reading, limits, content);
  const isUnusable = problems.length > 0 && root === undefined;
  const settings = isUnusable ? undefined : readSetting(schema, root, '', reading);
  if (settings === undefined) throw invalid(shown, problems);
  return {
    settings: settings as T,
    folder,
    file: absolute,
    warnings,
    item: (path, index) => (nodes.has(`${path}[${index}]`) ? `${path}[${index}]` : path),
    problem: (path, message) => collect(problems)(placeOf(path, nodes), path, message),
    warn: (path, message) => collect(warnings)(placeOf(path, nodes), path, message),
    readPart(path, part) {
      checkSettingSchema(part, path);
      const node = nodes.get(path);
      const found: ConfigProblem[] = [];
      const report = collect(found);
      // Without a node the reader has no place to name.
      const problem: Reading['problem'] = (at, ...rest) =>
        report(node === undefined ? placeOf(path, nodes) : at, ...rest);
      const read = readSetting(part, node, path, { ...reading, problem });
      if (found.length > 0) throw invalid(shown, found);
      return read;
    },
    refusal: (found) =>
      invalid(
        shown,
        found.map(({ path, message }) => {
          const { line, column } = placeOf(path, nodes);
          return { file: shown, line, column, path, message };
        }),
      ),
    finish() {
      if (problems.length > 0) throw invalid(shown, problems);
    },
  };
}

/** Reads and parses the file; undefined when it is empty or unusable, which is then among the problems. */
async function readTree(
  file: string,
  reading: Reading,
  { maxBytes = MAX_FILE_BYTES, maxValues }: FileLimits,
  content?: Uint8Array,
): Promise<ConfigNode | undefined> {
  const start: Position = { line: 1, column: 1 };
  try {
    const tooLong = (bytes: number): boolean => {
      if (bytes > maxBytes) reading.problem(start, '', `expected at most ${maxBytes} bytes, got ${bytes}`);
      return bytes > maxBytes;
    };
    if (tooLong(content?.length ?? statSync(file).size)) return undefined;
    const bytes = content ?? (await readNamed(file, maxBytes));
    if (tooLong(bytes.length)) return undefined;
    const source = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const { parseTree } = await import('./yaml-tree.ts');
    return await parseTree(source, reading, maxValues);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === undefined) throw cause;
    const why =
      code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
        ? 'expected a readable file, got something that is not UTF-8'
        : code === 'ENOENT'
          ? 'there is no such file'
          : `expected a readable file; ${fileProblem(cause)}`;
    reading.problem(start, '', why);
    return undefined;
  }
}

/** Returns the kind of file at a path, for `expected …, got …`. */
export function whatIs(path: string): string {
  try {
    const found = statSync(path);
    return found.isDirectory() ? 'a folder' : found.isFile() ? 'a file' : 'a device';
  } catch (cause) {
    const { code = 'an error' } = cause as NodeJS.ErrnoException;
    return code === 'ENOENT' ? 'nothing' : `one that cannot be looked at (${code})`;
  }
}

/** Returns the position of a setting, or of the nearest setting around it that is in the file. */
function placeOf(path: string, nodes: ReadonlyMap<string, Position>): Position {
  for (let at = path; at !== ''; at = at.replace(/(\.|^)[^.[]+$|\[\d+\]$/, '')) {
    const node = nodes.get(at);
    if (node !== undefined) return node;
  }
  return nodes.get('') ?? { line: 1, column: 1 };
}

/** Returns a path for messages: one inside the working directory is relative to it. */
function shownPath(file: string, cwd: string): string {
  const near = relative(cwd, file) || '.';
  return leadsOut(near) ? file : near;
}

/** Returns the one error of a file that cannot be used. Problems come in the order of the file. */
function invalid(file: string, problems: ConfigProblem[]): HandfastError {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const lines = sorted.map(formatProblem);
  const heading = lines.length === 1 ? [] : [`${file} has ${lines.length} problems:`];
  return fail('config_invalid', [...heading, ...lines].join('\n'), { problems: sorted });
}

/**
 * Returns a problem in the form that editors and terminals understand:
 * `file:line:column: at <setting>: expected …, got …`.
 */
export function formatProblem({ file, line, column, path, message }: ConfigProblem): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `at ${path}: `}${message}`;
}

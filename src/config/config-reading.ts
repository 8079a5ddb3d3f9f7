/**
 * Reading a configuration file with positions: what every file of ours has in common. All problems are collected, none is
 * thrown before the last is known.
 *
 * Used by `config.ts` for `handfast.yaml` and by `fleet-config.ts` for `fleet.yaml`.
 */
import { readFileSync, statSync } from 'node:fs';
import { dirname, isAbsolute, relative, resolve } from 'node:path';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { Field, Position, Reading } from './config-fields.ts';

/** A configuration file is read whole; a real one has a few kilobytes. */
const MAX_FILE_BYTES = 1024 * 1024;

/** One thing that is wrong, or should be looked at, and where. Line and column count from 1. */
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
  /** What the file says, as far as it is right. */
  readonly said: T;
  /** Where relative paths start. */
  readonly folder: string;
  /** Absolute; undefined for the defaults. */
  readonly file: string | undefined;
  readonly warnings: readonly ConfigProblem[];
  /** The path of a list's item; of the list itself where a single value stands for a list of one. */
  item(path: string, index: number): string;
  problem(path: string, message: string): void;
  warn(path: string, message: string): void;
  /** Fails with `config_invalid` when there was any problem. */
  finish(): void;
}

/**
 * Reads a file as `root` describes it, or the defaults when `file` is undefined.
 *
 * Fails with `config_invalid` when nothing of it can be used; what is wrong with single settings fails in `finish`.
 */
export async function openConfig<T>(file: string | undefined, root: Field<T>, cwd: string): Promise<OpenedConfig<T>> {
  const absolute = file === undefined ? undefined : resolve(cwd, file);
  const shown = absolute === undefined ? 'defaults' : shownPath(absolute, cwd);
  const problems: ConfigProblem[] = [];
  const warnings: ConfigProblem[] = [];
  const reading: Reading = {
    problem: (at, path, message) => problems.push({ file: shown, line: at.line, column: at.column, path, message }),
    positions: new Map(),
    secret: false,
  };
  const node = absolute === undefined ? undefined : await readTree(absolute, reading);
  const unreadable = problems.length > 0 && node === undefined;
  const said = unreadable ? undefined : root.read(node, '', reading);
  if (said === undefined) throw invalid(shown, problems);
  const tell = (into: ConfigProblem[]) => (path: string, message: string) => {
    const { line, column } = placeOf(path, reading.positions);
    into.push({ file: shown, line, column, path, message });
  };
  return {
    said,
    folder: absolute === undefined ? cwd : dirname(absolute),
    file: absolute,
    warnings,
    item: (path, index) => (reading.positions.has(`${path}[${index}]`) ? `${path}[${index}]` : path),
    problem: tell(problems),
    warn: tell(warnings),
    finish() {
      if (problems.length > 0) throw invalid(shown, problems);
    },
  };
}

/**
 * Reads and parses the file; undefined when it is empty or unusable, which is then among the problems. Read
 * synchronously, as all files here: nothing else runs yet, and a host without a file must start in no time.
 */
async function readTree(file: string, reading: Reading) {
  const start: Position = { line: 1, column: 1 };
  try {
    const { size } = statSync(file);
    if (size > MAX_FILE_BYTES) {
      reading.problem(start, '', `expected at most ${MAX_FILE_BYTES} bytes, got ${size}`);
      return undefined;
    }
    const bytes = readFileSync(file);
    const source = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const { parseLines } = await import('./config-lines.ts');
    return await parseLines(source, reading);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'something that is not UTF-8' : code;
    if (why === undefined) throw cause;
    reading.problem(start, '', `expected a readable file, got ${why}`);
    return undefined;
  }
}

/** What a path leads to, or the system's word for why that cannot be said. */
export function whatIs(path: string): string {
  try {
    const found = statSync(path);
    return found.isDirectory() ? 'a folder' : found.isFile() ? 'a file' : 'a device';
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code ?? 'nothing usable';
  }
}

/** The position of a setting, or of the nearest thing around it that is in the file. */
function placeOf(path: string, positions: ReadonlyMap<string, Position>): Position {
  for (let at = path; at !== ''; at = at.replace(/(\.|^)[^.[]+$|\[\d+\]$/, '')) {
    const position = positions.get(at);
    if (position !== undefined) return position;
  }
  return positions.get('') ?? { line: 1, column: 1 };
}

/** A path inside the working directory is shown relative to it. */
function shownPath(file: string, cwd: string): string {
  const near = relative(cwd, file);
  return near.startsWith('..') || isAbsolute(near) ? file : near;
}

/** The one error of a file that cannot be used. Problems come in the order of the file. */
function invalid(file: string, problems: ConfigProblem[]): HandfastError {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const lines = sorted.map(formatProblem);
  const heading = lines.length === 1 ? [] : [`${file} has ${lines.length} problems:`];
  return fail('config_invalid', [...heading, ...lines].join('\n'), { problems: sorted });
}

/** A problem as editors and terminals understand it: `file:line:column: at <setting>: expected …, got …`. */
export function formatProblem({ file, line, column, path, message }: ConfigProblem): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `at ${path}: `}${message}`;
}

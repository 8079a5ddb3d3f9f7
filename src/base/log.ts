/**
 * The host's log: one line a record, to stderr or to the target of `write`. Never to stdout, which may carry protocol.
 *
 * Values that look like secrets by their name are not written; tokens never reach this file.
 */
import { escapeControls, escapedJson } from './escape-controls.ts';

/** Line-oriented log of the host; goes to stderr or a file, never to the peer, never to stdout. */
export interface Log {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

const levels = { debug: 10, info: 20, warn: 30, error: 40, silent: 50 } as const;
export type LogLevel = keyof typeof levels;

export interface LogOptions {
  /** Records below it are not written. Default `warn`. */
  readonly level?: LogLevel;
  /** `text` for people, `json` for machines. Default `json`. */
  readonly format?: 'text' | 'json';
  readonly write?: (line: string) => void;
  /** Returns epoch milliseconds. */
  readonly now?: () => number;
}

const SECRET = /token|secret|password|authorization|api_?key/i;

export function createLog(options: LogOptions = {}): Log {
  const {
    level = 'warn',
    format = 'json',
    write = (line: string) => void process.stderr.write(line),
    now = Date.now,
  } = options;
  const at =
    (name: Exclude<LogLevel, 'silent'>) =>
    (message: string, fields: Record<string, unknown> = {}): void => {
      if (levels[name] < levels[level]) return;
      const shown = Object.fromEntries(
        Object.entries(fields).map(([key, value]) => [key, SECRET.test(key) ? '[redacted]' : plain(value)]),
      );
      const time = new Date(now()).toISOString();
      if (format === 'json') return write(`${escapedJson({ time, level: name, message, ...shown })}\n`);
      const rest = Object.entries(shown).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`);
      // People read this at a terminal, and peers wrote some of it.
      write(`${escapeControls(`${time} ${name.padEnd(5)} ${message}${rest.join('')}`)}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/**
 * Returns true for the 1st, 2nd, 4th, 8th … time: repeated events are logged only then, so that no peer can fill the
 * log.
 * @param times occurrences so far, from 1
 */
export const isLogged = (times: number): boolean => (times & (times - 1)) === 0;

/** A log that writes nothing. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

const plain = (value: unknown): unknown => (value instanceof Error ? (value.stack ?? value.message) : value);

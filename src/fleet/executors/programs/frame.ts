/**
 * Reads the JSON lines of programs without trust: members may be missing or of any type. Pure.
 */
import { isObject } from '../../../wire/json.ts';

/** One line of JSON of a program's output. */
export type Frame = Readonly<Record<string, unknown>>;

/** Returns a line of output as an object; undefined for anything else. Never throws. */
export function frameOf(line: string): Frame | undefined {
  const text = line.trim();
  if (!text.startsWith('{')) return undefined;
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Returns a value as an object; undefined for anything else. */
export const objectOf = (value: unknown): Frame | undefined => (isObject(value) ? (value as Frame) : undefined);

/** Returns a value as text; '' for anything that is not a string, because a program may write values of any type. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * Keys of entries: JSON objects that are compared as a whole; the order of their members does not count. @see
 * docs/protocol/a2e.md#memory-messages
 */
import { isObject } from '../../wire/json.ts';

export type MemoryKey = Readonly<Record<string, unknown>>;

/** Returns the key that a caller means: an object unchanged, a text `t` as `{"key": t}`; undefined for anything else. */
export function keyOf(value: unknown): MemoryKey | undefined {
  if (typeof value === 'string') return { key: value };
  return isObject(value) ? value : undefined;
}

/** Returns JSON with the members of every object in the order of their names: keys are equal when these texts are equal. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value === 0 ? 0 : value) ?? 'null';
  const members = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    // By code unit, which no locale changes.
    .sort((left, right) => (left < right ? -1 : 1))
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(',')}}`;
}

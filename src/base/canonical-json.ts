/**
 * JSON with sorted members, so that equal values have equal text, and its digest. For comparing a value with one that
 * was stored earlier: calls that a user approved, definitions of tools.
 */
import { createHash } from 'node:crypto';

/** Returns the canonical text. Values that JSON cannot hold become null. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`;
}

/** Returns the SHA-256 in hex. Stored in place of values that may be long or hold secrets. */
export const digestOfJson = (value: unknown): string => createHash('sha256').update(canonicalJson(value)).digest('hex');

/**
 * The description of a value in an error message, for checks of arguments that programs in plain JavaScript pass. Pure.
 */
import { shown } from '../wire/codec.ts';

/** Returns a text or a number itself, cut to a readable length; for any other value, its kind. */
export function valueKind(value: unknown): string {
  if (typeof value === 'string') return shown(value);
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean') {
    return String(value);
  }
  return Array.isArray(value) ? 'a list' : typeof value === 'function' ? 'a function' : 'an object';
}

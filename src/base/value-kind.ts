/** A value as an error message names it. Used by checks of what programs in plain JavaScript pass; pure. */
import { shown } from '../wire/codec.ts';

/** A text or a number itself, cut to a readable length; of anything else what it is. */
export function valueKind(value: unknown): string {
  if (typeof value === 'string') return shown(value);
  if (value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean') {
    return String(value);
  }
  return Array.isArray(value) ? 'a list' : typeof value === 'function' ? 'a function' : 'an object';
}

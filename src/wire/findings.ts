/**
 * The errors and warnings about one message: collected while it is read, all of them in one pass.
 *
 * Codes and paths are those of docs/protocol/fleet.md#findings.
 */

/** A finding: its code (`E_…`, `W_…`) and the JSON Pointer of the member it is about. */
export interface Finding {
  readonly code: string;
  readonly path: string;
}

/** Findings reported of one message at most, errors and warnings each: a hostile message must not make a long answer. */
export const MAX_FINDINGS = 256;

/** Returns the JSON Pointer of a member. */
export function pointer(where: string, key: string | number): string {
  if (typeof key === 'number') return `${where}/${key}`;
  return /[~/]/.test(key) ? `${where}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}` : `${where}/${key}`;
}

/** Returns a segment of a JSON Pointer without its escapes. */
export const keyOf = (segment: string): string => segment.replaceAll('~1', '/').replaceAll('~0', '~');

/** Returns the keys of a JSON Pointer; none for the whole document. */
export const keysOf = (path: string): string[] => path.split('/').slice(1).map(keyOf);

/** The findings of one message. Past {@link MAX_FINDINGS} of a kind nothing is added: it is refused anyway, or only odd. */
export class Findings {
  readonly errors: Finding[] = [];
  readonly warnings: Finding[] = [];

  /** Adds an error, which makes the message unusable, about the member `key` of the value at `where`. */
  error(code: string, where: string, key: string | number): undefined {
    if (this.errors.length < MAX_FINDINGS) this.errors.push({ code, path: pointer(where, key) });
  }

  /** Adds a warning: the message can still be used. */
  warn(code: string, where: string, key: string | number): void {
    if (this.warnings.length < MAX_FINDINGS) this.warnings.push({ code, path: pointer(where, key) });
  }

  /** Warns of members that are not among the known ones. */
  unknown(members: Readonly<Record<string, unknown>>, known: ReadonlySet<string>, where: string): void {
    for (const key of Object.keys(members)) {
      if (!known.has(key) && members[key] !== undefined) this.warn('W_UNKNOWN_FIELD', where, key);
    }
  }
}

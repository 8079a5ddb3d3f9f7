/**
 * The digest of a dispatch: two dispatches with equal digests are the same task.
 *
 * @see docs/protocol/fleet.md#task_dispatch
 */
import type { TaskDispatch } from '../../protocol/fleet.ts';

/** Returns JSON with the keys of every object sorted by code unit. Members that are `undefined` are left out, as in JSON. */
function sorted(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(sorted).join(',')}]`;
  const members = value as Record<string, unknown>;
  let text = '';
  for (const key of Object.keys(members).sort()) {
    const member = members[key];
    if (member !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${sorted(member)}`;
  }
  return `{${text}}`;
}

/**
 * Returns the SHA-256 (hex) of a dispatch without its envelope, as JSON with sorted keys. The envelope names the sender and the
 * attempt, which may change while the task stays the same.
 */
export function digestOf(dispatch: TaskDispatch): string {
  // Loaded with the first digest: `node:crypto` takes a tenth of the time to import `handfast/fleet`.
  const { hash } = process.getBuiltinModule('node:crypto');
  return hash('sha256', sorted({ ...dispatch, envelope: undefined }));
}

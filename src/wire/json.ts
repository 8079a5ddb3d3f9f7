/** JSON values of unknown origin, told apart. Used by every reader of messages, files and answers; pure. */

/** A JSON object with members of unknown shape. */
export type JsonObject = Record<string, unknown>;

/** True for a JSON object: not null, not an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members of a JSON object; none for any other value. */
export function membersOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

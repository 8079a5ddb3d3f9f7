/**
 * Type tests for JSON values of unknown origin: messages, files and replies. Pure.
 */

/** A JSON object with members of unknown shape. */
export type JsonObject = Record<string, unknown>;

/** Returns true for a JSON object: not null, not an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the members of a JSON object; none for any other value. */
export function membersOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/**
 * Returns an object without those members that are null: of `names`, or of all. An object without null members is
 * returned itself.
 */
export function withoutNulls(value: Readonly<JsonObject>, names = Object.keys(value)): Readonly<JsonObject> {
  const nulls = new Set(names.filter((name) => value[name] === null));
  if (nulls.size === 0) return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !nulls.has(name)));
}

/** A result with its JSON at hand: text links send `text` as it is, links in memory send `value`. */
export class JsonText<Value> {
  /** Returns the JSON text of `value`, exactly as `JSON.stringify` writes it. */
  readonly text: () => string;
  readonly value: () => Value;

  constructor(text: () => string, value: () => Value) {
    this.text = text;
    this.value = value;
  }
}

/** Returns the value of a result in either form. */
export const resultValue = <Value>(result: Value | JsonText<Value>): Value =>
  result instanceof JsonText ? result.value() : result;

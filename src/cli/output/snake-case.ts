/**
 * Documents of `--json` have one spelling of names, that of the wire: snake case. Values of the library have the spelling of
 * JavaScript and go through here; messages of the protocols are printed as they came. Pure.
 */

/** `statusLabel` → `status_label`. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns the object with its own member names in snake case. Values of its members stay as they are: they may be a user's. */
export const snakeKeys = (value: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [snake(name), member]));

/**
 * Versions of the fleet protocol, `major.minor`: 2.10 is more than 2.9.
 * @see docs/protocol/fleet.md#versions
 */
const VERSION = /^(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})$/;

/** A version in numbers. */
export interface Version {
  readonly major: number;
  readonly minor: number;
}

/** Returns the numbers of `major.minor`, or undefined for another text. */
export function parseVersion(version: string): Version | undefined {
  const parts = VERSION.exec(version);
  return parts === null ? undefined : { major: Number(parts[1]), minor: Number(parts[2]) };
}

/**
 * Rules for texts in configuration files that a pattern cannot state: schemas name them in `format`, the reader applies
 * them. A format returns the value as the program uses it, or undefined for an invalid text.
 */
import { capabilityNames, capabilityOf } from '../protocol/a2e.ts';
import { ADDRESS_FORMS, parseListenAddress } from './listen-address.ts';

interface TextFormat {
  /** What a valid text looks like: `expected …`. */
  readonly expected: string;
  /** Words to suggest, where the format is a choice of them. */
  readonly known?: readonly string[];
  read(text: string): string | undefined;
}

/** Host names are compared without regard to case. */
const lowerCase = (pattern: RegExp) => (text: string) => (pattern.test(text) ? text.toLowerCase() : undefined);

export const textFormats = {
  listen_address: {
    expected: ADDRESS_FORMS,
    read: (text) => (parseListenAddress(text) === undefined ? undefined : text),
  },
  capability: {
    expected: `one of ${capabilityNames.join(', ')}`,
    known: capabilityNames,
    read: capabilityOf,
  },
  host_name: {
    expected: 'a host name like box.lan or box.lan:4700',
    read: lowerCase(/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i),
  },
  origin: {
    expected: 'an origin like https://app.example (no path, not *, not null)',
    read: lowerCase(/^https?:\/\/(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i),
  },
} satisfies Readonly<Record<string, TextFormat>>;

/** `path` and `program` are not in the table: they depend on the folder of the file, so the reader resolves them. */
export type TextFormatName = keyof typeof textFormats | 'path' | 'program';

export const textFormat = (name: TextFormatName | undefined): TextFormat | undefined =>
  name === undefined || name === 'path' || name === 'program' ? undefined : textFormats[name];

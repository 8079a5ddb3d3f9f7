/**
 * Rules for texts in configuration files that a pattern cannot state: schemas name them in `format`, the reader applies
 * them. A format returns the value as the program uses it, or undefined for an invalid text.
 */
import { isIP } from 'node:net';
import { suggest } from '../base/suggest.ts';
import { capabilityNames, capabilityOf, isAdditionalCapability } from '../protocol/a2e.ts';
import { ADDRESS_FORMS, parseListenAddress } from './listen-address.ts';

interface TextFormat {
  /** Description of a valid text: `expected …`. */
  readonly expected: string;
  /** Words to suggest, where the format is a choice of them. */
  readonly known?: readonly string[];
  read(text: string): string | undefined;
}

/** Returns the standard name, or that of a package: a name that is nearly a standard one is more likely a mistake. */
function capabilityName(text: string): string | undefined {
  const isOther = isAdditionalCapability(text) && suggest(text, capabilityNames) === undefined;
  return capabilityOf(text) ?? (isOther ? text : undefined);
}

/** Returns an IP address, or one with the length of its network. */
function network(text: string): string | undefined {
  const [, address = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const family = isIP(address);
  const fits = bits === undefined || Number(bits) <= (family === 6 ? 128 : 32);
  return family !== 0 && fits ? text : undefined;
}

/** Returns the text in lower case: host names are compared without regard to case. */
const lowerCase = (pattern: RegExp) => (text: string) => (pattern.test(text) ? text.toLowerCase() : undefined);

export const textFormats = {
  listen_address: {
    expected: ADDRESS_FORMS,
    read: (text) => (parseListenAddress(text) === undefined ? undefined : text),
  },
  capability: {
    expected: `one of ${capabilityNames.join(', ')}, or a capability of a package`,
    known: capabilityNames,
    read: (text) => (text === '*' ? text : capabilityName(text)),
  },
  host_name: {
    expected: 'a host name like box.lan or box.lan:4700',
    read: lowerCase(/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i),
  },
  origin: {
    expected: 'an origin like https://app.example (no path, not *, not null)',
    read: lowerCase(/^https?:\/\/(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/i),
  },
  network: {
    expected: 'an IP address, or a network like 10.0.0.0/8',
    read: network,
  },
} satisfies Readonly<Record<string, TextFormat>>;

/** `path` and `program` are not in the table: they depend on the folder of the file, so the reader resolves them. */
export type TextFormatName = keyof typeof textFormats | 'path' | 'program';

export const textFormat = (name: TextFormatName | undefined): TextFormat | undefined =>
  name === undefined || name === 'path' || name === 'program' ? undefined : textFormats[name];

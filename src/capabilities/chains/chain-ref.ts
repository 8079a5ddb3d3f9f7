/**
 * References to a stored chain: its name, and on the command line NAME or NAME@VERSION.
 */
import type { ChainRef } from './chains.schema.ts';

const NAME = /^[\w.-]{1,128}$/;
const WORD = /^([\w.-]{1,128})(?:@([1-9]\d{0,8}))?$/;

/** Returns true for a valid name of a chain. */
export const isChainName = (name: string): boolean => NAME.test(name);

/** Returns the stored chain that a word names; undefined: the word is no such reference. */
export function chainRefOf(word: string): ChainRef | undefined {
  const [, name, version] = WORD.exec(word) ?? [];
  if (name === undefined) return undefined;
  return version === undefined ? { name } : { name, version: Number(version) };
}

/** Formats a version of a stored chain as {@link chainRefOf} reads it. */
export const chainWord = ({ name, version }: { readonly name: string; readonly version: number }): string =>
  `${name}@${version}`;

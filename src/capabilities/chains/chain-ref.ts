/**
 * What a stored chain is called: its name, and in words of the command line NAME or NAME@VERSION.
 *
 * Used by the library of the host and by the commands.
 */
import type { ChainRef } from './chains.schema.ts';

const NAME = /^[\w.-]{1,128}$/;
const WORD = /^([\w.-]{1,128})(?:@([1-9]\d{0,8}))?$/;

/** Whether a chain may have this name. */
export const isChainName = (name: string): boolean => NAME.test(name);

/** The stored chain that a word names; undefined: it can name none. */
export function chainRefOf(word: string): ChainRef | undefined {
  const [, name, version] = WORD.exec(word) ?? [];
  if (name === undefined) return undefined;
  return version === undefined ? { name } : { name, version: Number(version) };
}

/** A version of a stored chain as {@link chainRefOf} reads it. */
export const chainWord = ({ name, version }: { readonly name: string; readonly version: number }): string =>
  `${name}@${version}`;

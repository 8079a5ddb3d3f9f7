/**
 * Filters the operator's own arguments for a program: removes those that its adapter sets, because a second `--resume` or
 * another output format breaks the conversation. Pure.
 */

/** Flag → whether it has a value. */
export type OwnedFlags = Readonly<Record<string, boolean>>;

export interface FilteredFlags {
  readonly kept: readonly string[];
  /** As they were given, with their values. */
  readonly dropped: readonly string[];
}

/**
 * Removes owned flags as `--flag value`, `--flag=value` and `-fvalue`, the end of flags (`--`), and words that the program
 * would read as the prompt. A word stays only behind a flag that is not owned and has no `=`.
 */
export function filterFlags(given: readonly string[], owned: OwnedFlags): FilteredFlags {
  const kept: string[] = [];
  const dropped: string[] = [];
  let mayBeValue = false;
  for (let at = 0; at < given.length; at += 1) {
    const word = given[at] as string;
    const flag = ownedFlag(word, owned);
    if (flag !== undefined) {
      const next = given[at + 1];
      const separate = owned[flag] === true && word === flag && next !== undefined;
      dropped.push(separate ? `${word} ${next}` : word);
      if (separate) at += 1;
      mayBeValue = false;
    } else if (word === '--' || (!word.startsWith('-') && !mayBeValue) || word === '-') {
      dropped.push(word);
      mayBeValue = false;
    } else {
      kept.push(word);
      mayBeValue = word.startsWith('-') && !word.includes('=');
    }
  }
  return { kept, dropped };
}

/** Returns the owned flag that a word is or starts with. */
function ownedFlag(word: string, owned: OwnedFlags): string | undefined {
  if (!word.startsWith('-')) return undefined;
  const name = word.startsWith('--') ? (word.split('=', 1)[0] as string) : word.slice(0, 2);
  return Object.hasOwn(owned, name) ? name : undefined;
}

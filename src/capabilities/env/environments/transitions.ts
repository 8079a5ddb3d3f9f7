/**
 * Worlds with a table of transitions (FrozenLake, CliffWalking, Taxi): Gymnasium's way to draw from it, and its coloured text.
 */
import type { Generator } from '../../../base/random/generator.ts';

/** One outcome of an action in a state. */
export interface Transition {
  readonly probability: number;
  readonly state: number;
  readonly reward: number;
  readonly terminated: boolean;
}

/**
 * Returns the index of a probability, drawn by one number of the generator. The first one, if rounding leaves a rest of the
 * sum.
 */
export function categorical(probabilities: readonly number[], random: Generator): number {
  const drawn = random.double();
  let sum = 0;
  for (const [at, probability] of probabilities.entries()) {
    sum += probability;
    if (sum > drawn) return at;
  }
  return 0;
}

/** Draws one of the outcomes. */
export function draw(transitions: readonly Transition[], random: Generator): Transition {
  return transitions[
    categorical(
      transitions.map(({ probability }) => probability),
      random,
    )
  ]!;
}

/** Computes each entry of a table once, at its first use. */
export function table<Entry>(make: (state: number, action: number) => Entry, actions: number) {
  const entries: (Entry | undefined)[] = [];
  return (state: number, action: number): Entry => {
    const at = state * actions + action;
    entries[at] ??= make(state, action);
    return entries[at];
  };
}

const colours = { red: 31, green: 32, yellow: 33, blue: 34, magenta: 35 };

/** Colours a text for terminals, as Gymnasium's `colorize`. */
export function colorize(
  text: string,
  colour: keyof typeof colours,
  how: { bold?: true; highlight?: true } = {},
): string {
  const code = colours[colour] + (how.highlight ? 10 : 0);
  return `\x1b[${code}${how.bold ? ';1' : ''}m${text}\x1b[0m`;
}

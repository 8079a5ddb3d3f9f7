/**
 * Reports on stderr that databases of a host or a server lost writes, so that no command shows the remaining data as if it were
 * complete.
 */
import type { GrantedCapability } from '../../agent/agent.ts';

/** Returns the note on each loss of a list that a peer sent. */
export function lossNotes(losses: unknown): string[] {
  if (!Array.isArray(losses)) return [];
  return losses
    .filter((loss) => typeof loss?.message === 'string')
    .map(({ message }) => `warning: ${message}; see handfast doctor`);
}

/** Notes the losses of capabilities, each once. */
export class LossReporter {
  readonly #note: (text: string) => void;
  readonly #noted = new Set<string>();

  constructor(note: (text: string) => void) {
    this.#note = note;
  }

  report({ metadata }: Pick<GrantedCapability, 'metadata'>): void {
    for (const note of lossNotes(metadata.losses)) {
      if (this.#noted.has(note)) continue;
      this.#noted.add(note);
      this.#note(note);
    }
  }
}

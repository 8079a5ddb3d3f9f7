/**
 * The characters of all outputs of a run and of the events delivered to it: a run holds them in memory until it ends, and all
 * of them are read when it is resumed or shown.
 *
 * Used by `run.ts` while it runs, and by `runs.ts` for events that are delivered to one that does not.
 */
import { jsonChars } from '../../../base/json-size.ts';
import { MAX_NESTED } from '../definition/expressions.ts';
import { failure } from '../errors.ts';
import type { Recovered } from './recovery.ts';

export class OutputChars {
  readonly #max: number;
  #chars = 0;

  /** @param recovered what the run has already */
  constructor(max: number, recovered: Recovered | undefined) {
    this.#max = max;
    if (recovered === undefined) return;
    for (const value of valuesOf(recovered)) {
      const found = jsonChars(value, { chars: Number.MAX_SAFE_INTEGER, depth: Number.POSITIVE_INFINITY });
      if (typeof found === 'number') this.#chars += found;
    }
  }

  /** Counts an output. Throws `chains.too_large`; it is not kept then, and not counted. */
  count(output: unknown): void {
    const found = jsonChars(output, { chars: this.#max - this.#chars, depth: MAX_NESTED });
    if (found === 'depth') {
      throw failure('too_large', `the output is nested more than ${MAX_NESTED} deep`, { max: MAX_NESTED });
    }
    if (typeof found !== 'number') {
      throw failure('too_large', `the outputs of the run are longer than ${this.#max} characters`, { max: this.#max });
    }
    this.#chars += found;
  }

  /** Counts an event as {@link count} does: its name is kept, too. */
  countEvent(name: string, data: unknown): void {
    this.count([name, data]);
  }
}

/** Outputs and events as they were counted: those of the items of a map, and not the list that it makes of them. */
function* valuesOf({ nodes, events }: Recovered): Generator<unknown> {
  for (const { outcome, items } of nodes.values()) {
    for (const item of items?.values() ?? []) {
      if (item.outcome !== undefined && 'output' in item.outcome) yield item.outcome.output;
    }
    if (items === undefined && outcome?.kind === 'done') yield outcome.output;
  }
  for (const [name, data] of events) yield* [name, data];
}

/**
 * Counts the characters of all outputs of a run and of the events delivered to it: a run holds them in memory until it ends,
 * and resuming or showing it reads all of them.
 */
import { jsonChars } from '../../../base/json-size.ts';
import { MAX_NESTED } from '../definition/expressions.ts';
import { failure } from '../errors.ts';
import type { Recovered } from './recovery.ts';

/** Limits of characters and values of one output: it is written, counted and sent within a turn of the event loop. */
const MAX_OUTPUT_CHARS = 8 * 1024 * 1024;
const MAX_OUTPUT_VALUES = 512 * 1024;

export class OutputChars {
  readonly #max: number;
  #chars = 0;

  /** @param recovered outputs and events that the run has already */
  constructor(max: number, recovered: Recovered | undefined) {
    this.#max = max;
    if (recovered === undefined) return;
    for (const value of valuesOf(recovered)) {
      const found = jsonChars(value, { chars: Number.MAX_SAFE_INTEGER, depth: Number.POSITIVE_INFINITY });
      if (typeof found === 'number') this.#chars += found;
    }
  }

  /** Counts an output. Throws `chains.too_large`; the output is then neither stored nor counted. */
  count(output: unknown): void {
    const chars = Math.min(MAX_OUTPUT_CHARS, this.#max - this.#chars);
    const found = jsonChars(output, { chars, depth: MAX_NESTED, values: MAX_OUTPUT_VALUES });
    if (found === 'depth') {
      throw failure('too_large', `the output is nested more than ${MAX_NESTED} deep`, { max: MAX_NESTED });
    }
    if (found === 'values') {
      throw failure('too_large', `the output has more than ${MAX_OUTPUT_VALUES} values`, { max: MAX_OUTPUT_VALUES });
    }
    if (typeof found !== 'number' && chars === MAX_OUTPUT_CHARS) {
      throw failure('too_large', `the output is longer than ${MAX_OUTPUT_CHARS} characters`, { max: MAX_OUTPUT_CHARS });
    }
    if (typeof found !== 'number') {
      throw failure('too_large', `the outputs of the run are longer than ${this.#max} characters`, { max: this.#max });
    }
    this.#chars += found;
  }

  /** Counts an event as {@link count} does: its name is stored, too. */
  countEvent(name: string, data: unknown): void {
    this.count([name, data]);
  }
}

/** Yields outputs and events as they were counted: those of the items of a map, not the list that the map makes of them. */
function* valuesOf({ nodes, events }: Recovered): Generator<unknown> {
  for (const { outcome, items } of nodes.values()) {
    for (const item of items?.values() ?? []) {
      if (item.outcome !== undefined && 'output' in item.outcome) yield item.outcome.output;
    }
    if (items === undefined && outcome?.kind === 'done') yield outcome.output;
  }
  for (const [name, data] of events) yield* [name, data];
}

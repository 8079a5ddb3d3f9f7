/** Collects the problems of a chain. Used by all that checks one. */
import type { Problem, ProblemCode } from './graph.ts';

/** Most problems that are reported of one chain. */
const MAX_PROBLEMS = 100;

export class Problems {
  readonly list: Problem[] = [];
  /** The place of each node in the list as it was given: what is no node has none. */
  readonly places: number[] = [];

  /** Adds one of the chain itself, unless there are too many already. */
  add(code: ProblemCode, message: string, field = ''): void {
    this.#push({ code, message, node_id: '', field });
  }

  /** Adds one of a node. */
  addAt(
    index: number,
    { node_id: id }: { readonly node_id: string },
    code: ProblemCode,
    message: string,
    field = '',
  ): void {
    this.#push({ code, message, node_id: id, field, index: this.places[index] ?? index });
  }

  #push(problem: Problem): void {
    if (this.list.length < MAX_PROBLEMS) this.list.push(problem);
  }
}

/** A name in a message, cut to a readable length. */
export const quoted = (text: string): string => `"${text.length > 60 ? `${text.slice(0, 60)}…` : text}"`;

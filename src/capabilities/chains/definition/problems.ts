/** Collects the problems of a chain. */
import type { Problem, ProblemCode } from './graph.ts';

/** Maximum number of reported problems of one chain. */
const MAX_PROBLEMS = 100;

export class Problems {
  readonly list: Problem[] = [];
  /** The position of each node in the given list: an element that is no node has none. */
  readonly places: number[] = [];

  /** Adds a problem of the chain itself, unless the list is full. */
  add(code: ProblemCode, message: string, field = ''): void {
    this.#push({ code, message, node_id: '', field });
  }

  /** Adds a problem of a node. */
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

/** Quotes a name in a message, cut to a readable length. */
export const quoted = (text: string): string => `"${text.length > 60 ? `${text.slice(0, 60)}…` : text}"`;

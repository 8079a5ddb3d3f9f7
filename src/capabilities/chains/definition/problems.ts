/** Collects the problems of a chain. Used by all that checks one. */
import type { Problem, ProblemCode } from './graph.ts';

/** Most problems that are reported of one chain. */
const MAX_PROBLEMS = 100;

export class Problems {
  readonly list: Problem[] = [];

  /** Adds one, unless there are too many already. */
  add(code: ProblemCode, message: string, nodeId = '', field = ''): void {
    if (this.list.length < MAX_PROBLEMS) this.list.push({ code, message, node_id: nodeId, field });
  }
}

/** A name in a message, cut to a readable length. */
export const quoted = (text: string): string => `"${text.length > 60 ? `${text.slice(0, 60)}…` : text}"`;

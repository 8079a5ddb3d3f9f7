/**
 * Schemas of outputs that are broken: no output would fit them, and only after a node had run. Used by `define.ts` and for chain
 * files, before a chain runs.
 */
import { type JsonSchema, lazyCheck } from '../../../base/json-schema.ts';
import { timeLimit } from '../../../base/time-limit.ts';
import type { ChainGraph, Problem } from './graph.ts';

/** Milliseconds of processor time for all schemas of a chain. Those that are left then are checked when their nodes have run. */
const MAX_MS = 40;

/** The problems of a chain without others, at most one of each schema. */
export function outputSchemaProblems({ nodes }: ChainGraph): Problem[] {
  const stated = nodes.filter(({ node }) => node.output_schema !== undefined);
  if (stated.length === 0) return [];
  // Loads the validator, which must not be stopped halfway.
  lazyCheck({})(null);
  const found: Problem[] = [];
  const limited = timeLimit(MAX_MS);
  const until = performance.now() + MAX_MS;
  for (const { index, node } of stated) {
    if (performance.now() > until) break;
    let message: string | undefined;
    try {
      message = limited(() => brokenBy(node.output_schema as JsonSchema));
    } catch {
      message = `it could not be read within ${MAX_MS} ms`;
    }
    if (message !== undefined) {
      found.push({ code: 'bad_node', message, node_id: node.node_id, field: 'output_schema', index });
    }
  }
  return found;
}

function brokenBy(schema: JsonSchema): string | undefined {
  const check = lazyCheck(schema);
  check(null);
  return check.errors?.find(({ keyword }) => keyword === 'schema')?.message;
}

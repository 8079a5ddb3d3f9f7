/**
 * Schemas of outputs that are broken: no output would fit them, and only after a node had run. Used by `define.ts` and for chain
 * files, before a chain runs.
 */
import { foreignSchemas } from '../../../base/foreign-schemas.ts';
import { within } from '../../../base/race.ts';
import type { ChainGraph, Problem } from './graph.ts';

/** Milliseconds for all schemas of a chain. Those that are left then are checked when their nodes have run. */
const MAX_MS = 5_000;

/** The problems of a chain without others, at most one of each schema. */
export async function outputSchemaProblems({ nodes }: ChainGraph, signal?: AbortSignal): Promise<Problem[]> {
  const found: Problem[] = [];
  const until = performance.now() + MAX_MS;
  for (const { index, node } of nodes) {
    const { node_id, output_schema: schema } = node;
    if (schema === undefined) continue;
    const leftMs = until - performance.now();
    if (leftMs <= 0) break;
    const problem = await within(foreignSchemas.problem(schema, { what: 'output', signal }), leftMs);
    if (typeof problem !== 'string') continue;
    const message = `cannot be checked: its schema is broken (${problem})`;
    found.push({ code: 'bad_node', message, node_id, field: 'output_schema', index });
  }
  return found;
}

/**
 * Finds broken schemas of outputs before a chain runs: no output would fit them, and only after a node had run.
 */
import { foreignSchemas } from '../../../base/foreign-schemas.ts';
import { within } from '../../../base/race.ts';
import type { ChainGraph, Problem } from './graph.ts';

/** Milliseconds for all schemas of a chain. The remaining schemas are checked when their nodes have run. */
const MAX_MS = 5_000;

/** Returns the schema problems of a chain that has no others, at most one for each schema. */
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

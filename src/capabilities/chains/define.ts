/** Finds the chain that a request runs: its own nodes, or a stored version; checks it, and returns it with its problems. */
import { foreignSchemas } from '../../base/foreign-schemas.ts';
import type { JsonSchema } from '../../base/json-schema.ts';
import { inTurns, type Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import { asError, fail } from '../../wire/errors.ts';
import { toolList } from '../tools/messages.ts';
import type { ToolDescription } from '../tools/tools.schema.ts';
import type { ChainError, ChainNode, ChainProblem, ChainReq } from './chains.schema.ts';
import type { ChainGraph, ChainLimits } from './definition/graph.ts';
import { outputSchemaProblems } from './definition/output-schemas.ts';
import { type ChainReading, readingChain } from './definition/read.ts';
import { checkLater, type KnownSchemas, type LaterCheck } from './definition/types.ts';
import type { Library } from './library.ts';
import type { Definition } from './stored.ts';
import { kindProblems } from './subagent-calls.ts';

/** Members of a request that select the chain and how it runs. */
export type Which = Pick<
  ChainReq,
  'nodes' | 'chain' | 'entry_node' | 'timeout' | 'max_parallel' | 'deadline' | 'budget'
>;

export interface Defined {
  readonly definition: Definition;
  readonly name: string;
  readonly version: number;
  /** Undefined: it has problems. */
  readonly graph: ChainGraph | undefined;
  readonly problems: readonly ChainProblem[];
}

/** Timeout in seconds of a run whose request and chain name none; 0 stands for it, too. */
const DEFAULT_SECONDS = 300;
const DEFAULT_PARALLEL = 8;

export interface DefineDeps {
  readonly library: Library;
  readonly limits: Partial<ChainLimits>;
  readonly turns: Turns;
}

/**
 * Reads the chain of a request. Fails with `chains.unknown_chain`, `chains.invalid`.
 * @param checksTools true: checks the walk of A2E 1.0, too, whose nodes fail when they run; and that the tools exist
 */
export async function define(
  which: Which,
  context: CallContext,
  { library, limits, turns }: DefineDeps,
  checksTools = false,
): Promise<Defined> {
  const { chain, nodes = [] } = which;
  const stored = chain === undefined ? undefined : await library.get(chain.name, chain.version, context);
  const own = stored ?? which;
  const definition: Definition = {
    nodes: stored?.nodes ?? nodes,
    entry_node: which.entry_node || (own.entry_node ?? ''),
    timeout: which.timeout || own.timeout || DEFAULT_SECONDS,
    max_parallel: which.max_parallel ?? own.max_parallel ?? DEFAULT_PARALLEL,
    deadline: which.deadline || (own.deadline ?? ''),
    budget: which.budget ?? own.budget ?? {},
  };
  let reading: ChainReading = await inTurns(readingChain(definition, { limits }), turns);
  if (reading.graph !== undefined && (checksTools || reading.graph.mode === 'graph') && usesTools(definition.nodes)) {
    const known = await knownTools(context, checksTools);
    const later: LaterCheck[] = [];
    reading = await inTurns(readingChain(definition, { limits, known, later }), turns);
    await checkLater(later, context.signal);
  }
  const problems: ChainProblem[] = [...reading.problems];
  if (reading.graph !== undefined) problems.push(...(await outputSchemaProblems(reading.graph, context.signal)));
  if (problems.length === 0) problems.push(...(await kindProblems(definition.nodes, context)));
  if (problems.length === 0) problems.push(...unansweredProblems(definition.nodes, context));
  const graph = problems.length > 0 ? undefined : reading.graph;
  return { definition, name: stored?.name ?? '', version: stored?.version ?? 0, graph, problems };
}

/** Returns the problems of questions that only the principal that runs the chain may answer: nothing could end them. */
function unansweredProblems(nodes: readonly ChainNode[], { session }: CallContext): ChainProblem[] {
  const { name } = session.principal;
  return nodes.flatMap(({ kind, node_id, wait }, index): ChainProblem[] => {
    if (kind !== 'wait' || !Array.isArray(wait?.by) || wait.by.some((each) => each !== name)) return [];
    const message = `only ${JSON.stringify(name)} may answer, which is the principal that runs the chain; name another one`;
    return [{ code: 'bad_node', message, node_id, field: 'wait.by', index }];
  });
}

/** Returns the error of a chain whose problems prevent it from running. */
export function problemError(problems: readonly ChainProblem[]): ChainError {
  const first = problems.find(({ code }) => code === 'chain_cycle') ?? (problems[0] as ChainProblem);
  const place = [first.node_id && `node ${JSON.stringify(first.node_id)}`, first.field].filter(Boolean).join(', ');
  return {
    code: first.code,
    message: place === '' ? first.message : `${place}: ${first.message}`,
    detail: { problems: problems.map((problem) => ({ ...problem })) },
  };
}

const usesTools = (nodes: readonly ChainNode[]): boolean => nodes.some(({ kind }) => kind === 'tool' || kind === 'mcp');

/** Returns the schemas of the tools that the principal may call. A host without tools knows none. */
async function knownTools(context: CallContext, mustBeThere: boolean): Promise<KnownSchemas> {
  const { tools = [] } = await context.call(toolList, { include_deferred: true }).catch(() => ({ tools: [] }));
  const byName = new Map<string, ToolDescription>(tools.map((tool) => [tool.name, tool]));
  const toolOf = ({ kind, name = '' }: ChainNode) => (kind === 'tool' || kind === 'mcp' ? byName.get(name) : undefined);
  return {
    input(node) {
      const tool = toolOf(node);
      if (tool !== undefined) return tool.input_schema as JsonSchema | undefined;
      return mustBeThere && (node.kind === 'tool' || node.kind === 'mcp') ? null : undefined;
    },
    output: (node) => toolOf(node)?.output_schema as JsonSchema | undefined,
  };
}

/** Timeout of the check of one output, milliseconds of processor time: the schema comes with the chain. */
const OUTPUT_CHECK_MS = 100;

/** Rejects with `schema_violation` for an output that does not fit the schema of its node. */
export async function checkOutput(
  { node_id, output_schema: schema }: ChainNode,
  output: unknown,
  signal?: AbortSignal,
): Promise<void> {
  if (schema === undefined) return;
  try {
    await foreignSchemas.check(schema, output, { what: 'output', limitMs: OUTPUT_CHECK_MS, signal, fills: false });
  } catch (thrown) {
    if (signal?.aborted) throw thrown;
    const { code, message, detail } = asError(thrown);
    if (code !== 'schema_violation' && code !== 'config_invalid') throw thrown;
    const { path, reason } = detail;
    const why = reason === undefined ? `does not fit output_schema: ${message.replace(/^output: /, '')}` : message;
    throw fail('schema_violation', reason === undefined ? `the output ${why}` : `the ${why}`, {
      node_id,
      ...(path !== undefined && { path }),
      ...(reason !== undefined && { reason }),
    });
  }
}

/**
 * Runs nodes of the kinds `agent` and `task`: each is one task of one subagent, made and ended by calls of the capability
 * multi_agent under the rights of the caller that runs the chain. A `task` node needs a kind of subagent whose tasks are those
 * of a fleet. Also finds kinds that the host does not have.
 */
import { orAborted } from '../../base/race.ts';
import type { CallContext } from '../../host/context.ts';
import { asError, fail, HandfastError, rowOf } from '../../wire/errors.ts';
import { awaitTask, delegate, kinds, spawn, terminate } from '../multi_agent/messages.ts';
import type { MultiAgentAwaitResp, SubagentKind } from '../multi_agent/multi_agent.schema.ts';
import type { ChainNode, ChainProblem } from './chains.schema.ts';
import { isSubagentNode, type SubagentNodeKind, subagentInput } from './definition/subagent-inputs.ts';
import type { NodeCall, Spending } from './engine/contract.ts';
import { failure } from './errors.ts';

type Context = Pick<CallContext, 'call'>;
type Kinds = readonly SubagentKind[];

/** Maximum start time of a subagent whose node has ended meanwhile, milliseconds. */
const START_MS = 120_000;
/** Milliseconds by which the timeout of a subagent exceeds that of its node, so that the end of the node is the reason. */
const BEHIND_MS = 250;
/** The backend whose subagents are tasks of a fleet. */
const FLEET = 'fleet';

/** The codes of a task that ended with its host. */
const INTERRUPTED: ReadonlySet<string> = new Set(['interrupted', 'multi_agent.interrupted', 'superseded']);

/**
 * Runs the task of a node, and resolves with its result. Rejects with the code that the task failed with, with `chains.kind`, and
 * with `interrupted` when its host stopped.
 */
export async function runSubagent(
  context: Context,
  { node_id: name, kind: nodeKind, name: kindName = '' }: ChainNode & { readonly kind: SubagentNodeKind },
  input: Readonly<Record<string, unknown>>,
  node: NodeCall,
): Promise<unknown> {
  const { signal, key } = node;
  const asked = subagentInput(nodeKind, input);
  const timeoutMs = Math.min(asked.deadline - Date.now(), node.leftMs() + BEHIND_MS);
  if (timeoutMs <= 0) throw fail('timeout', 'the deadline of the node has passed', { node_id: name });
  const timed = timeoutMs < Number.POSITIVE_INFINITY && { timeout_seconds: timeoutMs / 1000 };
  const isTask = nodeKind === 'task';
  const kind = isTask ? await fleetKind(context, kindName) : kindName;
  const left = node.left();
  const starting = context.call(
    spawn,
    {
      name,
      kind,
      role: asked.role,
      system_prompt: asked.systemPrompt,
      ...timed,
      budget: budgetOf(asked.budget, left),
      ...(isTask ? {} : asked.own),
    },
    // A begun start is awaited, so that the subagent can be ended.
    { outlives: true, timeoutMs: START_MS },
  );
  const ends = async ({ subagent_id }: { subagent_id: string }) =>
    void (await context.call(terminate, { subagent_id }, { outlives: true }).catch(() => {}));
  const started = await orAborted(starting, signal).catch((thrown: unknown) => {
    void starting.then(ends, () => {});
    const { code, message, detail } = asError(thrown);
    throw INTERRUPTED.has(code) ? fail('interrupted', message, { ...detail }) : thrown;
  });
  let isKept = false;
  try {
    const { subagent_id } = started;
    const { accepted, task_id, refusal } = await context.call(
      delegate,
      {
        subagent_id,
        task_name: name,
        instruction: asked.instruction,
        success_criteria: [...asked.criteria],
        metadata: isTask ? { ...asked.metadata, fleet: { ...asked.own, task_id: key } } : asked.metadata,
        ...timed,
      },
      { signal },
    );
    if (!accepted) {
      const { code = 'tool_error', message = 'the subagent took no task', detail = {} } = refusal ?? {};
      throw new HandfastError(code, message, { detail });
    }
    const ended = await context.call(
      awaitTask,
      { subagent_id, task_id },
      {
        signal,
        onEvent: ({ data }) => {
          const { message, pct } = data as { message?: string; pct?: number };
          node.spent(spendingOf(data.usage));
          node.progress({ message, pct });
        },
      },
    );
    node.spent(spendingOf(ended.usage));
    return resultOf(ended);
  } catch (thrown) {
    // A task of the fleet outlives its host, and is found again by its key.
    isKept = isTask && asError(signal.aborted ? signal.reason : thrown).code === 'interrupted';
    throw thrown;
  } finally {
    if (!isKept) await ends(started);
  }
}

/** Returns problems of nodes whose kind of subagent the host does not have. Reads the kinds where a chain has such nodes. */
export async function kindProblems(nodes: readonly ChainNode[], context: Context): Promise<ChainProblem[]> {
  if (!nodes.some(({ kind }) => isSubagentNode(kind))) return [];
  let known: Kinds = [];
  let missing: string | undefined;
  try {
    known = await kindsOf(context);
  } catch (thrown) {
    missing = asError(thrown).message;
  }
  const field = missing === undefined ? 'name' : 'kind';
  return nodes.flatMap(({ node_id, kind, name = '' }, index): ChainProblem[] => {
    if (!isSubagentNode(kind)) return [];
    const message = missing ?? (kind === 'task' ? notFleet(known, name) : notKind(known, name));
    return message === undefined ? [] : [{ code: 'bad_node', message, node_id, field, index }];
  });
}

const kindsOf = async (context: Context): Promise<Kinds> => (await context.call(kinds, {})).kinds;

/** Returns the reason why the host has no such kind; undefined: it has one. */
function notKind(known: Kinds, name: string): string | undefined {
  if (known.length === 0) {
    return 'no kind of subagent is configured; add one to kinds in the options of the plugin multi_agent';
  }
  if (name === '' || known.some(({ kind }) => kind === name)) return undefined;
  return `there is no kind ${JSON.stringify(name.slice(0, 64))} of subagents; there are ${named(known)}`;
}

/** Returns the reason why the host has no such kind that hands work to a fleet; undefined: it has one. */
function notFleet(known: Kinds, name: string): string | undefined {
  const fleets = known.filter(({ backend }) => backend === FLEET);
  if (fleets.length === 0) {
    return 'no kind of subagent hands work to a fleet; add one with fleet to kinds in the options of the plugin multi_agent, as { name: fleet, fleet: {} }';
  }
  if (name === '' || fleets.some(({ kind }) => kind === name)) return undefined;
  return `no kind ${JSON.stringify(name.slice(0, 64))} of subagents hands work to a fleet; these do: ${named(fleets)}`;
}

const named = (known: Kinds): string => known.map(({ kind }) => kind).join(', ');

async function fleetKind(context: Context, name: string): Promise<string> {
  const known = await kindsOf(context);
  const missing = notFleet(known, name);
  if (missing !== undefined) throw failure('kind', missing);
  return name === '' ? (known.find(({ backend }) => backend === FLEET)?.kind ?? '') : name;
}

/** Returns the budget of a subagent: that of its node, within the rest of the run's budget. */
function budgetOf(asked: Spending, left: Spending) {
  const least = (one: number | undefined, other: number | undefined): number | undefined =>
    one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
  const tokens = least(asked.tokens, left.tokens);
  const usd = least(asked.usd, left.usd);
  return { ...(tokens !== undefined && { tokens }), ...(usd !== undefined && { cost_usd: usd }) };
}

function spendingOf(usage: unknown): Spending {
  const { tokens, cost_usd: usd } = (usage ?? {}) as { tokens?: number; cost_usd?: number };
  return { tokens, usd };
}

function resultOf({
  status,
  result,
  error,
  code,
  detail = {},
  ...more
}: Omit<MultiAgentAwaitResp, 'type' | 'id'>): unknown {
  if (status === 'COMPLETED') return result ?? {};
  const { subagent_id, task_id } = more;
  const message = error ?? 'the subagent gave no result';
  if (INTERRUPTED.has(code ?? '')) throw fail('interrupted', message, { ...detail, subagent_id, task_id });
  const named = code ?? 'tool_error';
  throw new HandfastError(named, message, {
    detail: { ...detail, subagent_id, task_id },
    retryable: rowOf(named, detail).retryable,
  });
}

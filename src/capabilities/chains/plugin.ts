/**
 * The chains capability of a host: runs chains of calls, stores chains, and shows, continues and ends runs.
 *
 * Host builders call `chainsPlugin()`. A run has no more rights than its caller: every node is a call of another capability
 * under the rights of the session.
 * @see docs/chains.md
 */
import { randomUUID } from 'node:crypto';
import { Page } from '../../base/page.ts';
import { orAborted } from '../../base/race.ts';
import { inTurns, Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin } from '../../host/plugin.ts';
import { waiting } from '../../host/waiting.ts';
import { fail, HandfastError } from '../../wire/errors.ts';
import { asks, mustNotBeRunner, questions } from './approvals.ts';
import type { ChainApproval, ChainEntry, ChainRun as RunView } from './chains.schema.ts';
import { checkOutput, define, problemError } from './define.ts';
import type { ChainGraph } from './definition/graph.ts';
import { readingChain } from './definition/read.ts';
import { emitEvent } from './emit-event.ts';
import { readJournal } from './engine/journal.ts';
import { failure } from './errors.ts';
import { Library } from './library.ts';
import * as messages from './messages.ts';
import { CHAIN_DEFAULTS, type ChainsGrant, chainsOffer } from './offer.ts';
import { cursorOf, placeOf } from './run-order.ts';
import { unknownRun } from './run-parts.ts';
import { type ActiveRun, Runs } from './runs.ts';
import { sampled } from './sampled.ts';
import type { Definition } from './stored.ts';
import {
  entryView,
  idleResult,
  nodeViews,
  outputsOf,
  recoveredNodeViews,
  recoveredOutputs,
  resultView,
  runView,
  statusPage,
} from './views.ts';

export interface ChainsOptions {
  /** Whether runs are journaled whose request does not say. Default true. */
  readonly durable?: boolean;
  /** Nodes of one chain. Default 10,000. */
  readonly maxNodes?: number | undefined;
  /** Nodes on the longest path of a chain. Default 10,000. */
  readonly maxDepth?: number | undefined;
  /** Concurrent nodes of one run. Default 256. */
  readonly maxParallel?: number | undefined;
  /** Items of one map. Default 1,000,000. */
  readonly maxItems?: number | undefined;
  /** Characters of all outputs of one run, as JSON. Default 64 Mi. */
  readonly maxOutputChars?: number | undefined;
  /** Stored runs of one principal; the oldest that ended are deleted past it. Default 1,000. */
  readonly maxRuns?: number | undefined;
  /** Concurrent runs of one principal. Default 32. */
  readonly maxRunning?: number | undefined;
  /** Stored chains of one principal, each version counted. Default 1,000. */
  readonly maxChains?: number | undefined;
  /** Bytes of runs and stored chains of one principal. Default 512 MiB. */
  readonly quotaBytes?: number | undefined;
  /** Makes ids. */
  readonly newId?: () => string;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** 0 ≤ x < 1. */
  readonly random?: () => number;
}

/** Maximum number of entries of a page. */
const MAX_PAGE = 1_000;
/** Entries of a page whose request names no limit. */
const PAGE = 100;

export function chainsPlugin(options: ChainsOptions = {}): Plugin {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const limits: typeof CHAIN_DEFAULTS = { ...CHAIN_DEFAULTS, ...given };
  const { newId = randomUUID, now = Date.now, random = Math.random } = options;
  const turns = new Turns();
  const library = new Library(limits.maxChains, turns);
  const chainLimits = { maxNodes: limits.maxNodes, maxDepth: limits.maxDepth };
  const deps = { library, limits: chainLimits, turns };
  const runs = new Runs({
    ...limits,
    graphOf: (definition) => graphOf(definition),
    checkOutput,
    newId,
    now,
    random,
    turns,
  });

  const mayWrite = (context: CallContext): void => {
    const { access = 'write' } = (context.grant ?? {}) as ChainsGrant;
    if (access !== 'write') throw fail('unauthorized', 'the grant of this principal is to read chains and runs only');
  };

  /** Fails with `unauthorized` for a subagent. All agents of the principal run stored chains, each with its rights. */
  const mayStore = (context: CallContext): void => {
    mayWrite(context);
    if (context.session.principal.subagent === undefined) return;
    throw fail('unauthorized', 'a subagent runs stored chains and changes none: the agent above may do more than it');
  };

  /** Returns the current state of a run. Fails with `chains.unknown_run`. */
  const view = async (chainId: string, context: CallContext): Promise<RunView> =>
    runView(runs.active(chainId, context) ?? { ...(await runs.idle(chainId, context)), durable: true, run: undefined });

  /** Returns the result of a run, once it has stopped. */
  const result = async (active: ActiveRun, context: CallContext, startedAt = performance.now()) => {
    const ended = await active.ended;
    if (ended.state === 'interrupted') {
      if (context.signal.aborted) throw context.signal.reason;
      const { code = 'interrupted', message = 'the run was interrupted', detail = {} } = ended.error ?? {};
      throw new HandfastError(code, message, { detail });
    }
    return resultView(active.stored.chain_id, ended, active.run, performance.now() - startedAt);
  };

  const running = async (chainId: string, context: CallContext): Promise<ActiveRun> => {
    const active = await runs.settled(chainId, context);
    if (active !== undefined) return active;
    const { state } = await view(chainId, context);
    throw failure('state', `the run does not run (${state})`, { chain_id: chainId, state });
  };

  /** Handles a method about runs: the runs of the principal are known when it is called. */
  const aboutRuns: typeof handle = (method, run) =>
    handle(method, async (request, context) => {
      await orAborted(runs.opened(context), context.signal);
      return run(request, context);
    });

  return definePlugin({
    name: 'chains',
    type: 'chains',
    ...chainsOffer(options),
    methods: [
      aboutRuns(messages.chainRun, async (request, context) => {
        mayWrite(context);
        const startedAt = performance.now();
        const { chain_id: chainId = '', durable = limits.durable, initial_input: input = {} } = request;
        const { correlation_id: correlationId = '' } = request;
        const id = chainId || newId();
        const started = await runs.announced.do(id, context, async () => {
          const { graph, problems, ...defined } = await define(request, context, deps);
          if (graph === undefined) return { error: problemError(problems) };
          return runs.start({ chainId: id, ...defined, graph, input, durable, correlationId }, context);
        });
        if ('error' in started) {
          const empty = { success: false, outputs: {}, final_output: null, duration_ms: 0, nodes_run: 0 };
          return { chain_id: id, ...empty, error: started.error, state: 'failed' };
        }
        return result(started, context, startedAt);
      }),
      handle(messages.chainCheck, async (request, context) => {
        const { graph, problems, definition } = await define(request, context, deps, true);
        const { initial_input: input = {}, samples } = request;
        const { mode = 'walk', depth = 0 } = graph ?? (await read(definition)).graph ?? {};
        return {
          ok: problems.length === 0,
          problems: [...problems],
          mode,
          nodes_total: definition.nodes.length,
          depth,
          ...(graph !== undefined &&
            samples !== undefined && { samples: [...(await sampled(graph, { input, samples }, turns, context))] }),
        };
      }),
      handle(messages.chainPut, async (request, context) => {
        mayStore(context);
        const { name, if_version: ifVersion, nodes, description, entry_node, timeout, ...more } = request;
        const { max_parallel, deadline, budget } = more;
        const chain = { nodes, description, entry_node, timeout, max_parallel, deadline, budget };
        const { problems } = await define(chain, context, deps);
        if (problems.length > 0) {
          const { message, detail } = problemError(problems);
          throw failure('invalid', message, detail);
        }
        return library.put(name, chain, ifVersion, context, now());
      }),
      handle(messages.chainGet, async ({ name, chain_version: version }, context) => ({
        chain: await library.get(name, version, context),
      })),
      handle(messages.chainList, ({ name = '', after = '', limit = PAGE }, context) =>
        library.list(name, after, Math.min(limit, MAX_PAGE), context),
      ),
      handle(messages.chainRemove, async ({ name, chain_version: version }, context) => {
        mayStore(context);
        return { versions: await library.remove(name, version, context) };
      }),
      aboutRuns(messages.chainRuns, async ({ state = '', name = '', after = '', limit = PAGE }, context) => {
        const behind = after === '' ? undefined : placeOf(after);
        const page = new Page<RunView>(Math.min(limit, MAX_PAGE));
        for (const run of runs.list(context, behind)) {
          while (turns.over) await turns.next();
          const shown = runView(run);
          if ((state !== '' && shown.state !== state) || (name !== '' && shown.name !== name)) continue;
          if (!page.add(runView(await runs.seen(run, context)))) break;
        }
        return { runs: page.page, ...(page.more && { next: cursorOf(page.page.at(-1) as RunView) }) };
      }),
      aboutRuns(messages.chainStatus, async ({ chain_id: chainId, definition, outputs, from = 0 }, context) => {
        const known = (await runs.settled(chainId, context)) ?? (await runs.idle(chainId, context));
        const { nodes, entry_node } = known.definition;
        const run = runView('run' in known ? known : { ...known, durable: true, run: undefined });
        const page = statusPage(from, {
          states: 'run' in known ? nodeViews(known.run) : recoveredNodeViews(known),
          definition: definition ? nodes : undefined,
          outputs: outputs ? ('run' in known ? outputsOf(known.run) : recoveredOutputs(known)) : undefined,
        });
        return { run, ...(definition && { entry_node }), ...(await inTurns(page, turns)) };
      }),
      aboutRuns(
        messages.chainHistory,
        async ({ chain_id: chainId, after = 0, node_id: nodeId = '', limit = PAGE }, context) => {
          const run = (await runs.settled(chainId, context)) ?? runs.saved(chainId, context);
          const { store, stored, definition } = run;
          const page = new Page<ChainEntry>(Math.min(limit, MAX_PAGE));
          for (const { seq, at, entry } of readJournal(store, stored.table, after)) {
            // For one node of a long run, most entries are read and left out.
            while (turns.over) await turns.next();
            context.signal.throwIfAborted();
            const shown = entryView(definition.nodes, seq, at, entry);
            if ((nodeId === '' || shown.node_id === nodeId) && !page.add(shown)) break;
          }
          return { entries: page.page, next: page.more ? (page.page.at(-1)?.seq ?? 0) : 0 };
        },
      ),
      aboutRuns(messages.chainWatch, async ({ chain_id: chainId }, context) => {
        const active = await runs.settled(chainId, context);
        if (active === undefined) {
          const idle = await runs.idle(chainId, context);
          return idleResult(idle, await graphOf(idle.definition));
        }
        const behind = Promise.withResolvers<never>();
        behind.promise.catch(() => {});
        const following = active.run.follow(
          (event) => emitEvent(event, context),
          () =>
            behind.reject(fail('slow_consumer', 'the reader is too far behind the run; chain/history has all of it')),
        );
        try {
          const ended = await waiting(
            context,
            orAborted(Promise.race([result(active, context), behind.promise]), context.signal),
          );
          await following.sent;
          return ended;
        } finally {
          following.stop();
        }
      }),
      aboutRuns(messages.chainPause, async ({ chain_id: chainId }, context) => {
        mayWrite(context);
        const active = await running(chainId, context);
        if (!active.durable) {
          throw failure('state', 'the run is not durable: paused, it could not be resumed', { chain_id: chainId });
        }
        active.run.stop('paused');
        await orAborted(active.ended, context.signal);
        await active.journal.kept();
        return { run: await view(chainId, context) };
      }),
      aboutRuns(messages.chainResume, async ({ chain_id: chainId, ...decisions }, context) => {
        mayWrite(context);
        const startedAt = performance.now();
        return result(await runs.resume(chainId, decisions, context), context, startedAt);
      }),
      aboutRuns(messages.chainRetry, async ({ chain_id: chainId, node_id: nodeId, ...decisions }, context) => {
        mayWrite(context);
        const startedAt = performance.now();
        return result(await runs.retry(chainId, nodeId, decisions, context), context, startedAt);
      }),
      aboutRuns(messages.chainCancel, async ({ chain_id: chainId, reason = '' }, context) => {
        mayWrite(context);
        const stored = await runs.cancel(chainId, reason, context);
        return { run: runView({ stored, durable: true, run: undefined }) };
      }),
      aboutRuns(messages.chainApprove, async (request, context) => {
        mayWrite(context);
        const { chain_id: chainId, node_id: nodeId, approved, note = '', owner = '' } = request;
        const { principal, agentId: by } = context.session;
        const isOthers = owner !== '' && owner !== principal.name;
        const active = isOthers ? runs.activeOf(owner, chainId) : await running(chainId, context);
        // A run that does not ask this principal is unknown to the principal.
        if (active === undefined || (isOthers && !asks(active, nodeId, context))) throw unknownRun(chainId);
        const wait = active.run.steps.waits.get(nodeId);
        const { approval, by: allowed } = wait?.planned.node.wait ?? {};
        if (wait === undefined || approval === undefined) {
          throw failure('unknown_node', `no node ${JSON.stringify(nodeId.slice(0, 64))} waits for an approval`, {
            node_id: nodeId.slice(0, 64),
          });
        }
        if (!isOthers) mustNotBeRunner(allowed, nodeId);
        const who = { by, ...(isOthers && { principal: principal.name }) };
        if (approved) wait.end({ output: { approved, note, ...who } });
        else wait.end({ error: failure('denied', note || `${by} did not approve`, who) });
        await active.journal.kept();
        return { run: isOthers ? runView(active) : await view(chainId, context) };
      }),
      handle(messages.chainApprovals, async ({ limit = PAGE }, context) => {
        const page = new Page<ChainApproval>(Math.min(limit, MAX_PAGE));
        for (const question of questions(runs.allActive(), context)) {
          while (turns.over) await turns.next();
          if (question !== undefined && !page.add(question)) break;
        }
        return { approvals: page.page, more: page.more };
      }),
      aboutRuns(messages.chainDeliver, async ({ chain_id: chainId, event, data = null }, context) => {
        mayWrite(context);
        const nodes = await runs.deliver(chainId, event, data, context);
        return { run: await view(chainId, context), nodes };
      }),
    ],
  });

  function read(definition: Definition, started = false) {
    return inTurns(readingChain(definition, { limits: chainLimits, started }), turns);
  }

  async function graphOf(definition: Definition): Promise<ChainGraph> {
    const { graph, problems } = await read(definition, true);
    if (graph !== undefined) return graph;
    const { message, detail } = problemError(problems);
    throw failure('invalid', message, detail);
  }
}

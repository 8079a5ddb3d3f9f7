/**
 * The runs of a host: starts, continues and ends them, finds the run that a request names, and stores the state that must
 * survive.
 *
 * A run belongs to a principal; its agents share it. It runs as a request of the agent that started or resumed it: with the
 * rights of that session, until that request ends. A durable run whose request or host ended before it is `interrupted`, and
 * continues when an agent of that principal resumes it. A subagent reaches only the runs that it started: it acts for the
 * principal of the agent above, whose runs have rights and questions that the subagent does not have.
 */

import { counted } from '../../base/counted.ts';
import { orAborted } from '../../base/race.ts';
import { parseTimestamp } from '../../base/timestamp.ts';
import { inTurns, type Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import type { Store } from '../../host/store/store.ts';
import { asError, fail, HandfastError } from '../../wire/errors.ts';
import { callNode } from './calls.ts';
import type { ChainError } from './chains.schema.ts';
import type { ChainGraph } from './definition/graph.ts';
import { emitEvent } from './emit-event.ts';
import { errorOf, type RunDeps } from './engine/contract.ts';
import { deleteJournal, type Entry, RunJournal, readJournal } from './engine/journal.ts';
import { OutputChars } from './engine/output-chars.ts';
import { type Recovered, recovering } from './engine/recovery.ts';
import { ChainRun, type RunResult } from './engine/run.ts';
import { undoesWhenStopped } from './engine/undoing.ts';
import { failure } from './errors.ts';
import type { ChainsGrant } from './offer.ts';
import { RunIndex } from './run-index.ts';
import { newestFirst, type Place } from './run-order.ts';
import { mustBeRunId, ofOwner, reachableFrom, reaches, unknownNode, unknownRun, withEntries } from './run-parts.ts';
import { RunWork } from './run-work.ts';
import { type Definition, definitionKey, runKey, type StoredDefinition, type StoredRun } from './stored.ts';
import { decidedNodes, type NodeDecisions } from './uncertain.ts';

export interface RunsDeps {
  /** Reads a stored definition, which was valid when it was stored. */
  readonly graphOf: (definition: Definition) => Promise<ChainGraph>;
  readonly checkOutput: RunDeps['checkOutput'];
  /** Stored runs of one principal; the oldest that ended are deleted past it. */
  readonly maxRuns: number;
  /** Concurrent runs of one principal. */
  readonly maxRunning: number;
  /** Highest `max_parallel`. */
  readonly maxParallel: number;
  readonly maxOutputChars: number;
  readonly maxItems: number;
  readonly newId: () => string;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly random: () => number;
  readonly turns: Turns;
}

/** The parameters of a new run. */
export interface Start {
  readonly chainId: string;
  readonly definition: Definition;
  readonly graph: ChainGraph;
  readonly input: Readonly<Record<string, unknown>>;
  readonly name: string;
  readonly version: number;
  readonly durable: boolean;
  readonly correlationId: string;
}

export interface ActiveRun {
  stored: StoredRun;
  readonly durable: boolean;
  readonly definition: Definition;
  readonly run: ChainRun;
  readonly store: Store;
  readonly journal: RunJournal;
  /** Resolves when the run has stopped and its end is stored. Never rejects. */
  readonly ended: Promise<RunResult>;
}

/** A stored run that does not run. */
export interface IdleRun {
  readonly stored: StoredRun;
  readonly definition: Definition;
  readonly input: Readonly<Record<string, unknown>>;
  readonly recovered: Recovered;
  readonly store: Store;
}

/** A run in a list. */
export interface ListedRun {
  readonly stored: StoredRun;
  readonly durable: boolean;
  /** The run in memory; undefined: it does not run. */
  readonly run: ChainRun | undefined;
}

/** Decisions of a resumer on nodes that may have run, and on the limits of the run. */
export interface Decisions extends NodeDecisions {
  /** Longest run from now on, seconds. */
  readonly timeout?: number | undefined;
  /** The total that the run may use, where it differs from the amount before. */
  readonly budget?: Definition['budget'] | undefined;
}

/** Errors after which a failed run may be resumed: a further request brings more time, or a larger budget. */
const RESUMABLE: ReadonlySet<string> = new Set(['timeout', 'chains.budget']);

export class Runs {
  readonly #deps: RunsDeps;
  /** By principal, then by chain id. */
  readonly #active = new Map<string, Map<string, ActiveRun>>();
  readonly #stored = new Map<string, RunIndex>();
  /** Principals whose runs are being read. */
  readonly #opening = new Map<string, Promise<void>>();
  /** Requests for runs, from the reading of the definition until the run has started. */
  readonly announced = new RunWork();
  /**
   * Starts, from the check that the run may start until it is in `#active`: two concurrent starts would run its nodes twice.
   */
  readonly #starting = new RunWork();
  /** Writes to runs that do not run. Nothing else starts or changes the run meanwhile. */
  readonly #changing = new RunWork();
  /** Interrupted runs whose journal was read. */
  readonly #known = new WeakSet<StoredRun>();

  constructor(deps: RunsDeps) {
    this.#deps = deps;
  }

  /** Reads the list of the principal's stored runs. A request must await it before anything else; undefined: already read. */
  opened({ session, store }: CallContext): Promise<void> | undefined {
    const { name } = session.principal;
    if (this.#stored.has(name)) return undefined;
    const known = this.#opening.get(name);
    if (known !== undefined) return known;
    const opening = this.#open(name, store.principal).finally(() => this.#opening.delete(name));
    this.#opening.set(name, opening);
    return opening;
  }

  async #open(owner: string, store: Store): Promise<void> {
    this.#stored.set(owner, await RunIndex.read(store, this.#deps.turns));
  }

  /** Yields the runs of the principal behind a position, the newest first; visits only as many as the caller takes. */
  *list(context: CallContext, behind?: Place): Generator<ListedRun> {
    const active = this.#activeOf(context);
    const volatile = [...active.values()]
      .filter(({ durable, stored }) => !durable && (behind === undefined || newestFirst(stored, behind) > 0))
      .map(({ stored }) => stored)
      .toSorted(newestFirst);
    const listed = (stored: StoredRun, durable: boolean): ListedRun[] =>
      reaches(context, stored) ? [{ stored, durable, run: active.get(stored.chain_id)?.run }] : [];
    for (const stored of this.#storedOf(context).from(behind)) {
      while (volatile[0] !== undefined && newestFirst(volatile[0], stored) < 0) {
        yield* listed(volatile.shift() as StoredRun, false);
      }
      yield* listed(stored, true);
    }
    for (const stored of volatile) yield* listed(stored, false);
  }

  active(chainId: string, context: CallContext): ActiveRun | undefined {
    const active = this.#activeOf(context).get(chainId);
    return active !== undefined && reaches(context, active.stored) ? active : undefined;
  }

  /**
   * Returns the run in memory, once nothing starts it and nothing is written to it: a request may arrive while its run starts.
   */
  async settled(chainId: string, context: CallContext): Promise<ActiveRun | undefined> {
    while (this.#underWay(chainId, context)) await orAborted(this.#underWay(chainId, context), context.signal);
    return this.active(chainId, context);
  }

  /** Returns a run of another principal in memory. */
  activeOf(owner: string, chainId: string): ActiveRun | undefined {
    return this.#active.get(owner)?.get(chainId);
  }

  /** Yields the runs in memory of all principals, with their owners. */
  *allActive(): Generator<readonly [owner: string, run: ActiveRun]> {
    for (const [owner, runs] of this.#active) for (const run of runs.values()) yield [owner, run];
  }

  /** Returns the stored data of a run that does not run, without its journal. Fails with `chains.unknown_run`. */
  saved(chainId: string, context: CallContext): Omit<IdleRun, 'recovered'> {
    const stored = this.#storedOf(context).get(chainId);
    const store = context.store.principal;
    const saved = stored && store.get<StoredDefinition>(definitionKey(chainId));
    if (stored === undefined || saved === undefined || !reaches(context, stored)) throw unknownRun(chainId);
    return { stored, definition: saved.definition, input: saved.initial_input, store };
  }

  /** Returns a run that does not run. Fails with `chains.unknown_run`. */
  async idle(chainId: string, context: CallContext): Promise<IdleRun> {
    const { stored, ...saved } = this.saved(chainId, context);
    const recovered = await inTurns(recovering(readJournal(saved.store, stored.table)), this.#deps.turns);
    return { ...saved, stored: this.#counted(stored, recovered, context), recovered };
  }

  /** Returns an interrupted run with the counts of its journal: its stored counts are from its start. */
  #counted(stored: StoredRun, { nodes, calls, tokens, usd }: Recovered, context: CallContext): StoredRun {
    if (stored.state !== 'running' || this.#known.has(stored)) return stored;
    const ended = [...nodes.values()].filter(({ outcome }) => outcome !== undefined).length;
    const counted: StoredRun = { ...stored, nodes_ended: ended, usage: { nodes: calls, tokens, usd } };
    this.#known.add(counted);
    if (this.#storedOf(context).get(stored.chain_id) === stored) this.#storedOf(context).set(counted);
    return counted;
  }

  /** Returns the run with its counts, read from its journal if the run was interrupted. */
  async seen(run: ListedRun, context: CallContext): Promise<ListedRun> {
    const { chain_id: id, state } = run.stored;
    if (run.run !== undefined || state !== 'running' || this.#known.has(run.stored)) return run;
    if (this.#storedOf(context).get(id) !== run.stored) return run;
    return { ...run, stored: (await this.idle(id, context)).stored };
  }

  /** Starts a run. Fails with `chains.exists`, `chains.full`, and with the errors of the store. */
  async start(start: Start, context: CallContext): Promise<ActiveRun> {
    const { chainId } = start;
    mustBeRunId(chainId);
    while (this.#changing.of(chainId, context)) await orAborted(this.#changing.of(chainId, context), context.signal);
    this.#mayRun(context);
    const known = this.#storedOf(context).get(chainId);
    const runs = this.#activeOf(context).has(chainId) || this.#starting.of(chainId, context) !== undefined;
    const isOthers = known !== undefined && !reaches(context, known);
    if (runs || isOthers || known?.state === 'running' || known?.state === 'paused') {
      throw failure(
        'exists',
        `the run ${JSON.stringify(chainId)} has not ended; resume or cancel it, or use another chain_id`,
        {
          chain_id: chainId,
          state: known?.state ?? 'running',
        },
      );
    }
    return this.#starting.do(chainId, context, () => this.#start(start, known, context));
  }

  async #start(start: Start, known: StoredRun | undefined, context: CallContext): Promise<ActiveRun> {
    const { chainId, definition, graph, input, durable } = start;
    const all = this.#storedOf(context);
    const stored: StoredRun = {
      chain_id: chainId,
      agent: context.session.agentId,
      name: start.name,
      version: start.version,
      state: 'running',
      nodes_total: definition.nodes.length,
      nodes_ended: 0,
      started_at: this.#deps.now() / 1000,
      ended_at: null,
      error: null,
      usage: { nodes: 0 },
      success: false,
      table: `run-${this.#deps.newId()}`,
      correlation_id: start.correlationId,
    };
    const store = context.store.principal;
    if (durable) {
      if (known !== undefined) await this.#delete(known, context);
      all.set(stored);
      try {
        await this.#makeRoom(context);
        await store.atomically(() => {
          void store.set(runKey(chainId), stored);
          void store.set(definitionKey(chainId), { definition, initial_input: input } satisfies StoredDefinition);
        });
      } catch (error) {
        all.delete(chainId);
        throw error;
      }
    }
    return this.#run({ stored, definition, graph, input, store, durable, recovered: undefined, entries: [] }, context);
  }

  /**
   * Continues a run that was interrupted, paused or cancelled, or ran out of time or budget. Fails with `chains.state`,
   * `chains.unknown_run`, `chains.uncertain`.
   */
  async resume(chainId: string, decisions: Decisions, context: CallContext): Promise<ActiveRun> {
    while (this.#underWay(chainId, context)) await orAborted(this.#underWay(chainId, context), context.signal);
    this.#mayContinue(chainId, context);
    return this.#starting.do(chainId, context, async () => {
      const idle = await this.idle(chainId, context);
      const { state, error, ended_at: endedAt } = idle.stored;
      const undid = endedAt !== null && idle.recovered.failed?.compensates === true;
      if (undid || state === 'done' || (state === 'failed' && !RESUMABLE.has(error?.code ?? ''))) {
        const how = undid ? `${state}, and its work was undone` : state;
        throw failure('state', `the run has ended (${how}); chain/retry/req runs it again from a node on`, {
          chain_id: chainId,
          state,
        });
      }
      return this.#continue(idle, [], decisions, context);
    });
  }

  /**
   * Runs a node, the undone nodes, and all nodes behind them again. Fails as {@link resume} does, and with
   * `chains.unknown_node`.
   */
  async retry(chainId: string, nodeId: string, decisions: Decisions, context: CallContext): Promise<ActiveRun> {
    while (this.#underWay(chainId, context)) await orAborted(this.#underWay(chainId, context), context.signal);
    this.#mayContinue(chainId, context);
    return this.#starting.do(chainId, context, async () => {
      const idle = await this.idle(chainId, context);
      const graph = await this.#deps.graphOf(idle.definition);
      const at = graph.indexOf.get(nodeId);
      if (at === undefined || graph.nodes[at]?.scheduled !== true) throw unknownNode(nodeId);
      // The effects of undone nodes are gone, so the nodes that run again cannot use them.
      const undone = [...idle.recovered.nodes].flatMap(([index, { compensated, undoError }]) =>
        compensated === 'done' && undoError === undefined ? [index] : [],
      );
      const reset: Entry = { p: 'reset', nodes: [...reachableFrom(graph, [at, ...undone])] };
      return this.#continue(idle, [reset], decisions, context);
    });
  }

  /** Ends a run; undoes its nodes before that, where its chain requires it. Fails with `chains.unknown_run`, `chains.state`. */
  async cancel(chainId: string, reason: string, context: CallContext): Promise<StoredRun> {
    const error = { code: 'cancelled', message: reason || 'the run was cancelled' };
    while (this.#underWay(chainId, context)) await orAborted(this.#underWay(chainId, context), context.signal);
    const active = this.active(chainId, context);
    active?.run.stop('cancelled', error);
    const cancelled =
      active ?? (await this.#changing.do(chainId, context, () => this.#cancelIdle(chainId, error, context)));
    await orAborted(cancelled.ended, context.signal);
    await active?.journal.kept();
    return cancelled.stored;
  }

  /** Resolves when the run is stored as cancelled, or undoes its nodes: it continues for that, and starts no further node. */
  async #cancelIdle(
    chainId: string,
    error: ChainError,
    context: CallContext,
  ): Promise<Pick<ActiveRun, 'stored'> & Partial<Pick<ActiveRun, 'ended'>>> {
    const idle = await this.idle(chainId, context);
    const { stored, store, recovered, definition } = idle;
    if (stored.state !== 'running' && stored.state !== 'paused') {
      throw failure('state', `the run has ended (${stored.state})`, { chain_id: chainId, state: stored.state });
    }
    // An older version may have accepted a definition that is invalid now: its run ends without undoing.
    const graph = await this.#deps.graphOf(definition).catch(() => undefined);
    if (graph !== undefined && undoesWhenStopped(graph, recovered)) {
      this.#mayRun(context);
      const stop: Entry = { p: 'stop', name: 'cancelled', e: error, policy: 'compensate' };
      const entries = recovered.failed === undefined ? [stop] : [];
      return this.#starting.do(chainId, context, () => this.#continue(idle, entries, {}, context));
    }
    const ended: StoredRun = { ...stored, state: 'cancelled', ended_at: this.#deps.now() / 1000, error };
    const journal = this.#journal(store, stored.table, recovered.seq, () => {});
    journal.append({ p: 'end', name: 'cancelled', e: error });
    await journal.close(() => void store.set(runKey(chainId), ended));
    this.#storedOf(context).set(ended);
    return { stored: ended };
  }

  /** Delivers an event. Resolves with the number of nodes that waited for it, once the event is on disk. */
  async deliver(chainId: string, name: string, data: unknown, context: CallContext): Promise<number> {
    while (this.#underWay(chainId, context)) await orAborted(this.#underWay(chainId, context), context.signal);
    const active = this.active(chainId, context);
    if (active !== undefined) {
      const ended = active.run.deliver(name, data);
      await active.journal.kept();
      return ended;
    }
    return this.#changing.do(chainId, context, async () => {
      const { stored, store, recovered } = await this.idle(chainId, context);
      if (stored.ended_at !== null) {
        throw failure('state', `the run has ended (${stored.state})`, { chain_id: chainId, state: stored.state });
      }
      new OutputChars(this.#deps.maxOutputChars, recovered).countEvent(name, data);
      const journal = this.#journal(store, stored.table, recovered.seq, () => {});
      journal.append({ p: 'deliver', name, o: data });
      await journal.close();
      return 0;
    });
  }

  /**
   * Resolves when the work on a run has ended; undefined: none is under way. A caller that awaits it until it is undefined
   * comes before all others, up to its next await. A cancelled request stops awaiting it, and then changes nothing.
   */
  #underWay(chainId: string, context: CallContext): Promise<void> | undefined {
    const writing = this.#changing.of(chainId, context);
    return writing ?? this.#starting.of(chainId, context) ?? this.announced.of(chainId, context);
  }

  #mayContinue(chainId: string, context: CallContext): void {
    this.#mayRun(context);
    if (this.active(chainId, context) !== undefined) {
      throw failure('state', 'the run is running; pause or cancel it first', { chain_id: chainId, state: 'running' });
    }
    this.saved(chainId, context);
  }

  async #continue(
    { stored, definition, input, store, recovered }: IdleRun,
    entries: readonly Entry[],
    decisions: Decisions,
    context: CallContext,
  ): Promise<ActiveRun> {
    const { turns } = this.#deps;
    const { timeout = definition.timeout, budget } = decisions;
    const graph = await this.#deps.graphOf(definition);
    const journal = readJournal(store, stored.table);
    const known =
      entries.length === 0
        ? recovered
        : await inTurns(recovering(withEntries(journal, recovered.seq, entries, this.#deps.now())), turns);
    const { maxOutputChars, checkOutput } = this.#deps;
    const decided = await decidedNodes(graph, known, decisions, { context, maxOutputChars, checkOutput });
    if (decided instanceof HandfastError) {
      const paused: StoredRun = { ...stored, state: 'paused', error: errorOf(decided) };
      await store.set(runKey(stored.chain_id), paused);
      this.#storedOf(context).set(paused);
      throw decided;
    }
    const all = [{ p: 'resume', name: context.session.agentId } as const, ...entries, ...decided];
    const running: StoredRun = { ...stored, state: 'running', ended_at: null, error: null, success: false };
    await store.set(runKey(stored.chain_id), running);
    this.#storedOf(context).set(running);
    const journaled = readJournal(store, stored.table);
    const after = await inTurns(recovering(withEntries(journaled, recovered.seq, all, this.#deps.now())), turns);
    const more = { recovered: { ...after, seq: recovered.seq }, entries: all, durable: true };
    const chain = { ...definition, timeout, budget: { ...definition.budget, ...budget } };
    return this.#run({ stored: running, definition: chain, graph, input, store, ...more }, context);
  }

  /** Fails with `chains.full` when the principal has reached its maximum of concurrent runs. */
  #mayRun(context: CallContext): void {
    const { max_running: max = this.#deps.maxRunning } = (context.grant ?? {}) as ChainsGrant;
    const active = this.#activeOf(context);
    const size = active.size + this.#starting.count(context, active);
    if (size < max) return;
    throw failure(
      'full',
      `${counted(size, 'run of this principal is', 'runs of this principal are')} running, as many as may be`,
      {
        limit: 'max_running',
        max,
      },
    );
  }

  /** Runs a chain as the request of `context`. */
  #run(
    given: Pick<IdleRun, 'definition' | 'input' | 'store'> & {
      readonly stored: StoredRun;
      readonly graph: ChainGraph;
      readonly durable: boolean;
      readonly recovered: Recovered | undefined;
      readonly entries: readonly Entry[];
    },
    context: CallContext,
  ): ActiveRun {
    const { stored, definition, graph, input, store, durable, recovered, entries } = given;
    const { checkOutput, maxOutputChars, maxItems, now, random, turns, maxParallel } = this.#deps;
    const active = this.#activeOf(context);
    const journal = this.#journal(durable ? store : undefined, stored.table, recovered?.seq ?? 0, (error) =>
      run.lost(errorOf(asError(error))),
    );
    const deadline = parseTimestamp(definition.deadline) ?? Number.POSITIVE_INFINITY;
    const run: ChainRun = new ChainRun({
      graph,
      input,
      journal,
      recovered,
      checkOutput,
      now,
      random,
      turns,
      limits: {
        maxParallel: Math.min(definition.max_parallel, maxParallel),
        timeoutMs: Math.min(definition.timeout * 1000, deadline - now()),
        budget: definition.budget,
        maxOutputChars,
        maxItems,
      },
      yieldSlot: () => context.yieldSlot(),
      // The table differs for each run, also of the same id.
      call: (node, given, call) => callNode(context, node, given, { ...call, key: `${stored.table}-${call.key}` }),
    });
    for (const entry of entries) journal.append(entry);
    run.follow((event) => emitEvent(event, context));
    const lost = (): void => {
      const { code, message } = asError(context.signal.reason);
      // A run that undoes nodes also ends with the request, and is interrupted, so that it can be resumed.
      if (code === 'cancelled' && !run.isUndoing) run.stop('cancelled', { code, message });
      if (code !== 'cancelled' || run.isUndoing) run.stop('interrupted', { code, message });
    };
    const { promise: ended, resolve } = Promise.withResolvers<RunResult>();
    const one: ActiveRun = { stored, durable, definition, run, store, journal, ended };
    active.set(stored.chain_id, one);
    context.signal.addEventListener('abort', lost, { once: true });
    void run.run().then(async (result) => {
      context.signal.removeEventListener('abort', lost);
      resolve(await this.#ended(one, result, context));
    });
    if (context.signal.aborted) lost();
    return one;
  }

  /** Stores the end of a run. Resolves with its result; where the end could not be stored the run is interrupted. */
  async #ended(one: ActiveRun, result: RunResult, context: CallContext): Promise<RunResult> {
    const { state, success, error, usage } = result;
    const { stored, run, store, durable, journal } = one;
    const isOver = state !== 'paused' && state !== 'interrupted';
    const now: StoredRun = {
      ...stored,
      state: state === 'interrupted' ? 'running' : state,
      nodes_ended: run.nodesEnded,
      ended_at: isOver ? this.#deps.now() / 1000 : null,
      error: error ?? null,
      usage,
      success,
    };
    const { chain_id } = stored;
    const end = durable ? journal.close(() => void store.set(runKey(chain_id), now)) : Promise.resolve();
    return end.then(
      () => {
        one.stored = now;
        if (durable) this.#storedOf(context).set(now);
        this.#activeOf(context).delete(chain_id);
        return result;
      },
      (thrown: unknown) => {
        // As after a kill: the stored run has no end, and its journal may have entries that its counts lack.
        one.stored = { ...stored };
        this.#storedOf(context).set(one.stored);
        this.#activeOf(context).delete(chain_id);
        return { ...result, state: 'interrupted', success: false, error: errorOf(asError(thrown)) };
      },
    );
  }

  #journal(store: Store | undefined, table: string, seq: number, failed: (error: unknown) => void): RunJournal {
    return new RunJournal({ store, table, now: this.#deps.now, failed }, seq);
  }

  /** Deletes the oldest ended runs, so that one more run may be stored. Fails with `chains.full`. */
  async #makeRoom(context: CallContext): Promise<void> {
    const all = this.#storedOf(context);
    if (all.size <= this.#deps.maxRuns) return;
    // A run that is about to run again has not ended.
    let oldest: StoredRun | undefined;
    for (const run of all.oldest()) {
      if (run.ended_at === null || this.#underWay(run.chain_id, context)) continue;
      oldest = run;
      break;
    }
    if (oldest === undefined) {
      throw failure(
        'full',
        `${counted(all.size - 1, 'run of this principal has', 'runs of this principal have')} not ended; resume or cancel some`,
        {
          limit: 'max_runs',
          max: this.#deps.maxRuns,
        },
      );
    }
    await this.#delete(oldest, context);
  }

  async #delete({ chain_id, table }: StoredRun, context: CallContext): Promise<void> {
    const store = context.store.principal;
    this.#storedOf(context).delete(chain_id);
    // Deletes the journal in several transactions, then the run and its definition in one.
    await deleteJournal(store, table);
    await store.atomically(() => {
      void store.delete(runKey(chain_id));
      void store.delete(definitionKey(chain_id));
    });
  }

  #activeOf({ session }: CallContext): Map<string, ActiveRun> {
    return ofOwner(this.#active, session.principal.name, () => new Map<string, ActiveRun>());
  }

  /** Returns the index of a principal whose runs were {@link opened}. */
  #storedOf({ session }: CallContext): RunIndex {
    const found = this.#stored.get(session.principal.name);
    if (found === undefined) throw fail('usage', 'the runs of the principal were not opened');
    return found;
  }
}

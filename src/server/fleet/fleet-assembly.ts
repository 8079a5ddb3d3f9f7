/**
 * Builds a fleet from its configuration: the orchestrator, its buses, the workers of this process, and the RPC methods and
 * HTTP routes that reach them.
 *
 * For `handfast fleet up`.
 */
import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
import type { ShareUsage } from '../../base/share-usage.ts';
import { noteLoss } from '../../base/sqlite/losses.ts';
import type { HostConfig } from '../../config/config.ts';
import type { FleetConfig } from '../../config/fleet-config.ts';
import type { Dialect } from '../../connection/accept.ts';
import type { Backend } from '../../control/contract/backend.ts';
import type { Handled } from '../../control/contract/handlers.ts';
import type { ControlServer } from '../../control/control-server.ts';
import { RPC_PATH } from '../../fleet/bus/http/messages.ts';
import { httpPeerBus } from '../../fleet/bus/http/orchestrator-bus.ts';
import { inProcessBus } from '../../fleet/bus/in-process.ts';
import type { OrchestratorBus } from '../../fleet/bus/peer.ts';
import { CARD_PATH } from '../../fleet/bus/plain/card.ts';
import { streamBus } from '../../fleet/bus/stream/stream-bus.ts';
import { createOrchestrator } from '../../fleet/orchestrator/orchestrator.ts';
import type { Orchestrator } from '../../fleet/orchestrator/orchestrator-options.ts';
import { sqliteTaskStore } from '../../fleet/orchestrator/store-sqlite.ts';
import type { TaskStore } from '../../fleet/orchestrator/task.ts';
import type { StateDatabase } from '../../host/store/store.ts';
import type { Journal } from '../../journal/journal.ts';
import { type Amount, JournalShares } from '../../journal/shares.ts';
import { sqliteJournal } from '../../journal/sqlite/sqlite.ts';
import type { Authenticator } from '../../session/auth.ts';
import type { AuthThrottle } from '../../session/auth-throttle.ts';
import type { TrafficShares } from '../../session/traffic-shares.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { ServerRoute } from '../http/server-route.ts';
import { reportDamage, reportReplaced } from '../journal-damage.ts';
import { fleetHandlers } from './fleet-handlers.ts';
import { fleetNats } from './fleet-nats.ts';
import { type FleetTasks, fleetTasks } from './fleet-tasks.ts';
import { repositoryHere } from './running-workers.ts';
import { secretReader } from './secret-reader.ts';
import { TaskSessions } from './task-sessions.ts';
import { type AssembledWorker, assembleWorker } from './worker-assembly.ts';

const DAY_MS = 86_400_000;
/** The HTTP routes that receivers of earlier versions call at an orchestrator. */
const ROUTES = [
  ['POST', RPC_PATH, 'messages'],
  ['GET', CARD_PATH, 'none'],
] as const;
/** Open tasks of one receiver among which the one it replies to is looked for after a restart. */
const MAX_RECALLED = 1_000;
/** Retention of the events of one task: a long run reports progress many times. */
const RETENTION = { maxEntries: 20_000, maxBytes: 32 * 1024 * 1024 };

export interface FleetAssemblyOptions {
  /** Shares of submitters. */
  readonly limits: Pick<HostConfig['limits'], 'maxOpenTasksPerPrincipal' | 'taskBytes' | 'totalTaskBytes'>;
  readonly auth: Authenticator;
  readonly authThrottle: AuthThrottle;
  readonly traffic: TrafficShares;
  readonly log: Log;
  readonly version: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Aborts the wait of a standby for the leader lease. */
  readonly signal?: AbortSignal;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** A fleet whose data is open and that accepts no connections yet. */
export interface AssembledFleet {
  readonly name: string;
  readonly orchestrator: Orchestrator;
  /** Names of the workers of this process. */
  readonly workers: readonly string[];
  /** Returns the usage that principals have of the shares of the fleet, by share. */
  shares(): Promise<Readonly<Record<string, ShareUsage>>>;
  /** Its tasks, for subagents of the host of this process. */
  readonly tasks: FleetTasks;
  /** Methods for session RPC. */
  readonly handlers: readonly Handled[];
  /** Runs the sessions of tasks. */
  readonly backend: Backend;
  /** Serves workers on stream links. */
  readonly dialect: Dialect;
  /** Routes that receivers of earlier versions call. */
  readonly routes: readonly ServerRoute[];
  /** Starts orchestrator and workers. Tasks become sessions of `control`. */
  start(control: ControlServer): Promise<void>;
  /** Resolves when the fleet ends by itself: another orchestrator of its name took over. Never rejects. */
  readonly ended: Promise<HandfastError>;
  /**
   * Stops accepting tasks at the workers of this process; resolves when their running tasks ended. Unbounded, never rejects.
   */
  drain(): Promise<void>;
  /** Stops everything in order; open tasks stay stored. Idempotent, bounded, never rejects. */
  stop(): Promise<void>;
}

/**
 * Opens the data of a fleet and makes its parts. With tasks stored on NATS this waits, as a standby, while another orchestrator
 * of the name is the leader.
 *
 * Fails with `journal_locked` when another process has opened the data, `config_invalid`, `not_configured`. A failure closes
 * everything again.
 */
export async function assembleFleet(config: FleetConfig, options: FleetAssemblyOptions): Promise<AssembledFleet> {
  const { limits, log, auth, authThrottle, traffic, version, env = process.env, signal, now = Date.now } = options;
  const { name } = config;
  const closing: (() => unknown)[] = [];
  const closeAll = async (): Promise<void> => {
    for (const close of closing.splice(0).toReversed()) {
      try {
        await close();
      } catch (error) {
        log.error('a part of the fleet did not close cleanly', { error });
      }
    }
  };
  try {
    // The lock of the journal also reserves the data folder for this process.
    const { maxOpenTasksPerPrincipal, taskBytes, totalTaskBytes } = limits;
    const events = new JournalShares({ perOwner: bytesOf(taskBytes), total: bytesOf(totalTaskBytes) });
    const journal = await openJournal(config, events, log);
    closing.push(() => journal.close());
    const nats = await fleetNats(config, { log, env, ...(signal && { signal }) });
    closing.push(() => nats?.close());
    const store = nats?.store ?? (await openTasks(config, log, now));
    closing.push(() => store.close());
    const learned = config.routing.learn ? await openLearned(config, log, now) : undefined;
    closing.push(() => learned?.close());
    const assembled: AssembledWorker[] = [];
    for (const each of config.workers) {
      const one = await assembleWorker(each, { log: logOf(log, each.id), version, env, trust: config.trust, now });
      assembled.push(one);
      closing.push(() => one.stop());
    }
    const workers = assembled.map(({ worker }) => worker);
    const taken = new Set([...config.workers, ...config.peers].map(({ id }) => id));
    const stream = streamBus({ name, auth, authThrottle, traffic, log, leaseTtlS: config.leaseTtlS, taken });
    const local = inProcessBus(nats === undefined ? workers : [], { log });
    const upstream = httpPeerBus({
      name,
      peers: config.peers
        .filter(({ kind }) => kind === 'receiver')
        .map((peer) => ({ name: peer.id, url: peer.url, token: secretReader(peer, env) })),
      auth,
      authThrottle,
      traffic,
      log,
      url: () => config.listen.find((address) => address.startsWith('http')) ?? '',
      version,
      recall: async (peerId, contextId) => {
        const open = await store.find({ worker: peerId, states: ['sent', 'accepted', 'running'], limit: MAX_RECALLED });
        // A task that names no conversation has a separate one.
        const task = open.find(({ task_id, spec }) => (spec.context_id ?? task_id) === contextId);
        if (task === undefined) return undefined;
        return { taskId: task.task_id, attempt: task.attempt, replySchema: task.spec.reply_schema };
      },
    });
    const a2a = await a2aOf(config, { log, env });
    const buses: readonly OrchestratorBus[] = [
      local,
      stream,
      upstream,
      ...[a2a, nats?.bus].filter((bus) => bus !== undefined),
    ];
    const sessions = new TaskSessions({ name, keep: config.keepTaskSessions, journal, log });
    const orchestrator = createOrchestrator({
      name,
      store,
      journal,
      buses,
      routePolicy: {
        ttl_s: config.routing.ttlS,
        default_max_concurrent: config.routing.defaultMaxConcurrent,
        min_lead_s: config.routing.minLeadS,
        unverified: config.routing.unverified,
        tiers: config.routing.tiers,
      },
      blockedPolicy: {
        max_reroutes: config.blockedPolicy.maxReroutes,
        max_retries: config.blockedPolicy.maxRetries,
        backoff_s: config.blockedPolicy.backoffS,
        table: config.blockedPolicy.table,
      },
      hooks: config.routing.hooks,
      learn: config.routing.learn,
      ...(learned && { learnedIn: learned.plugin('routing', {}).shared }),
      inlineHints: config.inlineHints,
      leaseTtlS: config.leaseTtlS,
      plainPeerTimeoutS: config.plainPeerTimeoutS,
      joinGraceMs: config.joinGraceS * 1000,
      repositories: repositoriesOf(config),
      findRepository: (worker) => repositoryHere(config.home, worker),
      askUser: (question, task, signal) => sessions.ask(question, task, signal),
      sessionOf: (task) => sessions.sessionOf(task),
      maxOpenTasks: config.maxOpenTasks,
      submitterLimits: {
        openTasks: maxOpenTasksPerPrincipal,
        storedBytes: taskBytes,
        totalStoredBytes: totalTaskBytes,
      },
      retainMs: config.retainDays * DAY_MS,
      maxTasks: config.maxTasks,
      log,
      now,
    });
    const stopping = new AbortController();
    let stopped: Promise<void> | undefined;
    return {
      name,
      orchestrator,
      workers: workers.map(({ agentId }) => agentId),
      shares: async () => ({
        ...(await orchestrator.shares()),
        task_event_bytes: events.usage.journal_bytes,
      }),
      tasks: fleetTasks(orchestrator, journal),
      handlers: fleetHandlers({ name, orchestrator, buses: busNames(config), journal, stopping: stopping.signal }),
      backend: sessions.backend,
      dialect: stream.dialect,
      routes: ROUTES.map(([method, path, needs]) => ({
        method,
        path,
        needs,
        handle: (request, response) => upstream.handle(request, response),
      })),
      ended: nats === undefined ? new Promise(() => {}) : failureOf(nats.bus.closed),
      async start(control) {
        await sessions.open(control, orchestrator);
        await Promise.all(assembled.map((one) => one.start()));
        await orchestrator.start();
        if (nats === undefined) return;
        for (const worker of workers) {
          const member = nats.join(worker);
          closing.push(() => member.close());
        }
      },
      async drain() {
        await Promise.allSettled(workers.map((worker) => worker.drain('stopping')));
      },
      stop() {
        stopping.abort(fail('interrupted', 'the fleet is stopping; open tasks continue after its next start'));
        const ending = stopped ?? orchestrator.close().then(closeAll);
        stopped = ending;
        return ending;
      },
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Returns a log that adds the name of the worker to each entry. */
function logOf(log: Log, worker: string): Log {
  return {
    debug: (message, fields) => log.debug(message, { worker, ...fields }),
    info: (message, fields) => log.info(message, { worker, ...fields }),
    warn: (message, fields) => log.warn(message, { worker, ...fields }),
    error: (message, fields) => log.error(message, { worker, ...fields }),
  };
}

/** Makes the bus to A2A agents; undefined without such peers. */
async function a2aOf(
  { peers }: FleetConfig,
  { log, env }: Required<Pick<FleetAssemblyOptions, 'log' | 'env'>>,
): Promise<OrchestratorBus | undefined> {
  const agents = peers.filter(({ kind }) => kind === 'a2a');
  if (agents.length === 0) return undefined;
  const { a2aBus } = await import('../../fleet/bus/a2a/orchestrator-bus.ts');
  return a2aBus({
    peers: agents.map((peer) => ({ name: peer.id, url: peer.url, token: secretReader(peer, env) })),
    log,
  });
}

/** Resolves with the error that a bus ended with; pending for a bus that was closed. */
function failureOf(ended: Promise<HandfastError | undefined>): Promise<HandfastError> {
  return new Promise((resolve) => {
    void ended.then((error) => error !== undefined && resolve(error));
  });
}

const busNames = ({ natsServers }: FleetConfig): readonly string[] =>
  natsServers.length === 0 ? ['in-process'] : natsServers;

function openTasks({ dataDir }: FleetConfig, log: Log, now: () => number): Promise<TaskStore> {
  return sqliteTaskStore({
    file: join(dataDir, 'tasks.db'),
    now,
    onCorrupt: ({ reason, movedTo }) =>
      log.error('quarantined a damaged task store; started a new one', { reason, movedTo }),
    onLoss: (loss) => noteLoss(log, loss),
  });
}

/** Opens the store of learned routing: the one that plugins have, in a separate file. */
async function openLearned({ dataDir }: FleetConfig, log: Log, now: () => number): Promise<StateDatabase> {
  const { openStateDatabase } = await import('../../host/store/database.ts');
  return openStateDatabase({
    file: join(dataDir, 'learned.db'),
    what: 'the store of what routing learned',
    now,
    onCorrupt: ({ reason, movedTo }) =>
      log.error('quarantined a damaged store of what routing learned; learning starts again', { reason, movedTo }),
    onLoss: (loss) => noteLoss(log, loss),
  });
}

/** Returns a bound of bytes alone: each task has its own bound of entries. */
const bytesOf = (bytes: number): Amount => ({ bytes, entries: Number.POSITIVE_INFINITY });

function openJournal(
  { dataDir, retainDays, maxOpenTasks }: FleetConfig,
  shares: JournalShares,
  log: Log,
): Promise<Journal> {
  const file = join(dataDir, 'events.db');
  return sqliteJournal({
    file,
    retention: RETENTION,
    shares,
    // The task store may still know a task whose events are lost.
    namesReturn: true,
    onDamaged: reportDamage(log, file, 'the journal of task events'),
    expiry: { maxAgeMs: retainDays * DAY_MS, maxSessions: 2 * maxOpenTasks, retains: () => false },
    onCorrupt: reportReplaced(log, file, 'the journal of task events'),
  });
}

/**
 * Returns the repositories by worker in which its results can be verified: for workers of this process, and peers with `repo`.
 */
function repositoriesOf({ workers, peers }: FleetConfig): ReadonlyMap<string, string> {
  const own = workers.map(({ id, repo }) => [id, repo] as const);
  const others = peers.flatMap(({ id, repo }) => (repo === undefined ? [] : [[id, repo] as const]));
  return new Map([...own, ...others]);
}

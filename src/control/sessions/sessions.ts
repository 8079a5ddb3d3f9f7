/**
 * The sessions of a server: everything of this folder put together.
 *
 * The journal is the session: each change is an event, folded into the state and journaled; snapshots, the catalogue and saved
 * chats are made from the state.
 * @see docs/architecture.md
 */
import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Log } from '../../base/log.ts';
import type { ShareUsage } from '../../base/share-usage.ts';
import { SharedSlots } from '../../base/shared-slots.ts';
import type { Journal } from '../../journal/journal.ts';
import { wrongParam } from '../../protocol/rpc-reader.ts';
import { sessionCreate } from '../../protocol/session-rpc.ts';
import type { SessionSettings, Usage } from '../../protocol/session-types.ts';
import { LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Principal } from '../../session/principal.ts';
import { may, type SessionAction } from '../../session/rights.ts';
import { DEFAULT_SESSION_SHARE } from '../../session/shares.ts';
import { StorageShares } from '../../session/storage-shares.ts';
import { fail } from '../../wire/errors.ts';
import type { Approver } from '../contract/approver.ts';
import type { Backend, Compaction } from '../contract/backend.ts';
import type { EventSource } from '../contract/events.ts';
import type { Handled, RpcCall } from '../contract/handlers.ts';
import type { SessionLog } from '../contract/session-log.ts';
import { type ChatDeps, findChat, itemsOfChat, loadChat, prepareChat, saveChat } from './history/chats.ts';
import type { EventHub } from './log/event-hub.ts';
import type { OpenSession } from './log/open-session.ts';
import type { ServerEventLog } from './log/server-events.ts';
import { historyHandlers, ownerSeenBy } from './methods/history-handlers.ts';
import { pageHandlers } from './methods/page-handlers.ts';
import { type SessionChanged, sessionHandlers } from './methods/session-handlers.ts';
import { type SettingsParams, settingsFrom } from './methods/settings-params.ts';
import { turnHandlers } from './methods/turn-handlers.ts';
import { SessionEvents } from './pool/event-source.ts';
import { recoverSessions } from './pool/recovery.ts';
import { type PoolLimits, SessionPool } from './pool/session-pool.ts';
import {
  SUBAGENT_ENDED,
  type SubagentSession,
  type SubagentSessionOptions,
  SubagentSessions,
} from './pool/subagent-sessions.ts';
import { mustRun } from './record/session-rights.ts';
import { addUsage } from './record/usage.ts';
import type { SessionStore } from './store/store.ts';
import { TurnLog } from './turns/live-turn.ts';
import type { SessionTurns, TurnDeps } from './turns/session-turns.ts';
import { COMPRESSING, noBackend, type TurnRunDeps } from './turns/turn-run.ts';

/** Bounds of a server's sessions. */
export interface SessionLimits {
  /** Sessions that are not closed. Default 1,000. */
  readonly sessions: number;
  /** Sessions of one owner that is no administrator. Default {@link DEFAULT_SESSION_SHARE}. */
  readonly perPrincipal: number;
  /** Prompts that wait in a session. Default 64. */
  readonly queueLength: number;
  /** Turns at the same time; further ones wait in order. Default 8. */
  readonly turns: number;
  /** Turns of one owner that is no administrator; further ones wait. Default 6. */
  readonly turnsPerPrincipal: number;
  /** Time limit of a turn without one in its settings, in milliseconds. Default 30 minutes. */
  readonly turnTimeoutMs: number;
  /** Time a backend has to stop, in milliseconds. Default 5 seconds. */
  readonly interruptGraceMs: number;
  /** An idle session is unloaded after this many milliseconds. Default 10 minutes. */
  readonly idleMs: number;
  /** Maximum number of idle sessions in memory. Default 256. */
  readonly loaded: number;
  /** Bytes of events that the journal stores for one principal. Default 8 GiB. */
  readonly storedBytes: number;
  /** The same for all together. Default 64 GiB. */
  readonly totalStoredBytes: number;
  /** Characters of conversations in memory, of one principal. Default 512 MiB. */
  readonly memoryBytes: number;
  /** The same of all together. Default 2 GiB. */
  readonly totalMemoryBytes: number;
}

export const DEFAULT_SESSION_LIMITS: SessionLimits = {
  sessions: 1000,
  perPrincipal: DEFAULT_SESSION_SHARE,
  queueLength: 64,
  turns: 8,
  turnsPerPrincipal: 6,
  turnTimeoutMs: 30 * 60 * 1000,
  interruptGraceMs: 5000,
  idleMs: 10 * 60 * 1000,
  loaded: 256,
  storedBytes: 8 * 1024 ** 3,
  totalStoredBytes: 64 * 1024 ** 3,
  memoryBytes: 512 * 1024 ** 2,
  totalMemoryBytes: 2 * 1024 ** 3,
};

/** Time between two sweeps that unload idle sessions, in milliseconds. */
const SWEEP_MS = 60_000;

export interface SessionsOptions {
  readonly store: SessionStore;
  readonly hub: EventHub;
  readonly serverEvents: ServerEventLog;
  /** Stores the events; its lock makes this process the only one in the data directory. Closed by its owner. */
  readonly journal: Journal;
  readonly backends: ReadonlyMap<string, Backend>;
  /** Name of the backend of sessions that choose none; asked at each turn. */
  readonly defaultBackend: string | (() => string);
  readonly approver: Approver;
  readonly readPrompt: TurnRunDeps['readPrompt'];
  /** Folders that images may be read from, beside that of the session. Default none. */
  readonly imageRoots?: readonly string[];
  /** The skills a prompt names. Default none. */
  readonly skillsFor?: TurnRunDeps['skillsFor'];
  /** Default settings of sessions: model, thinking level, … */
  readonly defaults?: SessionSettings;
  /** Working directory of sessions that name none. Absolute; default the process's. */
  readonly defaultCwd?: string;
  /** Refuses folders a principal may not work in. */
  readonly checkCwd?: (cwd: string, principal: Principal) => void;
  /**
   * The principal of a name as it is configured now: turns run with the rights of their session's owner. Default: only
   * the local user has rights.
   */
  readonly principalOf?: (name: string) => Principal;
  readonly limits?: Partial<SessionLimits>;
  /** Counts the storage of principals, together with that of other parts. Default: by `limits`, for sessions alone. */
  readonly storage?: StorageShares | undefined;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly newId?: () => string;
}

/** The session of a subagent, with settings as `session.create` has them. */
export type NewSubagentSession = Omit<SubagentSessionOptions, 'settings'> & { readonly settings: SettingsParams };

export interface Sessions {
  readonly events: EventSource;
  /** Returns the methods of sessions, turns and saved chats. `changed` is called when sessions come and go. */
  handlers(changed: SessionChanged): readonly Handled[];
  /** Ids of the sessions that are not closed, in the order of their creation; of one owner, or all. */
  liveIds(owner?: string): readonly string[];
  /** Returns the number of sessions that are not closed; of one owner, or all. */
  liveCount(owner?: string): number;
  /** Sessions that are not closed, by principal. */
  readonly live: ShareUsage;
  /** Turns that run, by principal. */
  readonly turns: ShareUsage;
  /** Characters that loaded sessions hold, by principal. */
  readonly memory: ShareUsage;
  /** Bytes that the journal stores, by principal. */
  readonly storage: ShareUsage;
  /** Returns sessions in memory: all that run, or wait for an answer, are. */
  opened(): readonly SessionLog[];
  /** Returns a session. Fails with `session_not_found`. */
  open(id: string): SessionLog;
  /**
   * Returns a session the principal may do this to. Fails with `session_not_found`, or `unauthorized` for one it may only read.
   */
  openFor(principal: Principal, id: string, action: SessionAction): SessionLog;
  /** Notes that the rights of principals have changed: running turns continue with the current ones, or end. */
  rightsChanged(): void;
  /** Makes the session of a subagent. Fails with `schema_violation` for its settings, and as `session.create` does. */
  openSubagent(options: NewSubagentSession): Promise<SubagentSession>;
  /** Empties a session; a running turn is ended first. `queue`: queued prompts are dropped too. */
  clear(id: string, options?: { readonly queue?: boolean }): Promise<void>;
  /**
   * Ends a running turn, then compresses the conversation, for a model with these settings where they are given. Fails with
   * `not_configured` without a model that can do it, and as the backend does.
   */
  compress(id: string, settings?: SessionSettings, signal?: AbortSignal): Promise<Compaction>;
  /**
   * Loads a saved chat of the principal's into a session; undefined = the newest. A running turn is ended first. Fails with
   * `not_found` and the protocol's words. The chat's model becomes the session's own. Returns the id of the chat.
   */
  resumeChat(id: string, which: string | undefined, principal: Principal): Promise<string>;
  /**
   * Ends all turns, bounded by the time backends have to stop, and stores everything. With `keepWaiting`, turns that only
   * wait for the user continue in the next process. Idempotent, never rejects. Store and journal are closed by their owner.
   */
  stop(options?: { readonly keepWaiting?: boolean }): Promise<void>;
}

/**
 * Opens the sessions of a data directory: sessions of earlier processes are listed again, and turns that ran when a process
 * ended are ended or continued before this resolves. Rejects as the journal does.
 */
export async function createSessions(options: SessionsOptions): Promise<Sessions> {
  const sessions = new ServedSessions(options);
  await sessions.start();
  return sessions;
}

/** Returns the principal of a name without tokens: then every client is `local`, and may do everything. */
const unlisted = (name: string): Principal => (name === LOCAL_PRINCIPAL.name ? LOCAL_PRINCIPAL : { name });

class ServedSessions implements Sessions {
  readonly events: EventSource;
  readonly #options: SessionsOptions;
  readonly #pool: SessionPool;
  readonly #newId: () => string;
  readonly #now: () => number;
  readonly #chats: ChatDeps;
  readonly #slots: SharedSlots;
  readonly #subagents: SubagentSessions;
  #changed: SessionChanged = () => {};
  readonly #sweeper: NodeJS.Timeout;
  #ending = false;
  #stopped: Promise<void> | undefined;

  constructor(options: SessionsOptions) {
    const { store, journal, hub, serverEvents, approver, log } = options;
    const limits: SessionLimits = { ...DEFAULT_SESSION_LIMITS, ...options.limits };
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#newId = options.newId ?? randomUUID;
    this.#chats = {
      chats: store.chats,
      modelOf: (session) => this.#backendOf(session).modelOf(this.#settingsOf(session)),
      settingsOf: (session) => this.#settingsOf(session),
      newId: this.#newId,
      now: this.#now,
    };
    const principalOf = options.principalOf ?? unlisted;
    this.#slots = new SharedSlots('turns', {
      total: Math.max(1, limits.turns),
      perOwner: (name) => Math.max(1, may(principalOf(name), 'administer') ? limits.turns : limits.turnsPerPrincipal),
      queuePerOwner: Number.POSITIVE_INFINITY,
    });
    const turnParts: TurnDeps = {
      readPrompt: options.readPrompt,
      imageRoots: options.imageRoots ?? [],
      checkCwd: options.checkCwd,
      skillsFor: options.skillsFor ?? (async () => []),
      slots: this.#slots,
      turnTimeoutMs: limits.turnTimeoutMs,
      prepareChat: (session, turnId) => prepareChat(session, turnId, this.#chats),
      saveChat: (session, turnId) => saveChat(session, turnId, this.#chats),
      now: this.#now,
      approver,
      backendOf: (session) => this.#backendOf(session),
      settingsOf: (session) => this.#settingsOf(session),
      principalOf: (session) => this.#subagents.principalOf(session),
      isDebugging: () => hub.wantsDebug(),
      isEnding: () => this.#ending,
      release: (session) => this.#release(session),
      limits,
    };
    const poolLimits: PoolLimits = limits;
    const storage = options.storage ?? new StorageShares(limits);
    this.#pool = new SessionPool(
      { store, journal, hub, log, storage, now: this.#now },
      turnParts,
      poolLimits,
      principalOf,
    );
    this.#subagents = new SubagentSessions({
      pool: this.#pool,
      hub,
      ownerOf: principalOf,
      backendNames: () => [...options.backends.keys()],
      defaultBackend: () => this.#defaultBackend,
      newId: this.#newId,
      changed: (reason, session) => this.#changed(reason, session),
    });
    this.events = new SessionEvents(this.#pool, journal, hub, serverEvents);
    this.#sweeper = setInterval(() => this.#pool.sweep(), Math.min(SWEEP_MS, limits.idleMs));
    this.#sweeper.unref();
  }

  start(): Promise<void> {
    return recoverSessions(this.#pool, this.#options.approver);
  }

  async openSubagent(options: NewSubagentSession): Promise<SubagentSession> {
    return this.#subagents.open({ ...options, settings: settingsFrom(options.settings, sessionCreate.name) });
  }

  handlers(changed: SessionChanged): readonly Handled[] {
    this.#changed = changed;
    const { store, journal, backends } = this.#options;
    const parts = {
      sessionFor: (id: string, { caller, needs }: RpcCall) =>
        this.#turnsFor(caller.principal, id, needs === 'read' || needs === 'approve' ? needs : 'drive'),
      newId: this.#newId,
      now: this.#now,
    };
    return [
      ...sessionHandlers({
        ...parts,
        pool: this.#pool,
        backendNames: [...backends.keys()],
        defaultBackend: () => this.#defaultBackend,
        resolveCwd: (cwd, principal) => this.#resolveCwd(cwd, principal),
        changed,
      }),
      ...turnHandlers({
        ...parts,
        storage: this.#pool.parts.storage,
        mustHaveMemory: (owner) => this.#pool.mustHaveMemory(owner),
      }),
      ...pageHandlers({ ...parts, journal }),
      ...historyHandlers({
        chats: store.chats,
        clear: (id, { caller }) => this.#clear(this.#turnsFor(caller.principal, id, 'drive'), true),
      }),
    ];
  }

  liveIds(owner?: string): readonly string[] {
    return this.#pool.liveIds(owner);
  }

  liveCount(owner?: string): number {
    return this.#pool.liveCount(owner);
  }

  get live(): ShareUsage {
    return this.#pool.usage;
  }

  get turns(): ShareUsage {
    return this.#slots.usage;
  }

  get memory(): ShareUsage {
    return this.#pool.memory;
  }

  get storage(): ShareUsage {
    return this.#pool.parts.storage.usage;
  }

  rightsChanged(): void {
    for (const turns of this.#pool.loaded()) turns.rightsChanged();
  }

  opened(): readonly SessionLog[] {
    return this.#pool.loaded().map(({ session }) => session);
  }

  open(id: string): SessionLog {
    return this.#pool.get(id).session;
  }

  openFor(principal: Principal, id: string, action: SessionAction): SessionLog {
    return this.#turnsFor(principal, id, action).session;
  }

  clear(id: string, { queue = false }: { readonly queue?: boolean } = {}): Promise<void> {
    return this.#clear(this.#pool.get(id), queue);
  }

  async compress(id: string, overrides: SessionSettings = {}, signal?: AbortSignal): Promise<Compaction> {
    const turns = this.#pool.get(id);
    const { session } = turns;
    const settings = { ...this.#settingsOf(session), ...overrides };
    const backend = this.#backendOf(session);
    if (backend.compact === undefined || backend.modelOf(settings) === null) {
      throw fail('not_configured', 'select a model first before running /compress', { session_id: id });
    }
    mustRun(this.#subagents.principalOf(session.record), settings, backend);
    return turns.exclusively('interrupted', (held, isOver) => {
      const log = new TurnLog(session, isOver);
      const status = (status_label: string, detail?: Readonly<Record<string, unknown>>): void =>
        log.emit('session.status', { pending: true, status_label, detail });
      const usage = (used: Usage): void =>
        log.emit('session.usage', { usage: used, session_usage: addUsage(log.record.usage, used) });
      status(COMPRESSING);
      const until = signal === undefined ? held : AbortSignal.any([held, signal]);
      const turn = { id: '', log, settings, signal: until, status, usage };
      return backend.compact!(turn, 'manual');
    });
  }

  async resumeChat(id: string, which: string | undefined, principal: Principal): Promise<string> {
    const turns = this.#turnsFor(principal, id, 'drive');
    const { chats, messageIds } = this.#options.store;
    const { session } = turns;
    const chat = await turns.exclusively('cleared', async () => {
      // Found only now: the ended turn has saved its part.
      const chat = findChat(chats, ownerSeenBy(principal), which);
      const items = await itemsOfChat(chat, chats);
      this.#releaseAgent(session);
      loadChat(session, chat, items, () => messageIds.next());
      session.snapshot();
      await session.flushed();
      return chat;
    });
    const { model, provider, thinking, openRouterProvider } = chat;
    const routing = openRouterProvider === undefined ? {} : { openRouterProvider };
    const chosen = provider === null ? {} : { model, provider, thinking, ...routing };
    session.emit('session.configured', { settings: { ...session.record.settings, ...chosen } });
    return chat.id;
  }

  stop({ keepWaiting = false }: { readonly keepWaiting?: boolean } = {}): Promise<void> {
    this.#stopped ??= this.#stop(keepWaiting);
    return this.#stopped;
  }

  async #stop(keepWaiting: boolean): Promise<void> {
    clearInterval(this.#sweeper);
    this.#ending = true;
    const all = this.#pool.loaded();
    const left = keepWaiting ? all.filter((turns) => !turns.suspend()) : all;
    await Promise.all(
      left.map((turns) =>
        // A subagent ends with its process.
        turns.session.record.subagent === null ? turns.close('shutdown') : turns.close('closed', SUBAGENT_ENDED),
      ),
    );
    await Promise.all(
      all.map(async ({ session }) => {
        await session.flushed().catch(() => {});
        session.snapshot();
      }),
    );
  }

  get #defaultBackend(): string {
    const { defaultBackend } = this.#options;
    return typeof defaultBackend === 'string' ? defaultBackend : defaultBackend();
  }

  #backendOf({ record }: OpenSession): Backend {
    // A running turn keeps the backend it started with.
    const name = record.turn === null ? (record.settings.backend ?? this.#defaultBackend) : record.backend;
    return this.#options.backends.get(name) ?? noBackend(name);
  }

  #settingsOf({ record }: OpenSession): SessionSettings {
    return { ...this.#options.defaults, ...record.settings };
  }

  #turnsFor(principal: Principal, id: string, action: SessionAction): SessionTurns {
    return this.#pool.getFor(principal, id, action);
  }

  #resolveCwd(asked: string | undefined, principal: Principal): string {
    const { defaultCwd = process.cwd(), checkCwd } = this.#options;
    const cwd = resolve(defaultCwd, asked ?? '.');
    if (asked !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true) {
      throw wrongParam(sessionCreate.name, 'cwd', 'the path of a folder');
    }
    checkCwd?.(cwd, principal);
    return cwd;
  }

  async #clear(turns: SessionTurns, dropQueue: boolean): Promise<void> {
    const { session } = turns;
    await turns.exclusively('cleared', async () => {
      if (dropQueue) turns.dropQueued('cleared');
      this.#releaseAgent(session);
      session.emit('session.cleared', {});
      session.snapshot();
      await session.flushed();
    });
  }

  /** Releases the state that backends hold for a session: an agent that knows the old conversation must not continue it. */
  #releaseAgent(session: OpenSession): void {
    this.#release(session);
    const { agentSession, ...settings } = session.record.settings;
    if (agentSession !== undefined) session.emit('session.configured', { settings });
  }

  #release(session: OpenSession): void {
    for (const backend of this.#options.backends.values()) backend.release?.(session.id);
  }
}

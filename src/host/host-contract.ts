/**
 * A host as programs and the server see it: its options, its health, its sessions and the host itself.
 *
 * `host.ts` implements {@link Host}; `createHost` of `handfast` returns one.
 */
import type { Closable } from '../base/lifetime.ts';
import type { Log } from '../base/log.ts';
import type { ShareUsage } from '../base/share-usage.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { Dialect } from '../connection/accept.ts';
import type { Journal } from '../journal/journal.ts';
import type { Authenticator } from '../session/auth.ts';
import type { AuthThrottle } from '../session/auth-throttle.ts';
import type { Editors } from '../session/editors.ts';
import type { Principal } from '../session/principal.ts';
import type { StorageShares } from '../session/storage-shares.ts';
import type { TrafficShares } from '../session/traffic-shares.ts';
import type { Link } from '../transport/link.ts';
import type { AuditRecord } from './audit/audit.ts';
import type { HostLimits, HostSlots } from './host-limits.ts';
import type { Plugin } from './plugin.ts';
import type { SharedState } from './store/shared-state.ts';

/** Gets one record per handled request; `openAudit` of `host/audit/audit.ts` is one. */
export interface AuditSink {
  record(record: AuditRecord): void;
}

/** Stores plugin state over restarts; `server/state-file.ts` has them in a file. */
export interface SnapshotStore {
  load(): Promise<Record<string, unknown>>;
  save(states: Record<string, unknown>): Promise<void>;
}

export interface HostOptions {
  readonly plugins: readonly Plugin[];
  /** Shown to operators; also in the audit. Default `handfast`. */
  readonly hostId?: string;
  readonly limits?: Partial<HostLimits>;
  /** Identifies the owner of a token. Default: no token, every peer is `local`. */
  readonly auth?: Authenticator;
  /** Journal of session entries. Without one nothing is journaled and sessions cannot be resumed. */
  readonly journal?: Journal;
  /**
   * True to store each reply durably before it is sent: a host that is killed has every reply that left it. Costs a synced
   * commit for all replies of a turn of the event loop. Default: replies are volatile.
   */
  readonly durableReplies?: boolean;
  /** True to drop a session's entries when it ends: for journals in memory. */
  readonly forgetClosed?: boolean;
  readonly audit?: AuditSink;
  readonly log?: Log;
  /** Absolute path of the workspace. Default: the current directory. */
  readonly workspace?: string;
  readonly snapshots?: SnapshotStore;
  /** The file of the plugins' stores, made when a plugin that declares one starts. Default: in memory. */
  readonly stateFile?: string;
  /**
   * Opens that file at the start where it was not closed in good order, not at the first request: its losses are then known
   * from the start. For hosts that start rarely. Default false.
   * @internal
   */
  readonly checksState?: boolean | undefined;
  /**
   * Access of other hosts of the user to the same state. Default: one host has it at a time.
   * @internal
   */
  readonly sharedState?: SharedState;
  /** Folder of the plugins' data folders. Default: a temporary one for each plugin that asks for it. */
  readonly dataDir?: string;
  /**
   * Paths that the tools of principals who are not administrators neither read nor change. Default: none.
   * @internal
   */
  readonly pathGuard?: PathGuard | undefined;
  /**
   * The editors that lend sessions their files and terminals. Default: none.
   * @internal
   */
  readonly editors?: Editors | undefined;
  /**
   * The threads and processes that calls may start, where several hosts of one process share them. Default: this host's own.
   * @internal
   */
  readonly slots?: HostSlots;
  /**
   * Counts the bytes that plugins store for principals, together with other data stored for them. Default: only the
   * quotas of plugins hold.
   * @internal
   */
  readonly storage?: StorageShares;
  /**
   * The shares of links and requests, where several edges of one process have them in common. Default: this host's own.
   * @internal
   */
  readonly traffic?: TrafficShares;
  /**
   * Slows guessing of tokens down; shared by all that accept tokens on the same listeners.
   * @internal
   */
  readonly authThrottle?: AuthThrottle;
  /**
   * Other protocols served on the same listeners.
   * @internal
   */
  readonly dialects?: readonly Dialect[];
  /** Returns epoch milliseconds. */
  readonly now?: () => number;
  /** Makes session ids: any text that is not empty, not in use and not to be guessed. Default 128 random bits in hex. */
  readonly newId?: () => string;
}

/** The facts about a running host that an operator may see. */
export interface HostHealth {
  readonly host_id: string;
  readonly uptime_seconds: number;
  readonly sessions: number;
  readonly pending_links: number;
  readonly running: number;
  /** Handlers that ignored their signal and still run. */
  readonly abandoned: number;
  /** Answers and events of agents that belong to no request of this host. */
  readonly dropped_messages: number;
  readonly journal_failures: number;
  /** Threads that calls run in, of all hosts of this process. */
  readonly threads: number;
  /** Calls refused because the share of threads of their principal was used up. */
  readonly threads_refused: number;
  readonly capabilities: readonly string[];
}

/** A living session as an operator sees it. */
export interface HostSession {
  readonly id: string;
  readonly agentId: string;
  readonly principal: Principal;
  /** `detached`: waits for a new link. `draining`: ends in order. */
  readonly state: 'open' | 'detached' | 'draining' | 'closed';
  /** Position of its journal. */
  readonly cursor: number;
}

export interface Host extends Closable {
  readonly id: string;
  readonly limits: HostLimits;
  /** False: every peer is the principal `local`. */
  readonly requiresToken: boolean;
  /**
   * Starts the plugins. Links may be accepted from then on. Rejects with `config_invalid` for a plugin or a tool that is
   * written wrong, e.g. a broken schema; a plugin that fails otherwise is logged and left out.
   */
  start(): Promise<void>;
  /** True once it was started, also when it has stopped since. */
  readonly started: boolean;
  /**
   * Accepts a link: the agent at its other end may send its handshake. Its token determines the principal, unless
   * `principal` is given: then the link's origin is the proof.
   */
  accept(link: Link, principal?: Principal): void;
  /**
   * Ends all sessions in order and stops the plugins. Idempotent.
   * @param graceMs time for running work, milliseconds; default `limits.shutdownTimeoutMs`
   */
  close(graceMs?: number): Promise<void>;
  health(): HostHealth;
  /**
   * Usage of the shares of this host by its principals, by share.
   * @internal
   */
  readonly shares: Readonly<Record<string, ShareUsage>>;
  /** Sessions that live, connected or detached. */
  readonly sessions: Iterable<HostSession>;
  /** Returns true while a session of this id lives. */
  has(session: string): boolean;
}

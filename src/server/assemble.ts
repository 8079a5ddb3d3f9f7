/**
 * A running host out of a configuration: journal, audit, plugins and their state put together and started. Listeners are
 * not its business: `serve.ts` adds them for `handfast up`, `handfast stdio` has its one link.
 *
 * Parts that the configuration does not use are not loaded: a host on pipes must reply before its parent times out.
 */

import { join } from 'node:path';
import type { Log } from '../base/log.ts';
import { onceSucceeded } from '../base/once-succeeded.ts';
import type { PathGuard } from '../base/workspace/protected-paths.ts';
import type { HostConfig } from '../config/config.ts';
import { createHost, type Host, type HostOptions, type SnapshotStore } from '../host/host.ts';
import type { Plugin } from '../host/plugin.ts';
import type { SharedState } from '../host/store/shared-state.ts';
import type { Journal } from '../journal/journal.ts';
import { sharedMemoryJournal } from '../journal/memory.ts';
import { JournalShares } from '../journal/shares.ts';
import { type Authenticator, restricted } from '../session/auth.ts';
import { StorageShares } from '../session/storage-shares.ts';
import type { TrafficShares } from '../session/traffic-shares.ts';
import { builtinPlugins, type SubagentParts } from './builtin-plugins.ts';
import { auditOf, DAY_MS, type DeferredAudit } from './deferred-audit.ts';
import { reportDamage, reportReplaced } from './journal-damage.ts';
import type { SharingDeps } from './shared-state.ts';

export interface AssembleOptions {
  readonly auth: Authenticator;
  readonly log: Log;
  /** Counts failed handshakes; shared with the other protocols. */
  readonly authThrottle?: HostOptions['authThrottle'];
  /** Protocols served beside A2E on links whose first message is theirs. */
  readonly dialects?: HostOptions['dialects'];
  /** The audit that records requests; not closed with the host. Default: the audit of the configuration. */
  readonly audit?: HostOptions['audit'];
  /** Protected paths, which the tools of restricted principals do not touch. Default: those of the configuration. */
  readonly guard?: PathGuard;
  /** See `HostOptions.editors`. */
  readonly editors?: HostOptions['editors'];
  /** See `HostOptions.storage`. Default: by the limits of the configuration. */
  readonly storage?: StorageShares;
  /** See `HostOptions.slots`. */
  readonly slots?: HostOptions['slots'];
  /** See `HostOptions.traffic`. */
  readonly traffic?: TrafficShares;
  /** See `HostOptions.checksState`. */
  readonly checksState?: HostOptions['checksState'];
  /** Backends of subagents beside programs and executors. */
  readonly subagents?: SubagentParts;
  /** Makes session ids; default 128 random bits. They must not be guessable where other users can open links. */
  readonly newId?: () => string;
}

/** A started host with the parts it depends on. */
export interface AssembledHost {
  readonly host: Host;
  readonly journal: Journal;
  /** Usage of principals in the journal. */
  readonly journalShares: JournalShares;
  readonly audit: DeferredAudit | undefined;
  /** Checks the grants within capabilities of a configuration by the plugins of this host. Fails with `config_invalid`. */
  checkGrants(config: HostConfig): Promise<void>;
  /**
   * Ends sessions and plugins in good order, then writes and closes the stores they used. Idempotent, never rejects.
   * @param graceMs time running work is granted; default `limits.shutdown_timeout_ms`
   */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Makes and starts the host of a configuration.
 *
 * Fails with `config_invalid` for a plugin that cannot be loaded, and as `sqliteJournal` does where a journal on disk is
 * asked for. Then nothing is left open.
 */
export async function assembleHost(config: HostConfig, options: AssembleOptions): Promise<AssembledHost> {
  const { log, auth, newId, dialects, authThrottle, slots, traffic } = options;
  const { hostId, home, workspace, limits } = config;
  // Hosts of one user must not write into each other's files, so each has a folder by its name.
  const own = join(home, 'hosts', hostId);
  const closing: (() => unknown)[] = [];
  try {
    const plugins = await loadPlugins(config, closing, options.subagents);
    const checkGrants = async (next: HostConfig): Promise<void> => {
      if (next.auth.capabilityGrants.length > 0) await (await import('./grant-check.ts')).checkGrants(next, plugins);
    };
    await checkGrants(config);
    let running: Host | undefined;
    // Only a started host knows which sessions are live.
    const shares = journalShares(config);
    const journal = await openJournal(config, shares, log, (session) => running?.has(session) ?? true);
    closing.push(() => journal.close());
    const audit = options.audit === undefined ? auditOf(config, log) : undefined;
    closing.push(() => audit?.close());
    const host = createHost({
      hostId,
      plugins,
      limits,
      auth,
      log,
      workspace,
      journal,
      durableReplies: config.journal.durable === 'replies',
      forgetClosed: config.journal.kind === 'memory',
      audit: options.audit ?? audit,
      stateFile: join(own, 'state.db'),
      checksState: options.checksState,
      sharedState: sharedState({ path: join(own, 'state.sock'), workspace, log }, () => running as Host),
      dataDir: join(own, 'data'),
      snapshots: await snapshotsOf(plugins, { home, hostId, log }),
      newId,
      dialects,
      authThrottle,
      slots,
      storage: options.storage ?? new StorageShares(limits),
      traffic,
      editors: options.editors,
      pathGuard: options.guard ?? (await guardOf(config)),
    });
    running = host;
    await host.start();
    let stopped: Promise<void> | undefined;
    const stop = async (graceMs?: number): Promise<void> => {
      await host.close(graceMs).catch((error) => log.error('the host did not stop cleanly', { error }));
      await closeAll(closing, log);
    };
    return {
      host,
      journal,
      journalShares: shares,
      audit,
      checkGrants,
      stop: (graceMs) => {
        stopped ??= stop(graceMs);
        return stopped;
      },
    };
  } catch (error) {
    await closeAll(closing, log);
    throw error;
  }
}

/** Loads the shared state when a plugin needs it: most hosts on pipes are asked for none. */
function sharedState(deps: Omit<SharingDeps, 'host'>, host: () => Host): SharedState {
  const forwarding = onceSucceeded(async (): Promise<Pick<SharedState, 'forward'>> => {
    const { StateForwarding } = await import('./shared-state.ts');
    return new StateForwarding(deps.path);
  });
  return {
    opened: () => void import('./shared-state.ts').then(({ serveState }) => serveState({ ...deps, host: host() })),
    async forward(...request) {
      return (await forwarding()).forward(...request);
    },
  };
}

/**
 * Returns the guard of protected paths. Where every peer is an administrator, nothing needs a guard, and none is loaded.
 * Subagents are no administrators, not even an administrator's.
 */
async function guardOf(config: HostConfig): Promise<PathGuard | undefined> {
  const hasSubagents = config.plugins.some(
    ({ use, options }) => use === 'multi_agent' && Array.isArray(options.kinds) && options.kinds.length > 0,
  );
  if (restricted(config.auth.grants).length === 0 && !hasSubagents) return undefined;
  return (await import('./protected-paths.ts')).pathGuard(config);
}

/** Closes in the order opposite to opening; a failure does not stop the others from closing. */
async function closeAll(closing: readonly (() => unknown)[], log: Log): Promise<void> {
  for (const close of closing.toReversed()) {
    try {
      await close();
    } catch (error) {
      log.error('a part of the host did not close cleanly', { error });
    }
  }
}

/** Loads the plugins of a configuration. Parts they need until the end are added to `closing`. */
export async function loadPlugins(
  { plugins }: HostConfig,
  closing: (() => unknown)[],
  subagents?: SubagentParts,
): Promise<Plugin[]> {
  const modules = plugins.some(({ builtin }) => !builtin) ? await import('./plugin-modules.ts') : undefined;
  if (modules !== undefined) closing.push(modules.shareOwnPackage());
  const loaded: Plugin[] = [];
  for (const plugin of plugins) {
    loaded.push(...(plugin.builtin ? await builtinPlugins(plugin, subagents) : await modules!.loadPlugins(plugin)));
  }
  return loaded;
}

/** The form of a host's session ids. A journal may contain streams of other owners, which the host must not drop. */
const HOST_SESSION = /^[0-9a-f]{32}$/;

const journalShares = ({ journal }: HostConfig): JournalShares =>
  new JournalShares({
    perOwner: { bytes: journal.maxBytesPerPrincipal, entries: journal.maxEntriesPerPrincipal },
    total: { bytes: journal.maxTotalBytes, entries: journal.maxTotalEntries },
  });

async function openJournal(
  { journal: { kind, file, maxEntries, maxBytes, retainDays, maxSessions } }: HostConfig,
  shares: JournalShares,
  log: Log,
  lives: (session: string) => boolean,
): Promise<Journal> {
  const retention = { maxEntries, maxBytes };
  if (kind === 'memory') return sharedMemoryJournal(retention, shares);
  const { sqliteJournal } = await import('../journal/sqlite/sqlite.ts');
  return sqliteJournal({
    file,
    retention,
    shares,
    expiry: {
      maxAgeMs: retainDays * DAY_MS,
      maxSessions,
      retains: (session) => !HOST_SESSION.test(session) || lives(session),
    },
    onCorrupt: reportReplaced(log, file, 'the journal'),
    onDamaged: reportDamage(log, file, 'the journal'),
  });
}

/** Opens the file with the state of plugins; undefined when no plugin has state. */
async function snapshotsOf(
  plugins: readonly Plugin[],
  options: { home: string; hostId: string; log: Log },
): Promise<SnapshotStore | undefined> {
  if (!plugins.some(({ snapshot, restore }) => snapshot !== undefined || restore !== undefined)) return undefined;
  return (await import('./state-file.ts')).stateFile(options);
}

/**
 * The leadership of an orchestrator on NATS: its connection, and the leader lease of its name, which only one process holds.
 * Bus and task store of one orchestrator share it, so that both end together when another one leads.
 *
 * A process acquires it once; the bus acquires it itself where it was given none.
 * @see docs/nats.md#leader-and-standby
 */
import { fail, type HandfastError } from '../../../wire/errors.ts';
import { Bucket } from './bucket.ts';
import { type NatsLink, type NatsOptions, openNats } from './connection.ts';
import { LeaderLease } from './leader-lease.ts';
import { ensureFleet, ensureIntake, ensureOrchestrator, type StorageOptions } from './streams.ts';
import { BUCKETS, tokenOf } from './subjects.ts';

export interface LeadershipOptions extends NatsOptions, StorageOptions {
  /** Name of the orchestrator: its cursors are stored under it, and only one of a name leads. */
  readonly name: string;
  /**
   * Instance of that name: equal after a restart, different on another machine. Then a restart continues at once, instead of
   * when the lease of the process before has run out. Default: another for each process.
   */
  readonly instance?: string;
  /** While another one leads: wait without a limit, instead of failing. */
  readonly standby?: boolean;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
  /** Monotonic milliseconds. */
  readonly monotonic?: () => number;
  readonly newId?: () => string;
}

export interface Leadership {
  readonly name: string;
  /**
   * The connection that the bus and the task store share.
   * @internal
   */
  readonly link: NatsLink;
  /** Time that a worker counts as present, seconds. */
  readonly profileTtlS: number;
  /** Resolves when it ends by itself: `superseded`, or `connection_lost`. Never rejects. */
  readonly lost: Promise<HandfastError>;
  /** Fails with `unreachable` unless no other orchestrator can lead now. */
  check(): void;
  /** Makes the streams and buckets that are missing. */
  restore(): Promise<void>;
  /** Releases the leader lease and closes the connection. Idempotent, never rejects. */
  close(): Promise<void>;
}

/**
 * Acquires it. Fails with `superseded` when another one leads (unless `standby`), `unreachable`, `auth_failed`,
 * `config_invalid`, `not_configured`; with the reason of the signal when that aborts.
 */
export async function acquireLeadership(options: LeadershipOptions): Promise<Leadership> {
  const { name, monotonic, newId = () => crypto.randomUUID(), standby, log } = options;
  const leaving = new AbortController();
  const signal = AbortSignal.any([leaving.signal, ...(options.signal ? [options.signal] : [])]);
  const link = await openNats(`orchestrator ${name}`, options, { signal });
  let lease: LeaderLease | undefined;
  const leave = async (): Promise<void> => {
    leaving.abort();
    await lease?.release();
    await link.close();
  };
  try {
    const restore = async () => {
      const storage = { ...options, tightens: true };
      const { profileTtlS, leaseTtlS } = await ensureFleet(link, storage);
      return { profileTtlS, leaseTtlS, ttlS: await ensureOrchestrator(link, tokenOf(name), storage) };
    };
    const { profileTtlS, leaseTtlS, ttlS } = await restore();
    if (options.leaseTtlS !== undefined && options.leaseTtlS !== leaseTtlS) {
      const held = { configured_s: options.leaseTtlS, bucket: BUCKETS.leases, bucket_s: leaseTtlS };
      log?.warn('lease time on the NATS server differs from the configuration', held);
    }
    const life = newId();
    const { instance = life } = options;
    const { promise: lost, resolve } = Promise.withResolvers<HandfastError>();
    const bucket = new Bucket(link, BUCKETS.orchestrators);
    const taking = new LeaderLease({
      bucket,
      name,
      instance,
      incarnation: life,
      ttlS,
      signal,
      lost: resolve,
      monotonic,
      log,
    });
    lease = taking;
    await taking.acquire(standby);
    void link.lost.then(resolve);
    return {
      name,
      link,
      profileTtlS,
      lost,
      check() {
        if (leaving.signal.aborted) throw fail('unreachable', 'this orchestrator is no longer the leader');
        if (!taking.held) throw fail('unreachable', 'the lease of this orchestrator could not be renewed');
      },
      async restore() {
        await restore();
      },
      close: leave,
    };
  } catch (error) {
    await leave();
    throw error;
  }
}

/**
 * Returns the leadership of `main` over another account: the leader lease stays in the first one, where no worker of this
 * account can reach it. Fails as {@link acquireLeadership}, except with `superseded`.
 */
export async function accountLeadership(
  main: Leadership,
  options: Omit<LeadershipOptions, 'standby' | 'instance'>,
): Promise<Leadership> {
  const { name, signal } = options;
  const link = await openNats(`orchestrator ${name}`, options, signal && { signal });
  const storage = { ...options, tightens: true };
  const restore = async () => {
    const settings = await ensureFleet(link, storage);
    await ensureIntake(link, tokenOf(name));
    return settings;
  };
  try {
    const { profileTtlS } = await restore();
    return {
      name,
      link,
      profileTtlS,
      lost: Promise.race([main.lost, link.lost]),
      check: () => main.check(),
      async restore() {
        await restore();
      },
      close: () => link.close(),
    };
  } catch (error) {
    await link.close();
    throw error;
  }
}

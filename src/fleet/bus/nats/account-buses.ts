/**
 * One bus over several accounts of one NATS system. Within an account, a worker can make the server publish on any subject of
 * it, so that a subject identifies no sender there; the server enforces only the boundary of an account. A worker that is not
 * trusted therefore has a separate account, and the bus believes that account about this worker only.
 *
 * @see docs/nats.md#permissions
 */
import { Backoff } from '../../../base/backoff.ts';
import { isLogged } from '../../../base/log.ts';
import { sleep } from '../../../base/sleep.ts';
import { asError, HandfastError } from '../../../wire/errors.ts';
import type { BusOutage, PeerEvents } from '../peer.ts';
import { accountLeadership, type Leadership } from './leadership.ts';
import { type NatsBus, type NatsBusOptions, natsBus } from './orchestrator-bus.ts';
import type { NatsAuth } from './secrets.ts';
import { tokenOf } from './subjects.ts';

/** An account and the workers in it. */
export interface WorkerAccount {
  readonly workers: readonly string[];
  /** Secret of the orchestrator's user in this account. */
  readonly auth: NatsAuth;
}

type Settings = Omit<NatsBusOptions, 'leadership' | 'believes' | 'withoutPools'> & { readonly leadership: Leadership };

/** Makes the bus over the account of `leadership` and `accounts`. Pools have their queue in the account of `leadership`. */
export function accountBuses(options: Settings, accounts: readonly WorkerAccount[]): NatsBus {
  const elsewhere = new Set(accounts.flatMap(({ workers }) => workers.map(tokenOf)));
  const main = natsBus({ ...options, believes: (agent) => !elsewhere.has(agent) });
  return new AccountBuses(main, options, accounts);
}

interface OpenAccount {
  readonly bus: NatsBus;
  readonly leadership: Leadership;
}

/** Errors of the settings of an account; all others may be the work of its worker. */
const SETTINGS = new Set(['auth_failed', 'not_configured', 'unauthorized']);
const FIRST_RETRY_MS = 1_000;

class AccountBuses implements NatsBus {
  readonly binding = 'nats';
  readonly closed: Promise<HandfastError | undefined>;
  readonly #main: NatsBus;
  readonly #options: Settings;
  readonly #accounts: readonly WorkerAccount[];
  readonly #opened = new Set<OpenAccount>();
  readonly #held: Promise<void>[] = [];
  readonly #stopping = new AbortController();

  constructor(main: NatsBus, options: Settings, accounts: readonly WorkerAccount[]) {
    this.#main = main;
    this.#options = options;
    this.#accounts = accounts;
    // Without the leader lease of the main account nothing may be sent in the others.
    this.closed = main.closed.then(async (error) => {
      await this.#closeAccounts();
      return error;
    });
  }

  async start(events: PeerEvents): Promise<void> {
    await this.#main.start(events);
    try {
      await Promise.all(this.#accounts.map((account) => this.#begin(account, events)));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  offer(...offered: Parameters<NonNullable<NatsBus['offer']>>): Promise<void> {
    return this.#main.offer!(...offered);
  }

  find(...asked: Parameters<NonNullable<NatsBus['find']>>): ReturnType<NonNullable<NatsBus['find']>> {
    return this.#main.find!(...asked);
  }

  down(): BusOutage | undefined {
    return (
      this.#main.down?.() ?? [...this.#opened].map(({ bus }) => bus.down?.()).find((outage) => outage !== undefined)
    );
  }

  async close(): Promise<void> {
    await this.#closeAccounts();
    await this.#main.close();
  }

  /**
   * Opens an account, and holds it open from then on. Its worker can damage it, which must not stop the fleet: then the rest starts, and
   * the account is tried again. Rejects where its settings are wrong.
   */
  async #begin(account: WorkerAccount, events: PeerEvents): Promise<void> {
    const { signal } = this.#stopping;
    const opened = await this.#open(account, events).catch((thrown: unknown) => {
      signal.throwIfAborted();
      const { code, message, detail } = asError(thrown);
      const error = new HandfastError(code, `${placeOf(account)}: ${message}`, { detail, cause: thrown });
      if (SETTINGS.has(code)) throw error;
      this.#failed(account, error);
      return undefined;
    });
    this.#held.push(this.#hold(account, events, opened));
  }

  /** Opens an account again whenever it has ended. Resolves when the bus stops. */
  #hold(account: WorkerAccount, events: PeerEvents, opened: OpenAccount | undefined): Promise<void> {
    const { log, monotonic } = this.#options;
    return holdOpen(opened, {
      open: () => this.#open(account, events),
      ended: async (open) => {
        const error = await open.bus.closed;
        await this.#close(open);
        return error;
      },
      failed: (error) => this.#failed(account, error),
      again: () => log?.info('the NATS account of a worker is open again', { workers: account.workers }),
      signal: this.#stopping.signal,
      ...(monotonic && { now: monotonic }),
    });
  }

  #failed({ workers }: WorkerAccount, error: HandfastError): void {
    this.#options.log?.error('the NATS account of a worker cannot be used; its workers get no tasks until it can', {
      workers,
      error: error.message,
      remedy: 'list its streams with: nats stream ls; remove those that are wrong: nats stream rm; they are made again',
    });
  }

  async #open({ workers, auth }: WorkerAccount, events: PeerEvents): Promise<OpenAccount> {
    const own = new Set(workers.map(tokenOf));
    const { signal } = this.#stopping;
    const options = { ...this.#options, auth };
    const leadership = await accountLeadership(this.#options.leadership, { ...options, signal });
    const bus = natsBus({ ...options, leadership, withoutPools: true, believes: (agent) => own.has(agent) });
    const opened = { bus, leadership };
    this.#opened.add(opened);
    try {
      signal.throwIfAborted();
      await bus.start(events);
      return opened;
    } catch (error) {
      await this.#close(opened);
      throw error;
    }
  }

  async #close(opened: OpenAccount): Promise<void> {
    this.#opened.delete(opened);
    await opened.bus.close();
    await opened.leadership.close();
  }

  async #closeAccounts(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#opened].map((opened) => this.#close(opened)));
    await Promise.all(this.#held);
  }
}

export interface HoldOptions<Opened> {
  readonly open: () => Promise<Opened>;
  /** Resolves when it has ended, with the reason. */
  readonly ended: (opened: Opened) => Promise<HandfastError | undefined>;
  /** Called for those failures in a row that {@link isLogged} picks. The failure before the first attempt is the caller's. */
  readonly failed: (error: HandfastError) => void;
  /** Called when it is open again after a failure of which the log knows. */
  readonly again: () => void;
  readonly signal: AbortSignal;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
  /** Resolves after the time, or when the signal aborts. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Opens something again whenever it has ended, until the signal aborts; less and less often while it does not stay open. */
export async function holdOpen<Opened>(
  opened: Opened | undefined,
  { open, ended, failed, again, signal, now, wait = sleep }: HoldOptions<Opened>,
): Promise<void> {
  const retry = new Backoff({ firstDelayMs: FIRST_RETRY_MS }, now);
  let isInLog = opened === undefined;
  let error: HandfastError | undefined;
  for (let current = opened; ; ) {
    if (current !== undefined) {
      retry.opened();
      error = await ended(current);
    }
    if (signal.aborted) return;
    const delayMs = retry.next();
    if (error !== undefined && isLogged(retry.failures)) {
      failed(error);
      isInLog = true;
    }
    await wait(delayMs, signal);
    if (signal.aborted) return;
    try {
      current = await open();
      if (isInLog) again();
      isInLog = false;
    } catch (thrown) {
      current = undefined;
      error = asError(thrown);
    }
  }
}

const placeOf = ({ workers }: WorkerAccount): string => `the NATS account of ${workers.join(', ')}`;

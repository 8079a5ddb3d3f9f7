/**
 * One bus over several accounts of one NATS system. Within an account, a worker can make the server publish on any subject of
 * it, so that a subject identifies no sender there; the boundary of an account is what the server enforces. A worker that is
 * not trusted therefore has a separate account, and the bus believes that account about this worker only.
 *
 * Made by `server/fleet/fleet-nats.ts`.
 * @see docs/nats.md#permissions
 */
import { asError, HandfastError } from '../../../wire/errors.ts';
import type { BusOutage, PeerEvents } from '../peer.ts';
import { accountLeadership, type Leadership } from './leadership.ts';
import { type NatsBus, type NatsBusOptions, natsBus } from './orchestrator-bus.ts';
import type { NatsAuth } from './secrets.ts';
import { tokenOf } from './subjects.ts';

/** An account and the workers in it. */
export interface WorkerAccount {
  readonly workers: readonly string[];
  /** Of the orchestrator's user in this account. */
  readonly auth: NatsAuth;
}

type Settings = Omit<NatsBusOptions, 'leadership' | 'believes' | 'withoutPools'> & { readonly leadership: Leadership };

/** The bus over the account of `leadership` and `accounts`. Pools have their queue in the account of `leadership`. */
export function accountBuses(options: Settings, accounts: readonly WorkerAccount[]): NatsBus {
  const elsewhere = new Set(accounts.flatMap(({ workers }) => workers.map(tokenOf)));
  const main = natsBus({ ...options, believes: (agent) => !elsewhere.has(agent) });
  return new AccountBuses(main, options, accounts);
}

class AccountBuses implements NatsBus {
  readonly binding = 'nats';
  readonly closed: Promise<HandfastError | undefined>;
  readonly #main: NatsBus;
  readonly #options: Settings;
  readonly #accounts: readonly WorkerAccount[];
  readonly #opened: { readonly bus: NatsBus; readonly leadership: Leadership }[] = [];
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
      await Promise.all(
        this.#accounts.map((account) =>
          this.#open(account, events).catch((thrown: unknown) => {
            this.#stopping.signal.throwIfAborted();
            const { code, message, detail } = asError(thrown);
            const place = `the NATS account of ${account.workers.join(', ')}`;
            throw new HandfastError(code, `${place}: ${message}`, { detail, cause: thrown });
          }),
        ),
      );
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  offer(...offered: Parameters<NonNullable<NatsBus['offer']>>): Promise<void> {
    return this.#main.offer!(...offered);
  }

  down(): BusOutage | undefined {
    return this.#main.down?.() ?? this.#opened.map(({ bus }) => bus.down?.()).find((outage) => outage !== undefined);
  }

  async close(): Promise<void> {
    await this.#closeAccounts();
    await this.#main.close();
  }

  async #open({ workers, auth }: WorkerAccount, events: PeerEvents): Promise<void> {
    const own = new Set(workers.map(tokenOf));
    const { signal } = this.#stopping;
    const options = { ...this.#options, auth };
    const leadership = await accountLeadership(this.#options.leadership, { ...options, signal });
    const bus = natsBus({ ...options, leadership, withoutPools: true, believes: (agent) => own.has(agent) });
    this.#opened.push({ bus, leadership });
    signal.throwIfAborted();
    await bus.start(events);
  }

  async #closeAccounts(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(
      this.#opened.map(async ({ bus, leadership }) => {
        await bus.close();
        await leadership.close();
      }),
    );
  }
}

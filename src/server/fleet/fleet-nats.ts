/**
 * Makes the NATS parts of a fleet from its configuration: the bus, the leader lease, the task store, and joined workers.
 *
 * For a fleet, and for a worker of the `worker` command that joins one.
 */

import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
import { readRegularSync, writeRegularSync } from '../../base/regular-file.ts';
import type { FleetConfig } from '../../config/fleet-config.ts';
import type { NatsConnectionSettings } from '../../config/worker.schema.ts';
import type { NatsOptions } from '../../fleet/bus/nats/connection.ts';
import type { NatsBus } from '../../fleet/bus/nats/orchestrator-bus.ts';
import type { Joined } from '../../fleet/bus/stream/join.ts';
import type { TaskStore } from '../../fleet/orchestrator/task.ts';
import type { Worker } from '../../fleet/worker/worker.ts';

export interface FleetNatsOptions {
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts the wait of a standby for the leader lease. */
  readonly signal?: AbortSignal;
}

/** The NATS parts of a fleet. */
export interface FleetNats {
  readonly bus: NatsBus;
  /** The task store on NATS, closed by the caller; undefined: tasks are stored locally. */
  readonly store: TaskStore | undefined;
  join(worker: Worker): Joined;
  /** Releases the leader lease. */
  close(): Promise<void>;
}

/** Credentials of the client, and the TLS settings that authenticate the servers. */
export function natsAccess(settings: NatsConnectionSettings): Pick<NatsOptions, 'auth' | 'tls'> {
  const { credentialsFile, nkeyFile, user, passwordFile, passwordEnv, tokenFile, tokenEnv, tls } = settings;
  const auth = { credentialsFile, nkeyFile, user, passwordFile, passwordEnv, tokenFile, tokenEnv };
  return { auth, ...(tls && { tls }) };
}

/**
 * Opens the NATS parts; undefined without NATS servers. With tasks on NATS this waits, as a standby, while another orchestrator
 * of the name is the leader. The caller must have locked the data folder.
 */
export async function fleetNats(config: FleetConfig, options: FleetNatsOptions): Promise<FleetNats | undefined> {
  const { name, dataDir, natsServers, nats, leaseTtlS } = config;
  if (natsServers.length === 0) return undefined;
  const { log, env, signal } = options;
  const [{ natsBus }, { accountBuses }, { joinNats }, { acquireLeadership }, { natsTaskStore }] = await Promise.all([
    import('../../fleet/bus/nats/orchestrator-bus.ts'),
    import('../../fleet/bus/nats/account-buses.ts'),
    import('../../fleet/bus/nats/join.ts'),
    import('../../fleet/bus/nats/leadership.ts'),
    import('../../fleet/bus/nats/task-store.ts'),
  ]);
  const { replicas, maxWaiting } = nats;
  const shared = { servers: natsServers, ...natsAccess(nats), replicas, maxWaiting, leaseTtlS, log, env };
  const instance = instanceIn(dataDir);
  const accounts = (nats.accounts ?? []).map((account) => ({
    workers: account.workers ?? [],
    auth: natsAccess(account).auth ?? {},
  }));
  const leadership =
    nats.storeTasks || accounts.length > 0
      ? await acquireLeadership({ ...shared, name, instance, standby: nats.storeTasks, ...(signal && { signal }) })
      : undefined;
  try {
    const store = leadership && nats.storeTasks ? await natsTaskStore(leadership, { replicas }) : undefined;
    return {
      bus:
        leadership && accounts.length > 0
          ? accountBuses({ ...shared, name, instance, leadership }, accounts)
          : natsBus({ ...shared, name, instance, ...(leadership && { leadership }) }),
      store,
      join: (worker) => joinNats(worker, { ...shared, channelName: name }),
      async close() {
        await leadership?.close();
      },
    };
  } catch (error) {
    await leadership?.close();
    throw error;
  }
}

/** Returns the instance id of this orchestrator: made once for each data folder, so that two machines never share one. */
function instanceIn(data: string): string {
  const file = join(data, 'instance');
  try {
    const known = readRegularSync(file).toString().trim();
    if (known !== '') return known;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const instance = crypto.randomUUID();
  writeRegularSync(file, `${instance}\n`);
  return instance;
}

/**
 * What the configuration of a fleet says about NATS, as its bus, its task store and its workers take it.
 *
 * Used by `fleet-assembly.ts`, and by the `worker` command for a worker that joins.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../base/log.ts';
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
  /** Gives up waiting for another orchestrator of the name. */
  readonly signal?: AbortSignal;
}

/** The bus past this machine. */
export interface FleetNats {
  readonly bus: NatsBus;
  /** Where tasks are kept, closed by whoever uses it; undefined: here. */
  readonly store: TaskStore | undefined;
  join(worker: Worker): Joined;
  /** Gives the place of the orchestrator back. */
  close(): Promise<void>;
}

/** How somebody proves who he is, and knows the servers. */
export function natsAccess(settings: NatsConnectionSettings): Pick<NatsOptions, 'auth' | 'tls'> {
  const { credentialsFile, nkeyFile, user, passwordFile, passwordEnv, tokenFile, tokenEnv, tls } = settings;
  const auth = { credentialsFile, nkeyFile, user, passwordFile, passwordEnv, tokenFile, tokenEnv };
  return { auth, ...(tls && { tls }) };
}

/**
 * Undefined where there is no NATS. With tasks on NATS this waits, as a standby, for as long as another orchestrator of the
 * name is at work; the data folder is this process's by then.
 */
export async function fleetNats(config: FleetConfig, options: FleetNatsOptions): Promise<FleetNats | undefined> {
  const { name, dataDir, natsServers, nats, leaseTtlS } = config;
  if (natsServers.length === 0) return undefined;
  const { log, env, signal } = options;
  const [{ natsBus }, { joinNats }, { acquireLeadership }, { natsTaskStore }] = await Promise.all([
    import('../../fleet/bus/nats/orchestrator-bus.ts'),
    import('../../fleet/bus/nats/join.ts'),
    import('../../fleet/bus/nats/leadership.ts'),
    import('../../fleet/bus/nats/task-store.ts'),
  ]);
  const { replicas, maxWaiting } = nats;
  const shared = { servers: natsServers, ...natsAccess(nats), replicas, maxWaiting, leaseTtlS, log, env };
  const instance = instanceIn(dataDir);
  const seat = nats.storeTasks
    ? await acquireLeadership({ ...shared, name, instance, standby: true, ...(signal && { signal }) })
    : undefined;
  try {
    const store = seat && (await natsTaskStore(seat, { replicas }));
    return {
      bus: natsBus({ ...shared, name, instance, ...(seat && { leadership: seat }) }),
      store,
      join: (worker) => joinNats(worker, { ...shared, channelName: name }),
      async close() {
        await seat?.close();
      },
    };
  } catch (error) {
    await seat?.close();
    throw error;
  }
}

/** Which orchestrator of its name this is: made once for each data folder, so that no two machines are taken for one. */
function instanceIn(data: string): string {
  const file = join(data, 'instance');
  try {
    const known = readFileSync(file, 'utf8').trim();
    if (known !== '') return known;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const instance = crypto.randomUUID();
  writeFileSync(file, `${instance}\n`, { mode: 0o600 });
  return instance;
}

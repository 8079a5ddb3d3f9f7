/**
 * The streams, buckets and durable consumers of a fleet. The first process makes them, all others find them; an existing one
 * whose settings would break a guarantee is refused by name.
 *
 * @see docs/nats.md#streams-and-buckets
 */
import { fail } from '../../../wire/errors.ts';
import type { ConsumerConfig, StreamConfig } from './client.ts';
import type { NatsLink } from './connection.ts';
import { MAX_MESSAGE_BYTES } from './payload.ts';
import { BUCKETS, consumers, MAX_DELIVERIES, STREAMS, subjects } from './subjects.ts';

/** Settings of operators. Used when a stream or bucket is made; an existing one stays as it is. */
export interface StorageOptions {
  /** Copies of every stream and bucket: 1, 3 or 5. Default: 3 where three servers or more are named, else 1. */
  readonly replicas?: number;
  /** Time that a task's lease holds without renewal, seconds. Default 45. */
  readonly leaseTtlS?: number;
  /** Time that a worker counts as present without rewriting its profile, seconds. Default 45. */
  readonly profileTtlS?: number;
  /** Longest time that a worker may take between receiving a dispatch and acknowledging it, seconds. Default 30. */
  readonly ackWaitS?: number;
  /** Maximum number of dispatches that wait; past it they are refused with `over_capacity`. Default 1,000,000. */
  readonly maxWaiting?: number;
}

const DAY_S = 24 * 3600;
/** Time in which duplicates of a message with an id are recognised, seconds. */
const DUPLICATE_WINDOW_S = 1200;
const MAX_WAITING = 1_000_000;
const DEFAULT_TTL_S = 45;
/** Lifetime of claims, seconds: longer than any message about the attempt. */
const JOURNAL_TTL_S = 30 * DAY_S;
const TASKS_IN_RECEPTION = 1000;
/** Deliveries of a dispatch before it is parked. */
export const MAX_DELIVER = 5;
export const ACK_WAIT_S = 30;
const CONTROL_ACK_WAIT_S = 2;
/** The same for an orchestrator and a message of a worker; short, so that redelivery after a kill comes soon. */
export const RESULT_ACK_WAIT_S = 5;

/** Largest value of most buckets, and of leases and claims, with their headers. */
const MAX_VALUE_BYTES = MAX_MESSAGE_BYTES + 16 * 1024;
const MAX_LEASE_BYTES = 16 * 1024;
const BUCKET_WINDOW_S = 120;

const nanos = (seconds: number): number => seconds * 1_000_000_000;

/** True: buckets that an earlier version made are changed to the present settings. */
interface Tightens {
  readonly tightens?: boolean;
}

/** The settings in effect after {@link ensureFleet}. */
export interface FleetStorage {
  /** Seconds, as the bucket has it: equal for all members. */
  readonly leaseTtlS: number;
  readonly profileTtlS: number;
}

/**
 * Makes the streams and buckets that are missing. Fails with `config_invalid` when one is there with settings that cannot
 * work, `unauthorized` when one is missing and may not be made.
 */
export async function ensureFleet(link: NatsLink, options: StorageOptions & Tightens = {}): Promise<FleetStorage> {
  const { jetstream } = link.packages;
  const { RetentionPolicy, DiscardPolicy } = jetstream;
  const duplicate_window = nanos(DUPLICATE_WINDOW_S);
  await Promise.all([
    ensureStream(link, options, {
      name: STREAMS.dispatch,
      subjects: [subjects.dispatch('*'), subjects.poolDispatch('*')],
      retention: RetentionPolicy.Workqueue,
      discard: DiscardPolicy.New,
      max_msgs: options.maxWaiting ?? MAX_WAITING,
      duplicate_window,
    }),
    ensureStream(link, options, {
      name: STREAMS.events,
      // Advisories are sent once and stored nowhere else; here they wait for an orchestrator that was down.
      subjects: [subjects.events('*', '*'), subjects.announce('*'), subjects.dead('*'), `${MAX_DELIVERIES}.*`],
      retention: RetentionPolicy.Limits,
      max_age: nanos(7 * DAY_S),
      duplicate_window,
    }),
    ensureStream(link, options, {
      name: STREAMS.control,
      subjects: [subjects.control('*', '*')],
      retention: RetentionPolicy.Limits,
      max_age: nanos(DAY_S),
      duplicate_window,
    }),
    ensureBucket(link, BUCKETS.discovery, options),
    ensureBucket(link, BUCKETS.journal, options, { ttlS: JOURNAL_TTL_S, maxBytes: MAX_LEASE_BYTES }),
  ]);
  const [profileTtlS, leaseTtlS] = await Promise.all([
    ensureExpiring(link, BUCKETS.profiles, options, { ttlS: options.profileTtlS ?? DEFAULT_TTL_S }),
    ensureExpiring(link, BUCKETS.leases, options, {
      ttlS: options.leaseTtlS ?? DEFAULT_TTL_S,
      maxBytes: MAX_LEASE_BYTES,
    }),
  ]);
  return { leaseTtlS, profileTtlS };
}

/** Makes a bucket whose keys must expire: without a ttl, the leases of dead workers would never end. */
async function ensureExpiring(
  link: NatsLink,
  bucket: string,
  options: StorageOptions & Tightens,
  settings: { readonly ttlS: number; readonly maxBytes?: number },
): Promise<number> {
  const ttlS = await ensureBucket(link, bucket, options, settings);
  if (ttlS <= 0) throw fail('config_invalid', `the bucket ${bucket} has no ttl; remove it, or set its max age`);
  return ttlS;
}

async function ensureStream(
  link: NatsLink,
  { replicas = link.defaultReplicas }: StorageOptions,
  config: Partial<StreamConfig> & { readonly name: string; readonly subjects: string[] },
): Promise<void> {
  const { StorageType } = link.packages.jetstream;
  const found = await findStream(link, config.name);
  if (found === undefined) {
    const manager = await link.manager();
    // Two processes that find it missing at once ask for the same, and JetStream accepts both.
    await link.until(() => manager.streams.add({ ...config, num_replicas: replicas, storage: StorageType.File }));
    return;
  }
  if (found.config.num_replicas < replicas) {
    const copies = { stream: config.name, copies: found.config.num_replicas, wanted: replicas };
    link.log?.warn('a stream has fewer replicas than configured; add them with: nats stream edit --replicas', copies);
  }
  const there = new Set(found.config.subjects ?? []);
  const missing = config.subjects.filter((subject) => !there.has(subject));
  if (missing.length > 0 || found.config.retention !== config.retention) {
    throw fail('config_invalid', `the stream ${config.name} has settings that a fleet cannot use`, {
      missing_subjects: missing,
      retention: found.config.retention,
      wanted: config.retention as string,
    });
  }
}

/**
 * Makes a bucket that is missing; resolves with the ttl it has, in seconds (0: none). No header of a message may remove other
 * messages (`Nats-Rollup`): otherwise the right to write one key would be the right to empty the bucket.
 */
export async function ensureBucket(
  link: NatsLink,
  name: string,
  { replicas = link.defaultReplicas, tightens = false }: StorageOptions & Tightens,
  settings: { readonly ttlS?: number; readonly maxBytes?: number } = {},
): Promise<number> {
  const manager = await link.manager();
  const { StorageType, DiscardPolicy, RetentionPolicy } = link.packages.jetstream;
  const { ttlS = 0, maxBytes = MAX_VALUE_BYTES } = settings;
  const stream = `KV_${name}`;
  const found = await findStream(link, stream);
  if (found === undefined) {
    const made = await link.until(() =>
      manager.streams.add({
        name: stream,
        subjects: [`$KV.${name}.>`],
        retention: RetentionPolicy.Limits,
        storage: StorageType.File,
        discard: DiscardPolicy.New,
        max_msgs_per_subject: 1,
        max_msg_size: maxBytes,
        max_age: nanos(ttlS),
        duplicate_window: nanos(ttlS > 0 ? Math.min(ttlS, BUCKET_WINDOW_S) : BUCKET_WINDOW_S),
        num_replicas: replicas,
        allow_direct: true,
        allow_rollup_hdrs: false,
        deny_delete: true,
      }),
    );
    return Math.round(made.config.max_age / nanos(1));
  }
  const { allow_rollup_hdrs, subject_delete_marker_ttl = 0, max_msg_size = -1, max_age } = found.config;
  const loose = allow_rollup_hdrs || subject_delete_marker_ttl > 0 || max_msg_size < 0;
  // A worker may not, and need not; the orchestrator does it.
  if (loose && tightens)
    await tighten(link, found.config, { max_msg_size: max_msg_size < 0 ? maxBytes : max_msg_size });
  return Math.round((max_age ?? 0) / nanos(1));
}

/** Takes from a bucket of an earlier version that a writer of one key can remove the others. */
async function tighten(
  link: NatsLink,
  { name }: StreamConfig,
  limits: { readonly max_msg_size: number },
): Promise<void> {
  const manager = await link.manager();
  try {
    const change = { ...limits, allow_rollup_hdrs: false, subject_delete_marker_ttl: 0 };
    await link.until(() => manager.streams.update(name, change));
  } catch (error) {
    link.log?.warn(
      'any writer of this bucket can empty it; remove the right with: nats stream edit --no-allow-rollup',
      {
        stream: name,
        error: (error as Error).message,
      },
    );
  }
}

async function findStream(link: NatsLink, name: string) {
  const manager = await link.manager();
  return link.until(() =>
    manager.streams.info(name).catch((error: Error) => {
      if (error.name === 'StreamNotFoundError') return undefined;
      throw error;
    }),
  );
}

/**
 * Makes a durable pull consumer unless it exists. A user without that permission needs one that was made before: see
 * {@link provisionWorker}.
 */
async function ensureConsumer(
  link: NatsLink,
  stream: string,
  name: string,
  config: Partial<ConsumerConfig>,
): Promise<void> {
  const manager = await link.manager();
  const found = await link.until(() =>
    manager.consumers.info(stream, name).catch((error: Error) => {
      if (error.name === 'ConsumerNotFoundError') return undefined;
      throw error;
    }),
  );
  const wanted = config.max_ack_pending;
  if (found === undefined) {
    const { AckPolicy } = link.packages.jetstream;
    await link.until(() =>
      manager.consumers.add(stream, { durable_name: name, ack_policy: AckPolicy.Explicit, ...config }),
    );
  } else if (wanted !== undefined && found.config.max_ack_pending !== wanted) {
    try {
      await link.until(() => manager.consumers.update(stream, name, { max_ack_pending: wanted }));
    } catch (error) {
      // A worker that may not change it uses the settings that an operator gave it.
      link.log?.warn('consumer settings were not updated', { consumer: name, error: (error as Error).message });
    }
  }
}

/** Makes the consumers of one worker. Arguments are tokens. */
export async function ensureWorker(
  link: NatsLink,
  agent: string,
  pools: readonly string[],
  maxConcurrent: number,
  { ackWaitS = ACK_WAIT_S }: StorageOptions = {},
): Promise<void> {
  const dispatches = (name: string, filter: string, maxPending: number): Promise<void> =>
    ensureConsumer(link, STREAMS.dispatch, name, {
      filter_subject: filter,
      ack_wait: nanos(ackWaitS),
      max_deliver: MAX_DELIVER,
      max_ack_pending: maxPending,
    });
  await Promise.all([
    dispatches(consumers.agent(agent), subjects.dispatch(agent), Math.max(1, maxConcurrent)),
    ...pools.map((pool) => dispatches(consumers.pool(pool), subjects.poolDispatch(pool), TASKS_IN_RECEPTION)),
    ensureConsumer(link, STREAMS.control, consumers.control(agent), {
      filter_subject: subjects.control(agent, '*'),
      // Acknowledged on receipt, so an unacknowledged message was lost in transit.
      ack_wait: nanos(CONTROL_ACK_WAIT_S),
    }),
  ]);
}

/**
 * Makes the parts that only orchestrators need: the consumer of worker events, and the bucket of orchestrator names, apart from
 * the leases of tasks so that workers need not be allowed to write to it. The name is a token. Resolves with how long a name
 * holds without renewal, seconds.
 */
export async function ensureOrchestrator(
  link: NatsLink,
  name: string,
  options: StorageOptions & Tightens,
): Promise<number> {
  const [ttlS] = await Promise.all([
    ensureExpiring(link, BUCKETS.orchestrators, options, {
      ttlS: options.leaseTtlS ?? DEFAULT_TTL_S,
      maxBytes: MAX_LEASE_BYTES,
    }),
    ensureIntake(link, name),
  ]);
  return ttlS;
}

/** Makes the consumer of worker events. The name is a token. */
export function ensureIntake(link: NatsLink, name: string): Promise<void> {
  return ensureConsumer(link, STREAMS.events, consumers.orchestrator(name), {
    ack_wait: nanos(RESULT_ACK_WAIT_S),
    max_ack_pending: 4096,
  });
}

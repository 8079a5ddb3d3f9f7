/**
 * Makes the queues and consumers that a worker needs on the server, for workers that may not make them themselves: run once,
 * with the permissions of an operator, before the worker joins.
 * @see docs/nats.md#permissions
 */
import type { WorkerPort } from '../reply-channel.ts';
import { type NatsOptions, openNats } from './connection.ts';
import { ensureFleet, ensureWorker, type StorageOptions } from './streams.ts';
import { tokenOf } from './subjects.ts';

/** Makes the streams, the buckets and the consumers of a worker that are missing. Fails like a bus that starts. */
export async function provisionWorker(
  options: NatsOptions & StorageOptions,
  { agentId, pools, maxConcurrent }: Pick<WorkerPort, 'agentId' | 'pools' | 'maxConcurrent'>,
): Promise<void> {
  const link = await openNats(`provision ${agentId}`, options);
  try {
    await ensureFleet(link, { ...options, tightens: true });
    await ensureWorker(link, tokenOf(agentId), pools.map(tokenOf), maxConcurrent, options);
  } finally {
    await link.close();
  }
}

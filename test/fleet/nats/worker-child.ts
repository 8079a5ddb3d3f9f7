/**
 * A worker in a separate process, for tests that kill it or set its clock: `worker-child.ts <url> <options as JSON>`. Says
 * `ready` when it has joined, `deciding` and `begun` when a task gets so far.
 */
import { joinNats } from '../../../src/fleet/bus/nats/join.ts';
import { log } from './fleet.ts';
import { WorkerStandIn } from './worker-stand-in.ts';

interface ChildOptions {
  readonly agentId: string;
  readonly journal: string;
  readonly workMs?: number;
  readonly maxConcurrent?: number;
  readonly pools?: readonly string[];
  /** Never decides on anything. */
  readonly stuck?: boolean;
  /** Its clock is wrong by this, milliseconds. */
  readonly skewMs?: number;
  readonly ackWaitS?: number;
  readonly leaseTtlS?: number;
}

const [url = '', json = '{}'] = process.argv.slice(2);
const { stuck = false, skewMs = 0, ackWaitS, leaseTtlS, ...options }: ChildOptions = JSON.parse(json);
const now = Date.now.bind(Date);
Date.now = () => now() + skewMs;
const worker = new WorkerStandIn({
  ...options,
  deciding: () => {
    process.send?.('deciding');
    return stuck ? new Promise(() => {}) : undefined;
  },
  begun: (name) => process.send?.(`begun ${name}`),
});
const joined = joinNats(worker, {
  servers: url,
  log,
  ...(ackWaitS !== undefined && { ackWaitS }),
  ...(leaseTtlS !== undefined && { leaseTtlS }),
});
process.on('message', (message) => {
  if (message === 'leave') void joined.close().then(() => process.exit(0));
});
// The test is gone: so is this.
process.on('disconnect', () => process.exit(0));
await joined.accepted;
process.send?.('ready');

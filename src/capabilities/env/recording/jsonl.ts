/**
 * Writes trajectories as JSON lines to a file: the environment, then the start and the steps of each episode, each on its line
 * at once. Memory does not grow with the file; its size is bounded.
 */

import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { fail } from '../../../wire/errors.ts';
import { numberToWire } from '../spaces/numbers.ts';
import type { RolloutEvent } from './rollout.ts';

/** Amounts that were written. */
export interface Recorded {
  readonly episodes: number;
  readonly steps: number;
  readonly bytes: number;
}

/**
 * Writes events to a new file. Rejects with `usage` when the file exists, `over_capacity` above `maxBytes`; lines written
 * before stay.
 */
export async function writeTrajectories(
  file: string,
  events: AsyncIterable<RolloutEvent>,
  maxBytes: number,
): Promise<Recorded> {
  const stream = createWriteStream(file, { flags: 'wx', mode: 0o600 });
  await once(stream, 'open').catch((error: NodeJS.ErrnoException) => {
    throw fail('usage', error.code === 'EEXIST' ? `${file} exists already` : `cannot write ${file}: ${error.message}`);
  });
  let [episodes, steps, bytes] = [0, 0, 0];
  try {
    for await (const event of events) {
      const line = `${JSON.stringify(event.kind === 'step' ? { ...event, reward: numberToWire(event.reward) } : event)}\n`;
      bytes += Buffer.byteLength(line);
      if (bytes > maxBytes) throw fail('over_capacity', `the file would exceed ${maxBytes} bytes; see --max-bytes`);
      if (event.kind === 'reset') episodes += 1;
      if (event.kind === 'step') steps += 1;
      if (!stream.write(line)) await once(stream, 'drain');
    }
  } finally {
    stream.end();
    await once(stream, 'close');
  }
  return { episodes, steps, bytes };
}

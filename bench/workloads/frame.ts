/**
 * `frame`: lines out of bytes, in one process. 64 KiB chunks of tool-call lines are cut and parsed; megabytes a second.
 */
import { callRequest, idSource } from '../contenders/messages.ts';
import type { Workload } from './workload.ts';

const CHUNK_BYTES = 64 * 1024;
const CHUNKS = 64;

/** Returns whole lines, cut into chunks without regard for their ends. */
function chunksOfLines(): Buffer[] {
  const nextId = idSource();
  const lines: string[] = [];
  for (let bytes = 0; bytes < CHUNK_BYTES * CHUNKS; bytes += lines.at(-1)?.length ?? 0) {
    const args = { text: 'The quick brown fox jumps over the lazy dog, then does it again.', n: lines.length };
    lines.push(`${JSON.stringify(callRequest(nextId(), 'echo', args, false))}\n`);
  }
  const all = Buffer.from(lines.join(''));
  const chunks: Buffer[] = [];
  for (let start = 0; start < all.length; start += CHUNK_BYTES) chunks.push(all.subarray(start, start + CHUNK_BYTES));
  return chunks;
}

export const frame: Workload = {
  name: 'frame',
  unit: 'MB/s',
  lowerIsBetter: false,
  transports: ['memory'],
  contenders: ['bare', 'handfast'],
  fresh: false,
  async run(bench, { durationMs }) {
    const { scanner } = bench.contender;
    if (scanner === undefined) throw new Error(`${bench.contender.name} has no scanner`);
    const chunks = chunksOfLines();
    let lines = 0;
    let bytes = 0;
    let passes = 0;
    const scan = await scanner((text) => {
      JSON.parse(text);
      lines++;
    });
    const start = performance.now();
    do {
      for (const chunk of chunks) {
        scan(chunk);
        bytes += chunk.length;
      }
      passes++;
    } while (performance.now() - start < durationMs);
    const elapsedMs = performance.now() - start;
    if (lines % passes !== 0 || lines === 0) throw new Error('the scanner lost lines');
    return { value: bytes / elapsedMs / 1000 };
  },
};

/**
 * `unary1` and `unary64`: calls of `echo` with 64 characters and an integer, one at a time and 64 in flight; `small64`:
 * the same with arguments as small as they get.
 */
import type { Bench } from '../bench.ts';
import { type Measurement, median, type RunSettings, type Workload } from './workload.ts';

const LONG = 'The quick brown fox jumps over the lazy dog, then does it again.';
const SMALL = 'ok';
/** In memory every call may settle in microtasks; after this many calls each lane lets timers and files have a turn. */
const CALLS_BETWEEN_TURNS = 64;

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function calls(bench: Bench, durationMs: number, lanes: number, text = LONG): Promise<Measurement> {
  const session = await bench.session();
  const yields = bench.transport === 'memory';
  const latencies: number[] = [];
  let done = 0;
  const cpuBefore = await bench.cpuUs();
  const start = performance.now();
  const end = start + durationMs;

  const single = async (): Promise<void> => {
    for (let before = start; before < end; ) {
      if ((await session.echo(text, done)) !== text) throw new Error('echo sent another text back');
      const after = performance.now();
      latencies.push(after - before);
      before = after;
      if (++done % CALLS_BETWEEN_TURNS === 0 && yields) {
        await nextTurn();
        before = performance.now();
      }
    }
  };
  const lane = async (): Promise<void> => {
    for (let own = 1; ; own++) {
      if ((await session.echo(text, own)) !== text) throw new Error('echo sent another text back');
      done++;
      if (own % 16 === 0 && performance.now() >= end) return;
      if (yields && own % CALLS_BETWEEN_TURNS === 0) await nextTurn();
    }
  };
  await (lanes === 1 ? single() : Promise.all(Array.from({ length: lanes }, lane)));

  const elapsedMs = performance.now() - start;
  const cpuUs = (await bench.cpuUs()) - cpuBefore;
  return {
    value: (done / elapsedMs) * 1000,
    cpuUsPerCall: cpuUs / done,
    ...(latencies.length > 0 && { p50Us: median(latencies) * 1000 }),
  };
}

const common = {
  unit: 'calls/s',
  lowerIsBetter: false,
  transports: ['memory', 'stdio', 'tcp', 'websocket', 'http'],
  fresh: false,
} as const;

export const unary1: Workload = {
  ...common,
  name: 'unary1',
  run: (bench: Bench, { durationMs }: RunSettings) => calls(bench, durationMs, 1),
};

export const unary64: Workload = {
  ...common,
  name: 'unary64',
  run: (bench: Bench, { durationMs }: RunSettings) => calls(bench, durationMs, 64),
};

export const small64: Workload = {
  ...common,
  name: 'small64',
  transports: ['memory', 'stdio'],
  run: (bench: Bench, { durationMs }: RunSettings) => calls(bench, durationMs, 64, SMALL),
};

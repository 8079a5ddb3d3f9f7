/**
 * The cost of processes, beside bare ones in the same run: a thousand are spawned, read to their end and reaped, over
 * one session in this process and by `child_process`; and a flood is read from one terminal, over the session and by
 * `@lydell/node-pty`. Fails when a process, a descriptor, a store or memory is left.
 *
 * Run it with `npm run bench:proc`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { readProcesses } from '../src/base/children/process-table.ts';
import { procPlugin } from '../src/capabilities/proc/plugin.ts';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host/host.ts';

const COUNT = 1_000;
const AT_ONCE = 8;
const ENDED = 10;
/** Bytes that a thousand processes may leave in the heap. */
const MAX_LEFT_BYTES = 4 * 1024 * 1024;
/** Bytes of one flood, and how often each side reads one, in turn. */
const FLOOD_BYTES = 32 * 1024 * 1024;
const FLOODS = 5;
const PATIENCE_MS = 10_000;
const cmd = ['echo', 'a line'] as const;
const flood = ['head', '-c', String(FLOOD_BYTES), '/dev/zero'] as const;
const size = { cols: 80, rows: 24 };

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const workspace = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
process.env.HANDFAST_HOME = workspace;
const host = createHost({
  plugins: [procPlugin({ programs: ['echo', 'head'], maxProcesses: AT_ONCE, maxEnded: ENDED })],
  workspace,
});
await host.start();
const agent = await connect(host, { capabilities: ['proc'] });

async function ours(): Promise<void> {
  const child = await agent.proc.spawn(cmd, { stdin: 'null' });
  let text = '';
  for await (const piece of child.output()) text += piece.text;
  assert.equal(text, 'a line\n');
}

async function bare(): Promise<void> {
  const child = spawn(cmd[0], cmd.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  assert.equal(text, 'a line\n');
}

/** Runs it `COUNT` times, `AT_ONCE` at a time; the milliseconds of each. */
async function timed(run: () => Promise<void>): Promise<number> {
  let left = COUNT;
  const startedAt = performance.now();
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return (performance.now() - startedAt) / COUNT;
}

/** Reads one flood from a terminal of the session; bytes. */
async function ourFlood(): Promise<number> {
  const child = await agent.proc.spawn(flood, { pty: size });
  let bytes = 0;
  for await (const { text } of child.output()) bytes += text.length;
  return bytes;
}

/** The part of the package that is used. */
interface NodePty {
  spawn(
    file: string,
    args: readonly string[],
    options: typeof size,
  ): { onData(listener: (text: string) => void): void; onExit(listener: () => void): void };
}

async function bareFlood({ spawn: open }: NodePty): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const terminal = open(flood[0], flood.slice(1), size);
  let bytes = 0;
  terminal.onData((text) => {
    bytes += text.length;
  });
  terminal.onExit(resolve);
  await promise;
  return bytes;
}

const MIB = 1024 * 1024;
const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

/** Returns MiB a second. */
async function rateOf(run: () => Promise<number>): Promise<number> {
  const startedAt = performance.now();
  assert.equal(await run(), FLOOD_BYTES);
  return FLOOD_BYTES / MIB / ((performance.now() - startedAt) / 1_000);
}

/** Runs both sides in turn, so that other work on the machine slows both. */
async function floods(bareSide: NodePty): Promise<string> {
  const rates = { own: [] as number[], plain: [] as number[] };
  for (let round = 0; round < FLOODS; round++) {
    rates.own.push(await rateOf(ourFlood));
    rates.plain.push(await rateOf(() => bareFlood(bareSide)));
  }
  const [own, plain] = [medianOf(rates.own), medianOf(rates.plain)];
  const share = (own / plain).toFixed(2);
  return `a flood at a terminal: ${own.toFixed(0)} MiB/s, bare @lydell/node-pty ${plain.toFixed(0)} MiB/s: ${share} of it`;
}

/** Returns the open descriptors of this process; 0 if the system does not report them. */
function descriptors(): number {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}

/** Returns the number of processes that this one has started, including those that end without being waited for. */
const children = async (): Promise<number> =>
  (await readProcesses()).filter(({ parent }) => parent === process.pid).length;

/** Returns the heap after a garbage collection. */
function heapBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

// Objects that are created once: the watcher, probes, the store of ended processes.
for (let at = 0; at < 5 * ENDED; at++) await ours();
await bare();
const before = { descriptors: descriptors(), children: await children(), heap: heapBytes() };
const own = await timed(ours);
const left = { descriptors: descriptors(), children: await children(), heap: heapBytes() };
const plain = await timed(bare);
const stored = await agent.proc.list();
assert.ok(stored.length <= ENDED + AT_ONCE, `${stored.length} processes are still stored`);
assert.ok(stored.every(({ state }) => state !== 'running'));
assert.ok(left.descriptors <= before.descriptors + 2, `${left.descriptors - before.descriptors} descriptors are left`);
for (const late = performance.now() + PATIENCE_MS; (await children()) > before.children; ) {
  assert.ok(performance.now() < late, `${(await children()) - before.children} processes are left`);
}
assert.ok(left.heap - before.heap < MAX_LEFT_BYTES, `${left.heap - before.heap} bytes are left`);
console.log(
  `${COUNT} processes, ${AT_ONCE} at once: ${own.toFixed(2)} ms each, bare child_process ${plain.toFixed(2)} ms`,
);
console.log(
  `left behind: ${Math.max(0, left.descriptors - before.descriptors)} descriptors, ${((left.heap - before.heap) / 1024).toFixed(0)} KiB of heap, no process`,
);
const name = '@lydell/node-pty';
const pty = (await import(name).catch(() => undefined)) as NodePty | undefined;
console.log(pty === undefined ? `no terminals: ${name} is not installed` : await floods(pty));
await agent.close();
await host.close(0);
rmSync(workspace, { recursive: true });

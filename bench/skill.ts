/**
 * The cost of a run of a skill, in each kind of sandbox that works here: agent, host and its tool in this process.
 * Beside them the mechanisms they are built on: QuickJS in this thread without a sandbox around it, and a process of
 * Node that is spawned and ends.
 *
 *   npm run bench:skill -- [--quick] [--tier NAME]…
 *
 * Then the time after its limit at which an endless run is ended, and the delay of the host's event loop meanwhile.
 * Builds first: the measured code is compiled JavaScript.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import type { Sandbox, Tier } from '../src/capabilities/skill/sandbox/sandbox.ts';
import { build } from './build.ts';
import { built } from './contenders/built.ts';
import { bounded } from './control.ts';
import { type Timing, timed } from './memory/timing.ts';
import { load, thisMachine } from './report.ts';
import { median } from './workloads/workload.ts';

/** The tiers, and the most milliseconds of a warm run. */
const WARM_TARGETS: Readonly<Record<Tier, number | undefined>> = { quickjs: 2, process: undefined, bubblewrap: 15 };
const TIERS = Object.keys(WARM_TARGETS) as readonly Tier[];
/** Most milliseconds from the limit of a run to its end, and that the loop is late meanwhile. */
const [END_TARGET, LATE_TARGET] = [10, 5];
/** Seconds that a run may take which ends by nothing else. */
const LIMIT_SECONDS = 1;
/** Between two runs of which each finds a place that waits. */
const PAUSE_MS = 100;
const TICK_MS = 1;
/** Longest wait for the end of a run. */
const END_WAIT_MS = 30_000;

const SKILLS: Readonly<Record<string, string>> = {
  trivial: 'export default ({ a }) => a + 1;',
  calls: `export default async ({ a }, skill) => (await skill.tool('add', { a })).sum;`,
  loop: 'export default () => { for (;;); };',
  native: `export default () => { for (;;) new Array(2e8) + ''; };`,
};

const { values: given } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    tier: { type: 'string', multiple: true, default: [...TIERS] },
  },
});
const wanted = TIERS.filter((tier) => given.tier.includes(tier));
const [RUNS, PROCESS_RUNS, ENDS, COLD] = given.quick ? [100, 10, 3, 2] : [500, 50, 10, 5];
build();
const { connect } = await built<typeof import('../src/connect.ts')>('connect');
const { createHost } = await built<typeof import('../src/host/host.ts')>('host/host');
const { skillPlugin } = await built<typeof import('../src/capabilities/skill/plugin.ts')>('capabilities/skill/plugin');
const { sandboxOf } = await built<typeof import('../src/capabilities/skill/sandbox/choose.ts')>(
  'capabilities/skill/sandbox/choose',
);
const { toolsPlugin } = await built<typeof import('../src/capabilities/tools/plugin.ts')>('capabilities/tools/plugin');
const { tool } = await built<typeof import('../src/capabilities/tools/tool.ts')>('capabilities/tools/tool');

const workspace = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
process.env.HANDFAST_HOME = workspace;
for (const [name, code] of Object.entries(SKILLS)) {
  const folder = join(workspace, 'skills', name);
  mkdirSync(folder, { recursive: true });
  const front = `name: ${name}\ndescription: ${name}\nentry: main.js\nallowed-tools: add\ntimeout_seconds: ${
    ['loop', 'native'].includes(name) ? LIMIT_SECONDS : 60
  }`;
  writeFileSync(join(folder, 'SKILL.md'), `---\n${front}\n---\n`);
  writeFileSync(join(folder, 'main.js'), code);
}

async function siteOf(tier: Tier) {
  const add = tool({ name: 'add', description: 'Adds one', run: ({ a }: { a: number }) => ({ sum: a + 1 }) });
  const host = createHost({
    plugins: [
      skillPlugin({ roots: [join(workspace, 'skills')], tier, sandbox: watched(sandboxOf({ tier }, process.env)) }),
      toolsPlugin({ tools: [add] }),
    ],
    workspace,
  });
  await host.start();
  const agent = await connect(host, { capabilities: ['skill'] });
  const run = async (name: string): Promise<void> => {
    const { data, tier: inForce } = await agent.skill.call(name, { a: 1 }, { timeoutMs: END_WAIT_MS });
    assert.deepEqual([data, inForce], [2, tier]);
  };
  return {
    run,
    agent,
    async close(): Promise<void> {
      await agent.close();
      await host.close(0);
    },
  };
}
type Site = Awaited<ReturnType<typeof siteOf>>;

/** Called when nothing of a run runs any more. */
let ended: ((at: number) => void) | undefined;

/** Returns a tier's sandbox that reports when a run has ended completely. */
function watched(inner: Sandbox): Sandbox {
  return {
    tier: inner.tier,
    probe: () => inner.probe(),
    run: async (...job) => {
      try {
        await inner.run(...job);
      } finally {
        ended?.(performance.now());
      }
    },
    close: () => inner.close(),
  };
}

interface Lateness {
  /** Most milliseconds that a timer of the event loop was late. */
  readonly late: number;
  /**
   * Most processor time of the loop's own thread between two ticks; the rest of `late` is time that it waited for a
   * processor.
   */
  readonly own: number;
}

/** Watches the event loop until the returned function is called. */
function lateness(): () => Lateness {
  let [late, own] = [0, 0];
  let at = performance.now();
  let used = process.threadCpuUsage();
  const timer = setInterval(() => {
    const spent = process.threadCpuUsage(used);
    const now = performance.now();
    late = Math.max(late, now - at - TICK_MS);
    own = Math.max(own, (spent.user + spent.system) / 1000);
    at = now;
    used = process.threadCpuUsage();
  }, TICK_MS);
  return () => {
    clearInterval(timer);
    return { late, own };
  };
}

interface End {
  /** Milliseconds from the limit to the reply, and to the end of the thread or process. */
  readonly reply: number;
  readonly end: number;
  /** Of the event loop, from the beginning until behind the end; and of as long a time without a run, before it. */
  readonly during: Lateness;
  readonly idle: Lateness;
}

async function endOf({ agent }: Site, name: string): Promise<End> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const without = lateness();
  await pause(LIMIT_SECONDS * 1000 + PAUSE_MS);
  const idle = without();
  const during = lateness();
  const limitAt = performance.now() + LIMIT_SECONDS * 1000;
  ended = (at) => at >= limitAt && resolve(at);
  const code = await agent.skill.call(name, {}, { timeoutMs: END_WAIT_MS }).then(
    () => 'a result',
    (error: { code: string }) => error.code,
  );
  const reply = performance.now() - limitAt;
  assert.equal(code, 'timeout');
  const end = (await bounded(promise, 'nothing ended', END_WAIT_MS)) - limitAt;
  // The place that replaces it starts.
  await pause(PAUSE_MS);
  ended = undefined;
  return { reply, end, during: during(), idle };
}

const row = (name: string, text: string): void => console.log(`${name.padEnd(58)} ${text}`);
const ms = (value: number): string => `${value.toFixed(2)} ms`;
const verdict = (value: number, target: number | undefined): string =>
  target === undefined ? '' : `  target ${target} ms: ${value <= target ? 'met' : 'missed'}`;
const timing = (name: string, { p50, p95, cpu }: Timing, target?: number): void =>
  row(name, `p50 ${ms(p50)}  p95 ${ms(p95)}  processor ${ms(cpu)}${verdict(p50, target)}`);

async function measure(tier: Tier): Promise<void> {
  const cold: number[] = [];
  for (let round = 0; round < COLD; round++) {
    const site = await siteOf(tier);
    const startedAt = performance.now();
    try {
      await site.run('trivial');
    } catch (error) {
      await site.close();
      return row(tier, `does not run here: ${(error as Error).message}`);
    }
    cold.push(performance.now() - startedAt);
    await site.close();
  }
  row(
    `${tier}: first run of a process, of further hosts in it`,
    `${ms(cold[0] as number)}, ${ms(median(cold.slice(1)))}`,
  );
  const site = await siteOf(tier);
  const turns = Array.from({ length: tier === 'quickjs' ? RUNS : PROCESS_RUNS }, () => 'trivial');
  const calls = turns.map(() => 'calls');
  const target = WARM_TARGETS[tier];
  const few = turns.slice(0, PROCESS_RUNS);
  timing(`${tier}: a run, ${PAUSE_MS} ms apart`, await timed(few, site.run, PAUSE_MS), target);
  timing(
    `${tier}: with one call of a tool, ${PAUSE_MS} ms apart`,
    await timed(
      few.map(() => 'calls'),
      site.run,
      PAUSE_MS,
    ),
  );
  timing(`${tier}: a run, one behind the other`, await timed(turns, site.run), tier === 'quickjs' ? target : undefined);
  timing(`${tier}: with one call of a tool, one behind the other`, await timed(calls, site.run));
  for (const name of ['loop', 'native']) {
    const ends: End[] = [];
    for (let round = 0; round < ENDS; round++) ends.push(await endOf(site, name));
    const most = (of: (end: End) => number): number => Math.max(...ends.map(of));
    const both = (of: (end: End) => number): string => `median ${ms(median(ends.map(of)))}  most ${ms(most(of))}`;
    const what = `${tier}: ${name === 'loop' ? 'an endless loop' : 'an endless loop in native code'}`;
    row(
      `${what}: reply behind its limit`,
      both(({ reply }) => reply),
    );
    row(
      `${what}: thread or process ended`,
      `${both(({ end }) => end)}${verdict(
        most(({ end }) => end),
        END_TARGET,
      )}`,
    );
    row(
      `${what}: the host's loop late by`,
      `${both(({ during }) => during.late)}${verdict(
        most(({ during }) => during.late),
        LATE_TARGET,
      )}`,
    );
    row(
      '  of it the processor time of the loop itself',
      both(({ during }) => during.own),
    );
    row(
      '  late without a run, in the same rounds',
      both(({ idle }) => idle.late),
    );
  }
  await site.close();
}

/**
 * Measures the interpreter alone: a context for each run, in the thread of the caller, which an endless loop would
 * block for good.
 */
async function bareQuickJs(): Promise<void> {
  const { getQuickJS } = await import('quickjs-emscripten');
  const interpreter = await getQuickJS();
  const run = (): void => {
    const context = interpreter.newContext();
    context.unwrapResult(context.evalCode('globalThis.result = 1 + 1')).dispose();
    const value = context.getProp(context.global, 'result').consume((each) => context.getNumber(each));
    assert.equal(value, 2);
    context.dispose();
  };
  timing(
    'bare quickjs-emscripten in the thread of the host',
    await timed(
      Array.from({ length: RUNS }, () => ''),
      run,
    ),
  );
}

/** Measures a thread around the interpreter: the time that the system takes to end it and to free its memory. */
async function bareThread(): Promise<void> {
  const code = `
    const { parentPort } = require('node:worker_threads');
    import(${JSON.stringify(import.meta.resolve('quickjs-emscripten'))}).then(async ({ getQuickJS }) => {
      const runtime = (await getQuickJS()).newRuntime();
      runtime.setMemoryLimit(64 * 1024 * 1024);
      parentPort.postMessage('runs');
      runtime.newContext().evalCode('for (;;) new Array(2e8) + ""');
    });`;
  const ends: number[] = [];
  for (let round = 0; round < ENDS; round++) {
    const worker = new Worker(code, { eval: true });
    await once(worker, 'message');
    await pause(LIMIT_SECONDS * 1000);
    const startedAt = performance.now();
    await worker.terminate();
    ends.push(performance.now() - startedAt);
  }
  const most = Math.max(...ends);
  row('bare quickjs-emscripten in a thread, the native loop ended', `median ${ms(median(ends))}  most ${ms(most)}`);
}

async function bareProcess(): Promise<void> {
  const run = async (): Promise<void> => {
    const child = spawn(process.execPath, ['-e', 'console.log(1 + 1)'], { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    await once(child, 'close');
    assert.equal(text, '2\n');
  };
  timing(
    'bare node, spawned and ended',
    await timed(
      Array.from({ length: PROCESS_RUNS }, () => ''),
      run,
    ),
  );
}

const { cpu, cores, memory_gib: memory, system, node } = thisMachine();
console.log(`${cpu}, ${cores} cores, ${memory} GiB, ${system}, Node ${node}; ${load()}\n`);
for (const tier of wanted) await measure(tier);
await bareQuickJs();
await bareThread();
await bareProcess();
console.log(load());
rmSync(workspace, { recursive: true });

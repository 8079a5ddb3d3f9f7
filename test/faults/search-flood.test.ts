/** Searches without end, sent by one principal: threads and memory stay bounded, and others are served meanwhile. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../src/connect.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { User } from '../cli/command.ts';

type Agent = Awaited<ReturnType<typeof connect<'tools'>>>;

const SEARCHES = 120;
const TIME_LIMIT_S = 4;
const THREADS = { total: 4, perPrincipal: 2, queue: 16 };
/** Longest wait that the row allows others; a machine that is slow already before the flood gets its own bound. */
const MAX_P99_MS = 250;
const SLOWER = 10;
/** 120 threads took about 20 MiB each; those of two principals, with their remains, stay below a fifth. */
const MAX_GROWTH_MIB = 384;

const user = new User();
after(() => user.leave());
user.write('ci.token', 'token-of-the-attacker-0001');
user.write('ui.token', 'token-of-the-neighbour-0002');
user.write('bait.txt', `${'a'.repeat(60)}!\n`);
user.write(
  'handfast.yaml',
  `limits: { max_parallel: 128 }
auth:
  tokens:
    - { name: attacker, token_file: ./ci.token, capabilities: [tools], tools: { allow: [grep] } }
    - { name: neighbour, token_file: ./ui.token, capabilities: [tools], tools: { allow: [grep, read_file] } }
`,
);

const threadsOf = (pid: number): number => readdirSync(`/proc/${pid}/task`).length;
const rssMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Returns the slowest of a hundred pings, some pauses apart. */
async function p99Ms(agent: Agent, pings: number): Promise<number> {
  const times: number[] = [];
  for (let at = 0; at < pings; at += 1) {
    const from = performance.now();
    await agent.ping();
    times.push(performance.now() - from);
    await delay(10);
  }
  return times.sort((a, b) => a - b)[Math.floor(pings * 0.99) - 1] as number;
}

test('F-100: endless expressions of one token hold two threads, are stopped in time, and leave the others served', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async () => {
  const { ready } = await user.up(['--config', 'handfast.yaml', '--listen', 'tcp://127.0.0.1:0']);
  const address = ready.listeners.find((one) => one.startsWith('tcp:')) as string;
  const open = (token: string) => connect(address, { capabilities: ['tools'], token });
  await using attacker = await open('token-of-the-attacker-0001');
  await using neighbour = await open('token-of-the-neighbour-0002');
  const search = (agent: Agent, args: Record<string, unknown>) =>
    agent.tools.call('grep', { path: 'bait.txt', ...args });
  await search(neighbour, { pattern: 'a' });
  const before = { threads: threadsOf(ready.pid), mib: rssMiB(ready.pid), p99Ms: await p99Ms(neighbour, 100) };

  const outcomes: string[] = [];
  const refusals: HandfastError[] = [];
  const flood = Array.from({ length: SEARCHES }, () =>
    search(attacker, { pattern: '^(a+)+$', time_limit_seconds: TIME_LIMIT_S }).then(
      () => outcomes.push('found'),
      (error: HandfastError) => {
        outcomes.push(error.code);
        if (error.code === 'over_capacity') refusals.push(error);
      },
    ),
  );
  let threads = 0;
  let mib = 0;
  const watch = setInterval(() => {
    threads = Math.max(threads, threadsOf(ready.pid));
    mib = Math.max(mib, rssMiB(ready.pid));
  }, 20);
  const during = await p99Ms(neighbour, 200);
  // A neighbour has separate threads, with any queue before it.
  const found = await search(neighbour, { pattern: 'a', output: 'count' });
  assert.deepEqual((found.data as { files: unknown }).files, [{ path: 'bait.txt', count: 1 }]);
  await Promise.all(flood);
  clearInterval(watch);

  const queued = THREADS.perPrincipal + THREADS.queue;
  assert.equal(outcomes.includes('found'), false);
  const stopped = outcomes.filter((code) => code === 'timeout').length;
  assert.ok(stopped >= THREADS.perPrincipal && stopped <= queued, `${stopped} were stopped at their deadline`);
  assert.ok(refusals.length >= SEARCHES - queued, `${refusals.length} were refused`);
  assert.ok(refusals.every(({ retryable, detail }) => retryable && Number(detail.retry_after_ms) > 0));
  assert.ok(threads - before.threads <= THREADS.total + 1, `${threads - before.threads} more threads`);
  assert.ok(mib - before.mib <= MAX_GROWTH_MIB, `grew by ${Math.round(mib - before.mib)} MiB`);
  const allowed = Math.max(MAX_P99_MS, SLOWER * before.p99Ms);
  assert.ok(during <= allowed, `pings took up to ${during} ms, before the flood ${before.p99Ms} ms`);

  const token = readFileSync(ready.token_file as string, 'utf8').trim();
  const status = await fetch(`${ready.url}/status`, { headers: { authorization: `Bearer ${token}` } });
  const health = (await status.json()) as { threads: number; threads_refused: number };
  assert.equal(health.threads_refused, SEARCHES - queued);
});

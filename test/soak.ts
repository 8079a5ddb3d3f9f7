/**
 * The soak: sessions over TCP, WebSocket and HTTP with calls, streams and cut connections for some minutes against a
 * host in a separate process. `npm run soak` runs it, with the minutes as its argument (default 10).
 *
 * Prints the lost and duplicate calls (both must be 0), the growth of memory, and remaining resources; ends with exit
 * code 1 when any of these is wrong. Rules: the load table of the threat model, "soak", "memory growth", "leaks".
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, connect } from '../src/connect.ts';
import { parseTcpAddress } from '../src/transport/socket.ts';
import { type HostReport, startHostProcess } from './support/host-child.ts';
import { type Relay, startRelay } from './support/relay.ts';

const minutes = Number(process.argv[2] ?? 10);
if (!(minutes > 0)) throw new TypeError('usage: soak [MINUTES]');
const durationMs = minutes * 60_000;

/** Sessions at once on each transport. */
const SESSIONS = { tcp: 12, webSocket: 8, http: 4 };
/** About how often each connection is cut. */
const CUT_EVERY_MS = 4_000;
/** Last quarter of the resident memory to the second one. */
const MAX_GROWTH = 1.1;
/** A run must be this long for its memory to mean anything. */
const MEMORY_MINUTES = 5;
const MIB = 1024 * 1024;

const totals = { sessions: 0, calls: 0, streams: 0, events: 0, resumed: 0, lost: 0, doubled: 0, disordered: 0 };
const failures = new Map<string, number>();
const fail = (what: string): void => void failures.set(what, (failures.get(what) ?? 0) + 1);

let keys = 0;

/** Makes one call: its reply must be its own, its events 0, 1, 2 … up to the requested number. */
async function work(agent: Agent<'tools'>, events: number, ms: number): Promise<void> {
  const key = `k${keys++}`;
  const seen: number[] = [];
  totals.calls++;
  if (events > 0) totals.streams++;
  try {
    const onEvent =
      events === 0 ? undefined : ({ data }: { data: Record<string, unknown> }) => seen.push(Number(data.at));
    const { data } = await agent.tools.call<{ key: string }>(
      'work',
      { key, events, ms },
      { onEvent, timeoutMs: 60_000 },
    );
    if (data?.key !== key) {
      totals.lost++;
      fail('an answer of another call');
    }
  } catch (error) {
    totals.lost++;
    fail(`a call failed with ${(error as { code?: string }).code ?? error}`);
    return;
  }
  totals.events += seen.length;
  const once = new Set(seen);
  totals.doubled += seen.length - once.size;
  totals.lost += events - once.size;
  if (seen.some((at, index) => at !== index)) totals.disordered++;
}

/** Runs one session after the other, each with some rounds of calls. */
async function user(address: string, until: number): Promise<void> {
  while (performance.now() < until) {
    const agent = await connect(address, {
      capabilities: ['tools'],
      onState: ({ state }) => {
        if (state === 'lost') totals.resumed++;
      },
    }).catch((error) => {
      // A link that is cut before the session exists has nothing to resume.
      if (error.retryable === true) return undefined;
      throw error;
    });
    if (agent === undefined) continue;
    totals.sessions++;
    const ends = Math.min(until, performance.now() + 2_000 + Math.random() * 20_000);
    while (performance.now() < ends) {
      await Promise.all([
        work(agent, 0, 0),
        work(agent, 0, Math.random() * 20),
        work(agent, 1 + Math.floor(Math.random() * 100), 0),
        // Still few enough for the journal to hold all of it while no agent is connected.
        work(agent, Math.random() < 0.05 ? 800 : 5, Math.random() * 5),
      ]);
      await delay(Math.random() * 20);
    }
    await agent.close();
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

function countsOf(report: HostReport): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of report.resources) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

const host = await startHostProcess();
const tcp = await startRelay(parseTcpAddress(host.tcp));
const http = await startRelay(parseTcpAddress(host.http.replace('http:', 'tcp:')));
const relays: readonly Relay[] = [tcp, http];
const addresses = {
  tcp: `tcp://127.0.0.1:${tcp.port}`,
  webSocket: `ws://127.0.0.1:${http.port}/ws`,
  http: `http://127.0.0.1:${http.port}`,
};

/** Waits until no agent is connected, and only permanent resources are open: the state to which everything must return. */
async function rest(): Promise<HostReport> {
  for (let round = 0; ; round++) {
    const report = await host.report();
    const { sessions, pending_links, running, abandoned } = report.health;
    if ((sessions === 0 && pending_links === 0 && running === 0 && abandoned === 0) || round > 400) break;
    await delay(250);
  }
  // The link that brought the last session's end is about to end itself.
  await delay(3_000);
  return host.report();
}

for (const address of Object.values(addresses)) await user(address, performance.now() + 300);
for (const relay of relays) relay.cut();
const before = await rest();
await delay(500);
const filesBefore = host.files();

const started = performance.now();
const until = started + durationMs;
console.log(`soak: ${minutes} min, ${JSON.stringify(SESSIONS)} sessions, a cut about every ${CUT_EVERY_MS} ms on each`);
const rss: number[] = [];
const watch = setInterval(() => rss.push(host.rssBytes()), Math.max(100, durationMs / 1_000));
const tell = setInterval(() => {
  const minute = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`${minute} min: ${JSON.stringify(totals)}, host ${(host.rssBytes() / MIB).toFixed(0)} MiB`);
}, 30_000);
const cutting = setInterval(() => {
  for (const relay of relays) relay.cut(() => Math.random() < 100 / CUT_EVERY_MS);
}, 100);

await Promise.all(
  Object.entries(SESSIONS).flatMap(([transport, count]) =>
    Array.from({ length: count }, () => user(addresses[transport as keyof typeof addresses], until)),
  ),
);
for (const timer of [watch, tell, cutting]) clearInterval(timer);
const cuts = tcp.cuts + http.cuts;
for (const relay of relays) relay.cut();
const after = await rest();
await delay(500);
const filesAfter = host.files();

// The first tenth warms up.
const steady = rss.slice(Math.floor(rss.length / 10));
const quarter = (at: number): number =>
  median(steady.slice((steady.length * at) >> 2, (steady.length * (at + 1)) >> 2));
const growth = quarter(3) / quarter(1);
totals.doubled += after.repeated;

const problems: string[] = [...failures].map(([what, count]) => `${what} (${count} times)`);
if (totals.lost > 0) problems.push(`${totals.lost} answers or events lost`);
if (totals.doubled > 0) problems.push(`${totals.doubled} events or runs doubled`);
if (totals.disordered > 0) problems.push(`${totals.disordered} streams out of order`);
if (totals.calls === 0 || cuts === 0) problems.push('nothing was tried');
const { sessions, pending_links, running, abandoned, journal_failures } = after.health;
const left = { sessions, pending_links, running, abandoned, journal_failures };
if (Object.values(left).some((count) => count !== 0)) problems.push(`left at the host: ${JSON.stringify(left)}`);
const [were, are] = [countsOf(before), countsOf(after)];
for (const kind of Object.keys(are)) {
  if ((are[kind] ?? 0) > (were[kind] ?? 0)) problems.push(`${kind}: ${were[kind] ?? 0} before, ${are[kind]} after`);
}
if (filesAfter > filesBefore) problems.push(`open files: ${filesBefore} before, ${filesAfter} after`);
if (minutes >= MEMORY_MINUTES && growth > MAX_GROWTH) problems.push(`memory grew by ${growth.toFixed(3)}`);

console.log(`
calls      ${totals.calls}, of which ${totals.streams} with ${totals.events} events, in ${totals.sessions} sessions
cuts       ${cuts}, after which agents came back ${totals.resumed} times
lost       ${totals.lost}
doubled    ${totals.doubled}
disorder   ${totals.disordered}
memory     quarters ${[0, 1, 2, 3].map((at) => (quarter(at) / MIB).toFixed(1)).join(', ')} MiB; last to second ${growth.toFixed(3)}${minutes < MEMORY_MINUTES ? ' (too short to judge)' : ''}
heap       ${(before.heapBytes / MIB).toFixed(1)} MiB before, ${(after.heapBytes / MIB).toFixed(1)} MiB after
files      ${filesBefore} before, ${filesAfter} after
resources  ${JSON.stringify(were)} before, ${JSON.stringify(are)} after
`);
await Promise.all(relays.map((relay) => relay.close()));
await host.stop();
for (const problem of problems) console.log(`FAILED: ${problem}`);
console.log(problems.length === 0 ? 'soak: ok' : `soak: ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;

/**
 * The cost that a host adds to a call of an MCP server behind it: the same tool of the same server, called by an agent
 * through a host in this process, and by the official client directly. In turns, one call at a time; the server has a
 * separate process, so the processor time is that of this process. Fails when a target is missed.
 *
 * Run it with `npm run bench:mcp`; `-- --profile stdio|http` repeats Handfast's calls alone, for a profiler.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { mcpPlugins } from '../src/capabilities/mcp/plugin.ts';
import { toolsPlugin } from '../src/capabilities/tools/plugin.ts';
import { connect } from '../src/connect.ts';
import { createHost } from '../src/host/host.ts';
import { median } from './workloads/workload.ts';

const ROUNDS = 16;
const CALLS = 400;
const MAX_CPU_US = 60;
const MAX_P50_MS = 0.25;

const { values } = parseArgs({ options: { profile: { type: 'string' } } });
const serverArgs = (way: string): string[] => [
  '-C',
  'handfast-source',
  '--no-warnings',
  fileURLToPath(new URL('./mcp-door/server-process.ts', import.meta.url)),
  'second-sdk',
  way,
];
const args = { text: 'x'.repeat(64), n: 7 };
const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-'));
process.env.HANDFAST_HOME = folder;

const web = spawn(process.execPath, serverArgs('sessions'), { stdio: ['pipe', 'pipe', 'inherit'] });
const [port] = (await once(web.stdout.setEncoding('utf8'), 'data')) as [string];
const url = `http://127.0.0.1:${port.trim()}/mcp`;
const stdio = { command: process.execPath, args: serverArgs('stdio') };

const servers = [
  { name: 'stdio', ...stdio },
  { name: 'http', url },
];
const host = createHost({ plugins: [toolsPlugin({ tools: [] }), ...mcpPlugins({ servers })], workspace: folder });
await host.start();
const agent = await connect(host, { capabilities: ['mcp', 'tools'] });

async function direct(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<Client> {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  await client.listTools();
  return client;
}
const clients = {
  stdio: await direct(new StdioClientTransport(stdio)),
  http: await direct(new StreamableHTTPClientTransport(new URL(url))),
};

type Call = () => PromiseLike<unknown>;

/** Microseconds of the processor and the median milliseconds of a call. */
async function measured(call: Call): Promise<{ cpuUs: number; p50Ms: number }> {
  const times: number[] = [];
  const before = process.cpuUsage();
  for (let at = 0; at < CALLS; at += 1) {
    const startedAt = performance.now();
    await call();
    times.push(performance.now() - startedAt);
  }
  const { user, system } = process.cpuUsage(before);
  return { cpuUs: (user + system) / CALLS, p50Ms: median(times) };
}

async function compared(name: 'stdio' | 'http'): Promise<void> {
  const own: Call = () => agent.tools.call(`${name}__echo`, args);
  const other: Call = () => clients[name].callTool({ name: 'echo', arguments: args });
  if (values.profile === name) for (let round = 0; round < 4 * ROUNDS; round += 1) await measured(own);
  if (values.profile !== undefined) return;
  // Code is compiled in the first rounds.
  for (let round = 0; round < 4; round += 1) for (const call of [own, other]) await measured(call);
  const added = { cpuUs: [] as number[], p50Ms: [] as number[] };
  const through = { cpuUs: [] as number[], p50Ms: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = round % 2 === 0 ? [own, other] : [other, own];
    const results = new Map<Call, { cpuUs: number; p50Ms: number }>();
    for (const call of order) results.set(call, await measured(call));
    const [ours, theirs] = [results.get(own), results.get(other)] as [
      { cpuUs: number; p50Ms: number },
      { cpuUs: number; p50Ms: number },
    ];
    for (const figure of ['cpuUs', 'p50Ms'] as const) {
      added[figure].push(ours[figure] - theirs[figure]);
      through[figure].push(ours[figure]);
    }
  }
  const [cpuUs, p50Ms] = [median(added.cpuUs), median(added.p50Ms)];
  console.log(
    `${name.padEnd(6)} through a host ${median(through.cpuUs).toFixed(0)} µs of CPU, ${median(through.p50Ms).toFixed(3)} ms; added ${cpuUs.toFixed(0)} µs of CPU (${judged(cpuUs, MAX_CPU_US)}), ${p50Ms.toFixed(3)} ms (${judged(p50Ms, MAX_P50_MS)})`,
  );
}

/** Returns whether a target is reached; the process fails when one is missed. */
function judged(value: number, target: number): string {
  if (value <= target) return `target ${target} reached`;
  process.exitCode = 1;
  return `target ${target} missed`;
}

try {
  assert.equal((await agent.tools.list()).length, 2);
  await compared('stdio');
  await compared('http');
} finally {
  await agent.close();
  await host.close();
  for (const client of Object.values(clients)) await client.close();
  web.stdin.end();
  rmSync(folder, { recursive: true, force: true });
}

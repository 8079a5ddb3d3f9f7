/**
 * `npm run bench:mcp-door`: calls of a trivial tool by MCP clients, on pipes, over HTTP with a session and over HTTP
 * with requests that stand alone, one at a time and many: `handfast mcp` and `/mcp` of `handfast up` in their installed
 * form, beside a bare JSON loop and both generations of the official SDK.
 *
 *   npm run bench:mcp-door -- [--quick] [--rounds N] [--json FILE] [--workload NAME]…
 *
 * Every server has a separate process, and all have the same client, which never parses a reply while the clock runs.
 * Handfast checks tokens, rights, messages and arguments, and writes its journal and audit, as by default. Figures with
 * `-cpu` are the processor time that the server used for a call.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from './build.ts';
import { lineScanner } from './contenders/carriers.ts';
import { childFile, LOOPBACK } from './contenders/contender.ts';
import { bounded } from './control.ts';
import type { Way } from './mcp-door/echo.ts';
import { httpPipe } from './mcp-door/http-pipe.ts';
import { cpuOf } from './process-cpu.ts';
import { load, thisMachine } from './report.ts';
import { COMMAND, Scratch, startOnPipes, startUp, stopOnPipes } from './sessions/processes.ts';
import { jsonRequest, lines, onPipes, type Pipe, RawClient } from './sessions/raw-client.ts';
import { rowsOf, rowsText, targetsText } from './sessions/report.ts';
import { compared, type Result, runRounds } from './sessions/rounds.ts';
import { judged, type TargetOutcome } from './sessions/targets.ts';
import { ANSWER_WAIT_MS, type Contender, type Measurement, type Timed, type Workload } from './sessions/workload.ts';

const SERVER_PROCESS = fileURLToPath(new URL('./mcp-door/server-process.ts', import.meta.url));
const TOKEN = 'bench-token-0123456789';
const SESSION_VERSION = '2025-11-25';
const STATELESS_VERSION = '2026-07-28';
/** Contender → file of `mcp-door/`. */
const OTHERS = {
  bare: 'bare',
  '@modelcontextprotocol/sdk': 'first-sdk',
  '@modelcontextprotocol/server': 'second-sdk',
} as const;
const SDKS = ['@modelcontextprotocol/sdk', '@modelcontextprotocol/server'] as const;
type Name = keyof typeof OTHERS | 'handfast';

/** Way → calls at a time. */
const CELLS: readonly (readonly [Way, readonly number[]])[] = [
  ['stdio', [1, 64]],
  ['sessions', [1, 32]],
  ['stateless', [1, 32]],
];

const INITIALIZE = jsonRequest('initialize', {
  protocolVersion: SESSION_VERSION,
  capabilities: {},
  clientInfo: { name: 'bench', version: '1.0.0' },
});
const INITIALIZED = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });
const ECHO = { name: 'echo', arguments: { text: 'x'.repeat(64), n: 7 } };
const ECHOED = JSON.stringify(JSON.stringify(ECHO.arguments)).slice(1, -1);
const CALL = jsonRequest('tools/call', ECHO);
const CALL_ALONE = jsonRequest('tools/call', {
  ...ECHO,
  _meta: {
    'io.modelcontextprotocol/protocolVersion': STATELESS_VERSION,
    'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  },
});

/** A server that runs. */
interface Running {
  readonly child: { readonly pid?: number | undefined };
  readonly url: URL;
  stop(): Promise<void>;
}

async function runOther(file: string, way: Way, home: string): Promise<Running> {
  const child = startOnPipes([SERVER_PROCESS, file, way], home);
  const port = new Promise<string>((resolve) => child.stdout.on('data', lineScanner(resolve)));
  const url = new URL(`http://${LOOPBACK}:${await bounded(port, 'a server was not ready', ANSWER_WAIT_MS)}/`);
  return { child, url, stop: () => stopOnPipes(child) };
}

/** Returns the configuration of Handfast's host: the tool as its users would write it. */
function configIn(home: string, more = ''): string {
  const file = join(home, 'handfast.yaml');
  writeFileSync(file, `plugins:\n  - use: ${childFile('echo-plugin.mjs')}\n${more}`);
  return file;
}

async function runUp(home: string): Promise<Running> {
  process.env.HANDFAST_BENCH_TOKEN = TOKEN;
  const auth = 'auth:\n  tokens:\n    - { name: bench, token_env: HANDFAST_BENCH_TOKEN, capabilities: [tools] }\n';
  // One client that asks without a pause reaches the share of a principal, which is meant for hosts with several.
  const limits = 'limits: { requests_per_second: 1000000, total_requests_per_second: 1000000 }\n';
  const { child, listeners, stop } = await startUp(
    home,
    configIn(home, `listen: http://${LOOPBACK}:0\n${auth}${limits}`),
  );
  return { child, url: new URL('/mcp', listeners[0]), stop };
}

/** A client that has called once, and may have this number of calls in flight. */
interface Ready {
  readonly client: RawClient;
  readonly pipe: Pipe;
}

async function greeted(pipe: Pipe, way: Way, call = CALL): Promise<Ready> {
  const client = new RawClient(pipe);
  if (way === 'stdio') {
    await client.ask(INITIALIZE, '"result":{');
    client.tell(INITIALIZED);
  }
  await client.ask(call, ECHOED);
  return { client, pipe };
}

const HTTP_HEADERS = {
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  Authorization: `Bearer ${TOKEN}`,
};

/**
 * Returns the headers of calls over HTTP: those of a session that was opened for it, or those of a request that stands
 * alone.
 */
async function callHeaders(name: Name, way: Way, url: URL): Promise<Readonly<Record<string, string>>> {
  if (way === 'stateless') {
    // The first generation does not know the revision; without these headers it serves the request all the same.
    if (name === '@modelcontextprotocol/sdk') return HTTP_HEADERS;
    const repeated = { 'MCP-Protocol-Version': STATELESS_VERSION, 'Mcp-Method': 'tools/call', 'Mcp-Name': ECHO.name };
    return { ...HTTP_HEADERS, ...repeated };
  }
  const opened = await fetch(url, { method: 'POST', headers: HTTP_HEADERS, body: INITIALIZE(1) });
  const answer = await opened.text();
  if (!answer.includes('"result":{')) throw new Error(`${name} opened no session: ${answer}`);
  const session = {
    'MCP-Protocol-Version': SESSION_VERSION,
    'Mcp-Session-Id': opened.headers.get('mcp-session-id') ?? 'none',
  };
  const headers = { ...HTTP_HEADERS, ...session };
  await (await fetch(url, { method: 'POST', headers, body: INITIALIZED })).text();
  return headers;
}

/** Opens the pipes of a way: one client for each number of calls at a time. */
async function readyAt(
  name: Name,
  way: Way,
  widths: readonly number[],
  scratch: Scratch,
  ends: AsyncDisposableStack,
): Promise<{ readonly child: Running['child']; readonly clients: ReadonlyMap<number, RawClient> }> {
  const home = scratch.make();
  if (way === 'stdio') {
    const args =
      name === 'handfast' ? [COMMAND, 'mcp', 'serve', '--config', configIn(home)] : [SERVER_PROCESS, OTHERS[name], way];
    const pipe = onPipes(args, home, lines);
    ends.defer(() => pipe.close());
    const { client } = await greeted(pipe, way);
    return { child: pipe.child, clients: new Map(widths.map((width) => [width, client])) };
  }
  const { child, url, stop } = await (name === 'handfast' ? runUp(home) : runOther(OTHERS[name], way, home));
  ends.defer(stop);
  const headers = await callHeaders(name, way, url);
  const clients = new Map<number, RawClient>();
  for (const width of widths) {
    const { client, pipe } = await greeted(httpPipe(url, width, headers), way, callOf(way));
    ends.defer(() => pipe.close());
    clients.set(width, client);
  }
  return { child, clients };
}

const callOf = (way: Way) => (way === 'stateless' ? CALL_ALONE : CALL);

/** Returns the workloads of one kind of connection. */
async function workloadsOf(
  way: Way,
  widths: readonly number[],
  scratch: Scratch,
  ends: AsyncDisposableStack,
): Promise<readonly Workload<Timed>[]> {
  const names: readonly Name[] = ['bare', 'handfast', ...SDKS];
  const servers = await Promise.all(
    names.map(async (name) => ({ name, ...(await readyAt(name, way, widths, scratch, ends)) })),
  );
  return widths.map((width) => {
    const figure = `${way}${width}`;
    const contenders = servers.map(({ name, child, clients }): Contender<Timed> => {
      const client = clients.get(width) as RawClient;
      const measure = async ({ durationMs }: Timed): Promise<Measurement> => {
        const used = cpuOf(child);
        const { answers, seconds } = await client.repeat(callOf(way), width, durationMs);
        return { [figure]: answers / seconds, [`${figure}-cpu`]: ((cpuOf(child) - used) * 1e6) / answers };
      };
      return { name, measure };
    });
    return {
      name: figure,
      transport: way === 'stdio' ? 'stdio' : 'http',
      figures: [
        { name: figure, unit: 'calls/s', lowerIsBetter: false },
        { name: `${figure}-cpu`, unit: 'µs', lowerIsBetter: true },
      ],
      contenders,
      close: async () => {},
    };
  });
}

function judgeTargets(results: readonly Result[]): readonly TargetOutcome[] {
  return results.flatMap((result) => {
    const { name } = result.workload;
    const least = name.startsWith('stateless') ? 3 : 1;
    return [
      judged(`${name} ≥ 0.6 × bare`, compared(result, 'handfast', 'bare', name), (ratio) => ratio >= 0.6),
      ...SDKS.map((sdk) =>
        judged(
          `${name} ${least === 1 ? `ahead of ${sdk}` : `≥ ${least} × ${sdk}`}`,
          compared(result, 'handfast', sdk, name),
          (ratio) => (least === 1 ? ratio > 1 : ratio >= least),
        ),
      ),
    ];
  });
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    json: { type: 'string' },
    workload: { type: 'string', multiple: true, default: [] },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 3 : 9));
const settings: Timed = { durationMs: values.quick ? 200 : 600 };
build();
const machine = thisMachine();
const { cpu, cores, system, node } = machine;
console.log(
  `${cpu}, ${cores} cores, ${system}, Node ${node}; ${rounds} rounds of ${settings.durationMs} ms; ${load()}\n`,
);
using scratch = new Scratch();
await using ends = new AsyncDisposableStack();
const workloads: Workload<Timed>[] = [];
for (const [way, widths] of CELLS) {
  const wanted = widths.filter((width) => values.workload.length === 0 || values.workload.includes(`${way}${width}`));
  if (wanted.length > 0) workloads.push(...(await workloadsOf(way, wanted, scratch, ends)));
}
const results = await runRounds(workloads, rounds, settings, (line) => void process.stderr.write(`${line}\n`));
const targets = judgeTargets(results);
console.log(`${rowsText(results)}\n\n${targetsText(targets)}\n${load()}`);
if (values.json !== undefined) {
  const document = { machine, settings: { rounds, ...settings }, rows: rowsOf(results), targets };
  writeFileSync(values.json, `${JSON.stringify(document, null, 2)}\n`);
}

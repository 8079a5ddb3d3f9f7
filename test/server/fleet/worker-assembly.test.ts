/**
 * The settings of a worker's file, as they arrive: at the programs its executor starts, and at senders of tasks. Each test
 * hands a task in at the worker's own HTTP door.
 */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Log } from '../../../src/base/log.ts';
import { loadWorkerConfig } from '../../../src/config/fleet-config.ts';
import { type AssembledWorker, assembleWorker } from '../../../src/server/fleet/worker-assembly.ts';
import { say } from '../../fleet/support/upstream-sender.ts';

const log: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Answers a worker's questions to every program, and writes down how it was started for a task. */
const PROGRAM = `#!${process.execPath}
const { appendFileSync, writeFileSync } = require('node:fs');
const words = process.argv.slice(2);
if (words.includes('--version')) console.log('1.0.0');
else if (words.some((word) => word.includes('Do nothing else'))) {
  appendFileSync(__dirname + '/measured.txt', process.cwd() + '\\n');
  console.log('{"type":"usage","input":900}');
  console.log('ok');
} else if (words.some((word) => word.includes('the task'))) {
  appendFileSync(__dirname + '/started.jsonl', JSON.stringify(words) + '\\n');
  if (process.env.CONVERSATIONS) writeFileSync(process.env.CONVERSATIONS, JSON.stringify({ [process.cwd()]: 'c-1' }));
  console.log(process.env.REPLY ?? 'done');
}
`;

interface Site {
  readonly folder: string;
  /** Folder of the repository. */
  readonly repo: string;
  /** Arguments of each run for a task. */
  readonly started: () => string[][];
  /** Starts a worker of this file. Its data is kept between two of them. */
  worker(
    yaml: string,
    env?: Record<string, string>,
    overhead?: string,
  ): Promise<AssembledWorker & { readonly url: string }>;
  /** Working directory of each empty turn that was run to measure its cost. */
  readonly measured: () => string[];
}

function site(context: TestContext): Site {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-worker-'));
  const repo = join(folder, 'repo');
  mkdirSync(repo);
  const program = join(folder, 'program.cjs');
  writeFileSync(program, PROGRAM);
  chmodSync(program, 0o755);
  const running: AssembledWorker[] = [];
  context.after(async () => {
    await Promise.all(running.map((one) => one.stop()));
    rmSync(folder, { recursive: true });
  });
  return {
    folder,
    repo,
    started() {
      const file = join(folder, 'started.jsonl');
      if (!existsSync(file)) return [];
      return readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    },
    measured() {
      const file = join(folder, 'measured.txt');
      return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
    },
    async worker(yaml, env = {}, overhead = 'overhead_tokens: 0') {
      const file = join(folder, 'worker.yaml');
      writeFileSync(file, `id: w\nrepo: repo\ndata_dir: data\n${overhead}\n${yaml}`);
      const { config } = await loadWorkerConfig(file, { env: { HANDFAST_HOME: join(folder, 'home') } });
      const assembled = await assembleWorker(config, { log, version: '1.0.0', env });
      running.push(assembled);
      await assembled.start();
      return Object.assign(assembled, { url: assembled.addresses[0] as string });
    },
  };
}

const executor = (settings: string): string =>
  `executor: { command: ./program.cjs, ${settings} }\nreceiver: { port: 0 }\n`;
/** Returns the number of ports this process listens on. */
const doors = (): number => process.getActiveResourcesInfo().filter((what) => what === 'TCPServerWrap').length;
/** Resolves when `done`; fails after 20 s. */
async function waitFor(done: () => boolean): Promise<void> {
  for (const end = performance.now() + 20_000; !done(); await setTimeout(20)) {
    assert.ok(performance.now() < end, 'not within 20 s');
  }
}
/** Returns the argument behind a word in the arguments of a run. */
const after = (words: readonly string[] | undefined, word: string): string | undefined =>
  words?.[words.indexOf(word) + 1];

test('starting a worker runs no program of the user to measure an empty turn, unless the file asks for it', async (context) => {
  const { worker, measured, repo } = site(context);
  const measuring = async (settings: string, overhead: string): Promise<string[]> => {
    const { url, stop } = await worker(executor(settings), {}, overhead);
    // The measurement starts before the endpoints open: after a task it has started, if it was to.
    await say(url, 'the task');
    if (overhead !== '') await waitFor(() => measured().length > 0);
    await stop();
    return measured();
  };
  assert.deepEqual(await measuring('kind: command', ''), []);
  const [cwd = repo, ...more] = await measuring('kind: command, output: json_lines', 'overhead: measure');
  assert.deepEqual(more, []);
  assert.notEqual(cwd, repo);
  assert.equal(existsSync(cwd), false, 'the scratch folder is removed');
});

test('the cost of an empty turn of a known agent is measured in a folder of its own, and not if the file forbids it', async (context) => {
  const { worker, measured, repo } = site(context);
  const forbidden = await worker(executor('kind: codex'), {}, 'overhead: never');
  await say(forbidden.url, 'the task');
  await forbidden.stop();
  assert.deepEqual(measured(), []);
  await worker(executor('kind: codex'), {}, '');
  await waitFor(() => measured().length > 0);
  assert.notEqual(measured()[0], repo);
});

test('codex works in the sandbox the file names', async (context) => {
  const { worker, started } = site(context);
  const { url } = await worker(executor('kind: codex, sandbox: read-only'));
  await say(url, 'the task');
  assert.equal(after(started()[0], '-s'), 'read-only');
});

test('claude is given the MCP servers of the file that is named', async (context) => {
  const { worker, started, folder } = site(context);
  const { url } = await worker(executor('kind: claude, mcp_config: servers.json, role: be brief'));
  await say(url, 'the task');
  assert.equal(after(started()[0], '--mcp-config'), join(folder, 'servers.json'));
  assert.equal(after(started()[0], '--append-system-prompt'), 'be brief');
});

test('agy is sandboxed, and its conversation is found in the file that is named', async (context) => {
  const { worker, started, folder } = site(context);
  const env = `env: { CONVERSATIONS: ${join(folder, 'conversations.json')} }`;
  const { url } = await worker(executor(`kind: agy, sandbox: true, conversations_file: conversations.json, ${env}`));
  for (const text of ['the task', 'go on with the task']) await say(url, text, { contextId: 'c' });
  const [first, second] = started();
  assert.ok(first?.includes('--sandbox') && second?.includes('--sandbox'));
  assert.deepEqual([first?.includes('--conversation'), after(second, '--conversation')], [false, 'c-1']);
});

test('an ACP agent is put into its mode and told of its MCP servers, with their secrets', async (context) => {
  const { worker, folder } = site(context);
  const agent = join(import.meta.dirname, '../../agents/acp/fixtures/scripted-agent.ts');
  const script = join(folder, 'script.json');
  const modes = {
    currentModeId: 'build',
    availableModes: ['build', 'plan'].map((id) => ({ id, name: id })),
  };
  writeFileSync(
    script,
    JSON.stringify({ capabilities: { mcpCapabilities: { http: true } }, session: { modes }, prompts: [[]] }),
  );
  const yaml = `
executor:
  kind: acp
  command: ${process.execPath}
  args: [${agent}, ${script}]
  mode: plan
  start_timeout_s: 20
  mcp_servers:
    - { name: files, command: mcp-files, args: [serve], env: { ROOT: /srv } }
    - { name: web, url: 'http://127.0.0.1:1/mcp', headers_env: { Authorization: WEB_TOKEN } }
receiver: { port: 0 }
`;
  await assert.rejects(worker(yaml), { code: 'not_configured', message: /WEB_TOKEN, for the MCP server web/ });
  const { url } = await worker(yaml, { WEB_TOKEN: 'Bearer w' });
  await say(url, 'the task');
  const requests = readFileSync(`${script}.requests`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { method: string; params: { mcpServers: unknown; modeId: unknown } });
  const told = (method: string) => requests.find((request) => request.method === method)?.params;
  assert.deepEqual(told('session/new')?.mcpServers, [
    { name: 'files', command: 'mcp-files', args: ['serve'], env: [{ name: 'ROOT', value: '/srv' }] },
    {
      type: 'http',
      name: 'web',
      url: 'http://127.0.0.1:1/mcp',
      headers: [{ name: 'Authorization', value: 'Bearer w' }],
    },
  ]);
  assert.equal(told('session/set_mode')?.modeId, 'plan');
});

/** Starts an orchestrator that takes late replies. */
async function orchestrator(context: TestContext) {
  const calls: { readonly token: string | undefined; readonly body: string }[] = [];
  const heard = Promise.withResolvers<void>();
  const server = createServer((request: IncomingMessage, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      calls.push({ token: request.headers.authorization, body });
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ jsonrpc: '2.0', id: 1, result: { message: { role: 'agent', parts: [{ text: 'thanks' }] } } }),
      );
      heard.resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  context.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, heard: heard.promise };
}

test('in managed mode a sender is answered at once, and its orchestrator is called with the result', async (context) => {
  const { worker, folder } = site(context);
  const { url: address, calls, heard } = await orchestrator(context);
  writeFileSync(join(folder, 'lead.token'), 'of-the-lead\n');
  const { url } = await worker(
    `
executor: { kind: command, command: ${join(folder, 'program.cjs')}, env: { REPLY: it is done } }
receiver:
  token_env: ANYBODY
  senders:
    - { name: lead, token_file: lead.token, callback: { url: '${address}', token_env: BACK } }
`,
    { ANYBODY: 'of-anybody', BACK: 'back' },
  );
  const managed = await say(url, 'the task', { token: 'of-the-lead' });
  assert.doesNotMatch(managed.text, /it is done/);
  await heard;
  assert.equal(calls[0]?.token, 'Bearer back');
  assert.match(calls[0]?.body ?? '', /it is done/);
  const waited = await say(url, 'the task', { token: 'of-anybody' });
  assert.match(waited.text, /it is done/);
  assert.equal((await say(url, 'the task', { token: 'of-nobody' })).status, 401);
});

test('a receiver without a token calls back too', async (context) => {
  const { worker, folder } = site(context);
  const { url: address, calls, heard } = await orchestrator(context);
  const { url } = await worker(`
executor: { kind: command, command: ${join(folder, 'program.cjs')} }
receiver: { callback: { url: '${address}' } }
`);
  await say(url, 'the task');
  await heard;
  assert.equal(calls[0]?.token, undefined);
});

test('a worker whose second door cannot be opened leaves the first one closed', async (context) => {
  const { worker, folder } = site(context);
  const { url: taken } = await orchestrator(context);
  const port = Number(new URL(taken).port);
  const yaml = `
executor: { kind: command, command: ${join(folder, 'program.cjs')} }
receiver: { port: 0 }
a2a: { port: ${port} }
`;
  const before = doors();
  await assert.rejects(worker(yaml), { code: 'runtime_error' });
  assert.equal(doors(), before);
});

test('an empty token file is no token that everybody has', async (context) => {
  const { worker, folder } = site(context);
  writeFileSync(join(folder, 'empty.token'), '\n');
  const yaml = `
executor: { kind: command, command: ${join(folder, 'program.cjs')} }
receiver: { token_file: empty.token }
`;
  await assert.rejects(worker(yaml), { code: 'not_configured', message: /empty\.token is empty/ });
});

test('behind a proxy that the file names, a client that guesses delays itself alone, at each endpoint', async (context) => {
  const { worker, folder } = site(context);
  const endpoint = '{ port: 0, token_env: T, trusted_proxies: [127.0.0.0/8] }';
  const yaml = `
executor: { kind: command, command: ${join(folder, 'program.cjs')} }
receiver: ${endpoint}
a2a: ${endpoint}
`;
  const { addresses } = await worker(yaml, { T: 'of-the-sender' });
  for (const [address, path] of [
    [addresses[0], '/jsonrpc'],
    [addresses[1], '/a2a'],
  ] as const) {
    const guess = async (client: string): Promise<number> => {
      const from = { 'X-Forwarded-For': client, Authorization: 'Bearer wrong', 'Content-Type': 'application/json' };
      return (await fetch(`${address}${path}`, { method: 'POST', headers: from, body: '{}' })).status;
    };
    for (let at = 0; at < 7; at++) assert.equal(await guess('192.0.2.1'), 401);
    const order: string[] = [];
    await Promise.all([
      guess('192.0.2.1').then(() => order.push('the guesser')),
      guess('192.0.2.2').then(() => order.push('another')),
    ]);
    assert.deepEqual(order, ['another', 'the guesser'], path);
  }
});

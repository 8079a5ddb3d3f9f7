/**
 * A tour: one agent uses every capability of one host over one connection. It reads the documents of this project,
 * remembers its findings, plans, chooses, plays, and lets a subagent work for it.
 *
 * Run it with `node -C handfast-source examples/tour.ts`; it needs the packages `quickjs-emscripten`,
 * `@modelcontextprotocol/client` and `@modelcontextprotocol/server-everything`. Variables of the process: TRANSPORT
 * (`unix`; also `tcp`, `http`, `ws`, `stdio`), KILL (the number of a step: before it the host is killed with SIGKILL
 * and started again; state that should outlive it does; on `stdio` it needs `pgrep`), HOST (the address of a host, a
 * recorder or a replay that runs already; then none is started), TOKEN (for that one).
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { type Agent, connect } from 'handfast';
import { handfast, prepareHost } from './tour/host.ts';

// The subagent of the last step: a program that is an agent of the host over its own pipes.
if (process.argv[2] === 'scout') {
  await using scout = await connect('stdio:', { capabilities: ['multi_agent', 'tools'] });
  await scout.multi_agent.serveTasks(async ({ instruction }) => {
    const { data } = await scout.tools.call<{ content: string }>('read_file', { path: instruction });
    return { headings: data?.content.split('\n').filter((line) => line.startsWith('#')).length };
  });
}

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
const env = { ...process.env, HANDFAST_HOME: join(folder, 'home') };
const { HOST: given, TOKEN: token, TRANSPORT: transport = 'unix' } = process.env;
const killBefore = Number(process.env.KILL ?? 0);

// #region agent
const capabilities = [
  'tools',
  'toolkits',
  'proc',
  'skill',
  'mcp',
  'memory',
  'planning',
  'learning',
  'env',
  'chains',
  'multi_agent',
] as const;
type Guide = Agent<(typeof capabilities)[number]>;
// #endregion

let host: ChildProcess | undefined;
let address =
  { tcp: 'tcp://127.0.0.1:0', unix: `unix://${join(folder, 'host.sock')}` }[transport] ?? 'http://127.0.0.1:0';
let agent: Guide;
/** Findings on the way. */
const seen = { words: 0, plan: '', headings: 0 };

const steps: readonly (readonly [capability: string, run: () => Promise<string>])[] = [
  [
    'tools',
    async () => {
      const { data } = await agent.tools.call<{ content: string }>('read_file', { path: 'README.md', limit: 3 });
      return data?.content.split('\n')[2]?.replaceAll('*', '') ?? '';
    },
  ],
  [
    'toolkits',
    async () => {
      const { data } = await agent.tools.call<{ passages: { path: string }[] }>('search_files', {
        query: 'host was killed resume cursor',
      });
      return `what happens when a host is killed: ${data?.passages[0]?.path}`;
    },
  ],
  [
    'proc',
    async () => {
      const count = await agent.proc.spawn([process.execPath, '-p', 'fs.readdirSync(".").length']);
      let printed = '';
      for await (const { text } of count.output()) printed += text;
      return `a program counted ${printed.trim()} documents, exit code ${(await count.wait()).code}`;
    },
  ],
  [
    'skill',
    async () => {
      const { data } = await agent.skill.call<{ words: number }>('word-count', { path: 'README.md' });
      seen.words = data?.words ?? 0;
      return `README.md has ${seen.words} words, counted in a sandbox`;
    },
  ],
  [
    'mcp',
    async () =>
      `a server of the Model Context Protocol: ${(await agent.mcp.call('everything', 'get-sum', { a: 40, b: 2 })).summary}`,
  ],
  [
    'memory',
    async () => {
      const memory = await agent.memory.open({ namespace: 'tour' });
      await memory.store({ key: 'readme', content: `README.md has ${seen.words} words` });
      const { entries } = await memory.search('how long is the readme');
      return `remembered: ${entries[0]?.content}`;
    },
  ],
  [
    'planning',
    async () => {
      const { plan_id } = await agent.planning.createPlan('tour', { key: 'tour' });
      seen.plan = plan_id;
      const count = await agent.planning.add(plan_id, 'Count the words', { key: 'count' });
      await agent.planning.add(plan_id, 'Play', { key: 'play', deps: [count.task_id] });
      const claim = await agent.planning.claim(plan_id, { taskId: count.task_id });
      await claim?.done('by the skill');
      return `done: ${claim?.task.title}; ready: ${(await agent.planning.ready(plan_id)).tasks[0]?.title}`;
    },
  ],
  [
    'learning',
    async () => {
      for (let round = 0; round < 40; round++) {
        const { option, experienceId } = await agent.learning.decide('ice', ['right', 'wrong'], { seed: round });
        await agent.learning.reward(experienceId, option === 'right' ? 1 : 0);
      }
      const { recommendations } = await agent.learning.adapt('ice');
      return `40 rewards recommend the option ${recommendations?.[0]?.option}`;
    },
  ],
  [
    'env',
    async () => {
      await using episode = await agent.env.reset<number, number>('FrozenLake-v1', {
        seed: 7,
        make: { is_slippery: false },
      });
      for (const move of [1, 1, 2, 1, 2, 2]) await episode.step(move);
      return `crossed the frozen lake, reward ${episode.latest.reward}`;
    },
  ],
  [
    'chains',
    async () => {
      const { success, outputs, error } = await agent.chains.run(
        {
          nodes: [
            { node_id: 'list', kind: 'tool', name: 'glob', input: { patterns: ['*.md'] } },
            {
              node_id: 'each',
              kind: 'map',
              items_path: '$.list.paths',
              map_node: 'count',
              parallel: 4,
              after: ['list'],
            },
            { node_id: 'count', kind: 'skill', name: 'word-count', input_map: { path: '$.item' } },
            { node_id: 'total', kind: 'reduce', reduce: { jmespath: 'sum([].words)' }, after: ['each'] },
          ],
        },
        { total: 0 },
        { chainId: 'tour' },
      );
      assert.ok(success, JSON.stringify(error));
      return `${(outputs.each as unknown[]).length} documents have ${outputs.total} words`;
    },
  ],
  [
    'multi_agent',
    async () => {
      const scout = await agent.multi_agent.spawn('scout');
      const { result } = await scout.run('README.md');
      await scout.terminate();
      return `a subagent found ${result?.headings} headings in README.md`;
    },
  ],
];

if (given === undefined) await prepareHost(folder, env);
agent = await start();
try {
  console.log(`granted: ${[...agent.capabilities.keys()].join(', ')}`);
  for (const [at, [capability, run]] of steps.entries()) {
    if (at + 1 === killBefore) await killed();
    console.log(`${at + 1}. ${capability}: ${await run()}`);
  }
  if (steps.length + 1 === killBefore) await killed();
  const memory = await agent.memory.open({ namespace: 'tour' });
  const [board] = await agent.planning.boards(seen.plan);
  const runs = await agent.chains.status('tour');
  console.log(
    `kept: ${(await memory.get('readme'))?.content}; done: ${board?.tasks.done?.[0]?.title}; the chain is ${runs.run.state}`,
  );
} finally {
  await agent.close();
  host?.kill();
  if (host?.exitCode === null) await once(host, 'exit');
  await rm(folder, { recursive: true, force: true });
}

/** Connects to the host, which is another process. On pipes the connection starts it. */
async function start(): Promise<Guide> {
  if (given !== undefined) return connect(given, { capabilities, token });
  if (transport === 'stdio') {
    const command = handfast('stdio')
      .map((word) => JSON.stringify(word))
      .join(' ');
    return connect(`stdio:${command}`, { capabilities, cwd: folder, env });
  }
  const { listeners, token_file } = await up();
  address = listeners[0] ?? '';
  const url = transport === 'ws' ? `${address.replace('http', 'ws')}/ws` : address;
  return connect(url, { capabilities, token: (await readFile(token_file, 'utf8')).trim() });
}

async function up(): Promise<{ listeners: string[]; token_file: string }> {
  const [program = '', ...words] = handfast('up', '--json', '--listen', address);
  host = spawn(program, words, { cwd: folder, env, stdio: ['ignore', 'pipe', 'ignore'] });
  const [line] = await once(createInterface({ input: host.stdout as Readable }), 'line');
  return JSON.parse(String(line));
}

/** Kills the host without a warning, and starts it again: another process with the same folders. The agent finds it by itself. */
async function killed(): Promise<void> {
  if (host === undefined) {
    // On pipes the connection has started the host: it is the child of this process.
    const { stdout } = await promisify(execFile)('pgrep', ['-f', '-P', String(process.pid), ' stdio$']);
    for (const pid of stdout.trim().split('\n')) process.kill(Number(pid), 'SIGKILL');
    await agent.closed;
    agent = await start();
    console.log('the host was killed, and is up again; what it stored is there');
    return;
  }
  const ended = once(host, 'exit');
  host.kill('SIGKILL');
  await ended;
  await up();
  await agent.ping();
  console.log('the host was killed, and is up again; the session continues');
}

/**
 * The environment of a worker, lent to the executors of its tasks: the parts that a real program reaches with the token of its
 * task, and those that nothing reaches with it.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createLog } from '../../../src/base/log.ts';
import { canCover } from '../../../src/base/workspace/path-cover.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { loadFleetConfig } from '../../../src/config/fleet-config.ts';
import { environmentServer } from '../../../src/fleet/executors/acp/environment-server.ts';
import type { Orchestrator } from '../../../src/fleet/orchestrator/orchestrator-options.ts';
import type { TaskSpec } from '../../../src/fleet/orchestrator/task.ts';
import { type RunningServer, serve } from '../../../src/server/serve.ts';
import { User } from '../../cli/command.ts';
import { eventually } from '../../faults/support/fleet-server.ts';
import { repository } from '../../fleet/support/git-repository.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

const AGENT = join(import.meta.dirname, '..', '..', 'fleet', 'support', 'environment-agent.mjs');

/** The environment that the program of the tests got. */
interface Given {
  readonly url: string;
  readonly token: string;
  readonly session: string;
  readonly pid: number;
}

interface Plan {
  readonly calls?: readonly (readonly [string, object])[];
  readonly wait?: boolean;
  readonly tells?: boolean;
}

class Fleet {
  readonly notes: string;
  readonly orchestrator: Orchestrator;
  readonly folder: string;
  /** Of the worker. */
  readonly worker: string;
  readonly data: string;
  readonly log: string[];

  readonly close: () => Promise<void>;

  constructor(folder: string, server: RunningServer, data: string, log: string[]) {
    assert.ok(server.fleet !== undefined);
    this.orchestrator = server.fleet.orchestrator;
    this.close = () => server.close(0);
    this.folder = folder;
    this.worker = join(folder, 'home', 'fleet', 'lending', 'workers', 'w');
    this.notes = join(folder, 'notes');
    this.data = data;
    this.log = log;
  }

  async submit(plan: Plan, spec: Partial<TaskSpec> = {}): Promise<string> {
    const brief = `Do this: «${JSON.stringify(plan)}»`;
    return (await this.orchestrator.submit({ brief, reply_schema: 'prose', ...spec })).task_id;
  }

  /** Returns the environment of its program, once it has called everything but the last wait. */
  async given(task: string): Promise<Given> {
    const file = join(this.notes, `${task}.json`);
    await eventually(() => existsSync(file) && readFileSync(file, 'utf8') !== '', `the notes of ${task}`);
    return JSON.parse(readFileSync(file, 'utf8')) as Given;
  }

  go(task: string): void {
    writeFileSync(join(this.notes, `${task}.go`), '');
  }

  async ended(task: string) {
    const { record } = await this.orchestrator.result(task, AbortSignal.timeout(60_000));
    return record;
  }

  /** Returns the output of the program of an ended task. */
  async printed(task: string): Promise<{ tools?: string[]; name?: string; failed?: boolean; text?: string }[]> {
    const record = await this.ended(task);
    assert.equal(record.state, 'done', JSON.stringify(record.result));
    return JSON.parse(/^\[.*\]$/m.exec(record.result?.prose ?? '')?.[0] ?? 'null');
  }

  /** Returns every file of the fleet that its owner can read, as one text. */
  stored(): string {
    const texts: string[] = [];
    const visit = (folder: string): void => {
      for (const name of readdirSync(folder)) {
        const path = join(folder, name);
        if (statSync(path).isDirectory()) visit(path);
        else if (statSync(path).isFile()) texts.push(readFileSync(path, 'latin1'));
      }
    };
    for (const folder of [this.data, join(this.folder, 'home')]) visit(folder);
    return texts.join('\n');
  }
}

const fleetYaml = (folder: string, environment: string): string => `
name: lending
data_dir: data
listen: http://127.0.0.1:0
workers:
  - id: w
    repo: app
    executor:
      kind: command
      command: ${JSON.stringify(process.execPath)}
      args: [${JSON.stringify(AGENT)}]
      env: { AGENT_NOTES: ${JSON.stringify(join(folder, 'notes'))} }
    environment: ${environment}
`;

async function fleetWith(t: TestContext, environment: string): Promise<Fleet> {
  const folder = temporaryFolder(t);
  await repository(join(folder, 'app'));
  mkdirSync(join(folder, 'notes'));
  const surroundings = { cwd: folder, env: { ...process.env, HANDFAST_HOME: join(folder, 'home') } };
  writeFileSync(join(folder, 'handfast.yaml'), '');
  writeFileSync(join(folder, 'fleet.yaml'), fleetYaml(folder, environment));
  const config = await loadFleetConfig('fleet.yaml', surroundings);
  const host = await loadConfig('handfast.yaml', surroundings);
  const control = { ...host.control, enabled: true, dataDir: join(config.dataDir, 'sessions') };
  const lines: string[] = [];
  const log = createLog({ level: 'debug', write: (line: string) => void lines.push(line) });
  const server = await serve({ ...host, listen: config.listen, control }, { fleet: config, announce: false, log });
  t.after(() => server.close(0));
  return new Fleet(folder, server, config.dataDir, lines);
}

/** True while a process has these words. */
const runs = (...words: readonly string[]): boolean =>
  readdirSync('/proc').some((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(join('/proc', name, 'cmdline'), 'utf8') === `${words.join('\0')}\0`;
    } catch {
      return false;
    }
  });

/** Sends a request with a token, as a thief sends it. */
async function asked(
  { url, token, session }: Given,
  method = 'tools/list',
  params: object = {},
): Promise<{ status: number; text: string }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-session-id': session,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 99, method, params }),
  });
  return { status: response.status, text: await response.text() };
}

test('a program uses the tools of its worker in the folder of the task, and its token dies with the task', async (t) => {
  const fleet = await fleetWith(t, '{ tools: { risks: [destructive] } }');
  const calls = [['write_file', { path: 'b.txt', content: 'two\n' }]] as const;
  const task = await fleet.submit({ calls, wait: true, tells: true });
  const given = await fleet.given(task);
  await eventually(() => existsSync(join(fleet.folder, 'app', 'b.txt')), 'the file');
  assert.equal((await asked(given)).status, 200);
  const words = readFileSync(`/proc/${given.pid}/cmdline`, 'latin1');
  assert.ok(words.includes('environment-agent') && !words.includes(given.token), 'no argument has it');
  fleet.go(task);
  const [listed, written] = await fleet.printed(task);
  assert.deepEqual(listed?.tools?.toSorted(), ['edit_file', 'glob', 'grep', 'list_dir', 'read_file', 'write_file']);
  assert.deepEqual(written, { name: 'write_file', failed: false, text: String(written?.text) });
  const record = await fleet.ended(task);
  assert.deepEqual(record.result?.artifacts?.files_changed, ['b.txt']);
  assert.match(record.result?.prose ?? '', /my token is \[token of the environment\]/);
  assert.equal((await asked(given)).status, 401);
  await fleet.close();
  const audited = readFileSync(join(fleet.worker, 'environment', 'audit.jsonl'), 'utf8');
  const lines = audited
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(lines.some(({ tool, outcome }) => tool === 'write_file' && outcome === 'ok'));
  assert.deepEqual([...new Set(lines.map(({ principal, task }) => `${principal} ${task}`))], [`w ${task}`]);
  assert.ok(!fleet.stored().includes(given.token) && !fleet.log.join('').includes(given.token), 'it is stored nowhere');
});

test('a task gets no more than its worker lends and no more than it asks for', async (t) => {
  const fleet = await fleetWith(
    t,
    '{ tools: { risks: [exec, destructive, network], deny: [glob] }, capabilities: [tools, memory] }',
  );
  const write = ['write_file', { path: 'b.txt', content: 'two' }] as const;
  const shell = ['shell', { command: 'echo ran' }] as const;
  const glob = ['glob', { pattern: '*' }] as const;
  const store = ['memory_store', { key: 'k', content: 'v' }] as const;
  const search = ['memory_search', {}] as const;
  const forget = ['memory_forget', { keys: ['k'] }] as const;
  const [denied, absent, searched] = [/tool_denied/, /unknown tool/i, /"entries"/];
  const outside = ['read_file', { path: '../notes/x' }] as const;
  const cases: [string, Partial<TaskSpec>, readonly (readonly [string, object])[], RegExp[]][] = [
    ['all that is lent', {}, [shell, glob, store, outside], [/ran/, /glob/, /stored/, /outside|denied/]],
    ['reading alone', { access: 'read' }, [write, shell, store, search], [denied, denied, absent, searched]],
    [
      'reading the memory alone',
      { access: 'read', environment_capabilities: ['memory'] },
      [store, forget, search],
      [absent, absent, searched],
    ],
    ['named tools', { environment_tools: ['read_*', 'glob'] }, [write, glob, store], [denied, denied, absent]],
    ['named memory', { environment_tools: ['memory_store'] }, [store, forget], [/stored/, absent]],
    ['no tools', { environment_capabilities: ['memory'] }, [shell, store], [/shell|not granted|unknown/i, /stored/]],
    ['another capability', { environment_capabilities: ['proc', 'tools'] }, [store], [/memory_store/]],
  ];
  for (const [name, spec, calls, texts] of cases) {
    const task = await fleet.submit({ calls }, { worktree: true, ...spec });
    const [, ...results] = await fleet.printed(task);
    for (const [at, { text = '' }] of results.entries())
      assert.match(text, texts[at] as RegExp, `${name}: ${JSON.stringify(calls[at])}`);
  }
  const none = await fleet.submit({}, { environment_capabilities: [] });
  assert.deepEqual(await fleet.printed(none), []);
  assert.equal((await fleet.given(none)).token, undefined);
});

test('a task that is cancelled loses its environment at once: what it called is cancelled and answered with 401', async (t) => {
  const fleet = await fleetWith(t, '{ tools: { risks: [exec, destructive, network] } }');
  const task = await fleet.submit({ wait: true });
  const given = await fleet.given(task);
  const mark = join(fleet.folder, 'app', 'started');
  // Found by its argument: in its sandbox it has another process id.
  const seconds = `600${process.pid}`;
  const call = { name: 'shell', arguments: { command: `touch started; exec sleep ${seconds}` } };
  const running = asked(given, 'tools/call', call);
  const ended = running.then(({ status, text }) => assert.fail(`the call has ended: ${status} ${text}`));
  ended.catch(() => {});
  await Promise.race([ended, eventually(() => existsSync(mark) && runs('sleep', seconds), 'the call')]);
  await fleet.orchestrator.cancel(task);
  const { status, text } = await running;
  // A call that has become a stream has its status already.
  assert.ok(status === 401 || /withdrawn/.test(text), `${status} ${text}`);
  assert.equal((await asked(given)).status, 401);
  await eventually(() => !runs('sleep', seconds), 'the end of what it started');
  assert.equal((await fleet.ended(task)).state, 'canceled');
});

test('a program of a task finds nothing of the data of its worker, which replaces its files meanwhile', {
  skip: !(await canCover()) && 'needs bubblewrap',
}, async (t) => {
  const fleet = await fleetWith(t, '{ tools: { risks: [exec, destructive, network] } }');
  const stored = ['keys.json', 'later.json', 'worktrees/other/secret'].map((path) => join(fleet.worker, path));
  const put = (): void => {
    for (const file of stored) {
      rmSync(file, { force: true });
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, 'a secret');
    }
  };
  put();
  rmSync(join(fleet.worker, 'later.json'));
  const marks = join(fleet.notes, 'program');
  const command = `touch ${marks}; until [ -e ${marks}.end ]; do sleep 0.05; done; cat a.txt ${stored.join(' ')} 2> errors; touch made`;
  const task = await fleet.submit({ calls: [['shell', { command }]] }, { worktree: true, access: 'write' });
  await eventually(() => existsSync(marks), 'the program');
  rmSync(join(fleet.worker, 'worktrees/other'), { recursive: true });
  put();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  writeFileSync(`${marks}.end`, '');
  const [, result] = await fleet.printed(task);
  assert.match(result?.text ?? '', /one/);
  assert.doesNotMatch(result?.text ?? '', /a secret/);
  assert.deepEqual((await fleet.ended(task)).result?.artifacts?.files_changed, ['errors', 'made']);
});

test('tasks that run at once know nothing of each other: neither token nor session of one is of use to another', async (t) => {
  const fleet = await fleetWith(t, '{}');
  const tasks = [
    await fleet.submit({ wait: true }, { access: 'read' }),
    await fleet.submit({ wait: true }, { access: 'read', environment_tools: ['list_dir'] }),
  ] as const;
  const [one, other] = [await fleet.given(tasks[0]), await fleet.given(tasks[1])];
  assert.notEqual(one.token, other.token);
  for (const [{ pid }, { token }] of [
    [one, other],
    [other, one],
  ] as const) {
    assert.ok(!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(token));
  }
  assert.equal((await asked({ ...other, session: one.session })).status, 404, 'a session of another task');
  const read = { name: 'read_file', arguments: { path: 'a.txt' } };
  assert.match((await asked(one, 'tools/call', read)).text, /one/);
  assert.match((await asked(other, 'tools/call', read)).text, /tool_denied/);
  fleet.go(tasks[0]);
  await fleet.ended(tasks[0]);
  assert.equal((await asked(one)).status, 401);
  assert.equal((await asked(other)).status, 200, 'the other still runs');
  fleet.go(tasks[1]);
  await fleet.ended(tasks[1]);
  assert.equal((await asked(other)).status, 401);
});

test('a worker that is killed takes its tokens with it', async (t) => {
  const user = new User();
  t.after(() => user.leave());
  await repository(join(user.cwd, 'app'));
  mkdirSync(join(user.cwd, 'notes'));
  const file = user.write('fleet.yaml', fleetYaml(user.cwd, '{}'));
  const start = async () => {
    const command = user.start(['fleet', 'up', file, '--json']);
    await command.says('\n');
    return command;
  };
  const first = await start();
  const brief = `«${JSON.stringify({ wait: true })}»`;
  const { task_id } = await user.json(['task', 'submit', brief, '--reply', 'prose']);
  const notes = join(user.cwd, 'notes', `${task_id}.json`);
  await eventually(() => existsSync(notes) && readFileSync(notes, 'utf8') !== '', 'the notes');
  const given = JSON.parse(readFileSync(notes, 'utf8')) as Given;
  assert.equal((await asked(given)).status, 200);
  first.child.kill('SIGKILL');
  await first.ended();
  await assert.rejects(asked(given), 'its address is gone');
  const second = await start();
  const next = await user.json(['task', 'submit', brief, '--reply', 'prose', '--access', 'read', '--context', 'next']);
  const later = join(user.cwd, 'notes', `${next.task_id}.json`);
  await eventually(() => existsSync(later) && readFileSync(later, 'utf8') !== '', 'the notes of the next task');
  const { url } = JSON.parse(readFileSync(later, 'utf8')) as Given;
  assert.equal((await asked({ ...given, url })).status, 401, 'nor does the worker that follows know it');
  second.child.kill('SIGTERM');
});

test('an agent that connects to programs only reaches the environment through one, until its task ends', async (t) => {
  const fleet = await fleetWith(t, '{}');
  const task = await fleet.submit({ wait: true });
  const given = await fleet.given(task);
  const { command, args, env } = environmentServer({ name: 'handfast', ...given }, {}) as {
    command: string;
    args: string[];
    env: Record<string, string>;
  };
  const client = new Client({ name: 'agent', version: '1' });
  await client.connect(new StdioClientTransport({ command, args, env }));
  t.after(() => client.close());
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'read_file'));
  const read = { name: 'read_file', arguments: { path: 'a.txt' } };
  assert.match(JSON.stringify((await client.callTool(read)).content), /one/);
  fleet.go(task);
  await fleet.ended(task);
  await assert.rejects(client.callTool(read), /401/);
});

/**
 * Every example that a help shows is run by a shell, for a user who has a host, a fleet, keys of providers and the files that
 * the examples name, and ends with exit code 0. Examples that cannot be run are listed with the reason.
 *
 * `test/docs.test.ts` finds commands without an example. Ids, ports and addresses of an example stand for those of this run.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { examples } from '../../src/cli/examples.ts';
import { startModelServer } from '../../src/testing/model-server.ts';
import { ownPort } from '../support/own-port.ts';
import { type Command, type Json, User } from './command.ts';
import { newRepository } from './fleet-bench.ts';

/** Examples that are not run, with the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'handfast auth login anthropic': 'a person types the key at a terminal: test/cli/auth.test.ts',
  'handfast auth login anthropic              # asks for the key': 'the same',
  'handfast auth login openai --device': 'a person signs in at the provider, over the network',
  'handfast env serve-gym CartPole-v1': 'needs the Python package gymnasium: test/capabilities/env/gym-bridge.test.ts',
  'handfast env serve-gym ALE/Pong-v5 --module ale_py --python ./venv/bin/python': 'the same',
  'handfast mcp login tracker': 'a person signs in at the server, in a browser: test/mcp/sign-in.test.ts',
  'handfast mcp login tracker --no-browser': 'the same',
  'handfast chain status 3f9c2a17': 'a run with these nodes: test/cli/documents.slow.test.ts',
  'handfast chain status 3f9c2a17 --svg run.svg': 'the same',
  'handfast chain history 3f9c2a17 --node build': 'the same',
  'handfast chain pause 3f9c2a17': 'the same',
  'handfast chain resume 3f9c2a17': 'the same',
  'handfast chain resume 3f9c2a17 --rerun build': 'the same',
  'handfast chain retry-from 3f9c2a17 build': 'the same',
  'handfast chain cancel 3f9c2a17': 'the same',
  'handfast chain approve 3f9c2a17 may_merge': 'the same',
  'handfast chain approve 3f9c2a17 may_merge --deny': 'the same',
  'handfast chain deliver 3f9c2a17 deployed \'{"version": 3}\'': 'the same',
  'handfast record --out tools.rec --connect tcp://127.0.0.1:4701 --listen tcp://127.0.0.1:0':
    'waits for a client: test/cli/record.slow.test.ts',
  'handfast record --out tools.rec --connect http://127.0.0.1:4700 --listen http://127.0.0.1:4710': 'the same',
  'handfast record run --out tools.rec -- handfast stdio': 'the same',
  'handfast record check tools.rec': 'needs a recording: test/cli/record.slow.test.ts',
  'handfast record check tools.rec --json': 'the same',
  'handfast record export tools.rec tools.ndjson': 'the same',
  'handfast record import tools.ndjson tools.rec': 'the same',
  'handfast replay tools.rec --as client --connect tcp://127.0.0.1:4701': 'the same',
  'handfast replay tools.rec --listen tcp://127.0.0.1:0': 'the same',
  'handfast replay tools.rec --listen http://127.0.0.1:4710 --once --speed as-recorded': 'the same',
  'handfast diff before.rec after.rec': 'the same',
  "handfast diff before.rec after.rec --all --volatile '/data/data/now' --json": 'the same',
  'handfast conformance a2e --target http://127.0.0.1:8000 --tool echo':
    'a target of the reader: test/conformance/command.test.ts',
  'handfast conformance a2e --target \'stdio:handfast stdio\' --tool list_dir --args \'{"path":"."}\'':
    'minutes: test/conformance/',
  'handfast conformance a2e --target tcp://127.0.0.1:4701 --token-file token --level must --junit a2e.xml': 'the same',
  'handfast conformance a2e --target ws://127.0.0.1:8000/ws --filter "A2E-HS-*" --filter ping': 'the same',
  "handfast conformance session-rpc --target 'stdio:handfast rpc'": 'the same',
  'handfast conformance session-rpc --target ws://127.0.0.1:4700/rpc --token-file token --junit rpc.xml': 'the same',
  "handfast conformance fleet --target 'stdio:handfast worker --stdio --id trial-1 --executor rehearsal --repo .'":
    'the same',
  'handfast conformance fleet --target tcp://127.0.0.1:4701 --token-file token': 'the same',
  'handfast conformance fleet --listen tcp://127.0.0.1:4701': 'the same',
  'handfast demo': 'half a minute of processes: test/cli/demo.test.ts',
  'handfast demo --json': 'the same',
  'handfast proc attach 3f9c2a17': 'a person sits at a terminal: test/capabilities/proc/attach.test.ts',
  'handfast worker claude.yaml --join nats://10.0.0.5:4222': 'needs claude, and a NATS server on another machine',
};

/** Examples that run until Ctrl-C, with their output once they are ready. */
const UNTIL_INTERRUPTED: Readonly<Record<string, string>> = {
  'handfast init && handfast up    # a host in this folder, with a first plugin': 'Ctrl-C',
  'handfast up': 'Ctrl-C',
  'handfast up --port 0 --json': '"ready":true',
  'handfast up --listen tcp://127.0.0.1:4701 --listen unix:///run/user/1000/handfast.sock': 'Ctrl-C',
  'handfast fleet up fleet.yaml': 'Ctrl-C',
  'handfast fleet up --listen tcp://127.0.0.1:4701 --json': '"ready":true',
  'handfast worker --id trial-1 --executor rehearsal --repo .': 'has joined',
  'handfast tail 5f0c0a3e --follow': 'reply',
  'handfast plan watch release': 'Ctrl-C',
  'handfast plan watch release --after 0 --json': 'title',
  'handfast audit ls --principal local --follow': 'handshake/req',
};

/** Exit codes of examples that end by Ctrl-C alone, as 130 says. */
const CODES: Readonly<Record<string, number>> = {
  'handfast tail 5f0c0a3e --follow': 130,
  'handfast plan watch release': 130,
  'handfast plan watch release --after 0 --json': 130,
  'handfast audit ls --principal local --follow': 130,
};

/** Part of the output of an example, where an exit code alone would hide that it does nothing. */
const PRINTS: Readonly<Record<string, RegExp>> = {
  'handfast mcp tools everything': /^everything__echo /m,
  'handfast audit ls --since 1h': /^\d{4}-.* local +handshake\/req +ok/m,
  'handfast tools search "text file"': /^read_file /m,
  'handfast session ls --all --cwd . --json': /"session_id"/,
  'handfast session steer last "only the tests, please"': /injected/,
  'handfast session interrupt last': /interrupted/,
  'handfast approve ls': /3f9c2a17|pending/,
  'handfast route explain last': /trial-1/,
};

/** A user, and the surroundings that the examples need. */
class Reader {
  readonly user = new User();
  readonly env: Readonly<Record<string, string>>;
  /** Placeholders of the examples, and the values that stand for them. */
  readonly places = new Map<string, string>();
  /** Lines that were run. */
  readonly ran = new Set<string>();

  constructor(t: TestContext, env: Readonly<Record<string, string>> = {}) {
    t.after(() => this.user.leave());
    const bin = join(this.user.folder, 'bin');
    mkdirSync(bin);
    const words = this.user.line([]).map((word) => `'${word}'`);
    writeFileSync(join(bin, 'handfast'), `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`);
    chmodSync(join(bin, 'handfast'), 0o755);
    this.env = { HANDFAST_KEYRING: 'off', ...env, PATH: `${bin}${delimiter}${process.env.PATH}` };
    const repo = newRepository(join(this.user.folder, 'repo'));
    cpSync(repo, this.user.cwd, { recursive: true });
    const files: Readonly<Record<string, string>> = {
      'README.md': 'one\ntwo\nthree\n',
      'notes.txt': 'one note\n',
      'brief.md': 'say "done"\n',
      'key.txt': 'sk-or-0123456789\n',
      'package.json': '{ "scripts": { "test": "true" } }\n',
      'tasks.yaml':
        'tasks:\n  - { id: first, brief: say "first" }\n  - { id: second, brief: say "second", after: first }\n',
    };
    for (const [name, text] of Object.entries(files)) this.user.write(name, text);
  }

  /** Starts the servers that the examples find running, and waits until the output has `ready`. */
  async start(words: readonly string[], ready = '"ready":true'): Promise<Command> {
    const command = this.user.start(words, { env: this.env });
    await command.says(ready);
    return command;
  }

  /** Has a process that runs; the example names the newest. */
  async runs(): Promise<void> {
    this.user.start(['proc', 'run', '--', 'sleep', '600'], { env: this.env });
    const running = async () => (await this.json('proc', 'ls')).filter(({ state }: Json) => state === 'running');
    for (let waited = 0; waited < 60_000; waited += 100) {
      const now = await running();
      if (now.length > 0) {
        this.places.set('3f9c2a17', now.at(-1).proc_id.slice(0, 8));
        return;
      }
      await pause(100);
    }
    throw new Error('no process runs');
  }

  json(...words: string[]): Promise<Json> {
    return this.user.json(words, { env: this.env });
  }

  /** Runs a line as a shell does: to its end, or until it printed `until` and Ctrl-C ends it. */
  async run(line: string, until?: string): Promise<{ code: number | null; output: string }> {
    let placed = line;
    for (const [shown, own] of this.places) placed = placed.replaceAll(shown, own);
    const env = this.user.environment(this.env);
    const child = spawn('bash', ['-o', 'pipefail', '-c', placed], { cwd: this.user.cwd, env, detached: true });
    const signal = (name: NodeJS.Signals) => child.pid !== undefined && process.kill(-child.pid, name);
    const late = setTimeout(() => signal('SIGKILL'), 120_000);
    let output = '';
    let interrupted = false;
    const onText = (text: string) => {
      output += text;
      if (interrupted || until === undefined || !output.includes(until)) return;
      interrupted = true;
      signal('SIGINT');
    };
    child.stdout.setEncoding('utf8').on('data', onText);
    child.stderr.setEncoding('utf8').on('data', onText);
    child.stdin.end();
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(late);
    return { code, output };
  }

  /** Runs an example, which must succeed. */
  async example(line: string): Promise<void> {
    const { code, output } = await this.run(line, UNTIL_INTERRUPTED[line]);
    assert.equal(code, CODES[line] ?? 0, `${line}\n${output}`);
    const printed = PRINTS[line];
    if (printed !== undefined) assert.match(output, printed, line);
  }

  /** Starts a turn of the session "last" that waits for an approval; the examples name its id. */
  async asks(prompt: string): Promise<void> {
    const words = ['session', 'send', 'new', '--backend', 'rehearsal', '--detach', prompt];
    await this.json(...words);
    for (let look = 0; look < 600; look++) {
      const [pending] = await this.json('approve', 'ls');
      if (pending !== undefined) return void this.places.set('3f9c2a17', pending.id.slice(0, 8));
      await pause(100);
    }
    assert.fail('no approval');
  }

  /** Starts a turn of the session "last" that runs until it is ended. */
  async works(): Promise<void> {
    await this.json('session', 'send', 'new', '--backend', 'rehearsal', '--detach', 'wait 60000 ms');
  }

  /** Submits the task "last", which asks this; the examples name its question. */
  async question(brief: string): Promise<void> {
    const { questions } = await this.task(brief, 'asks');
    this.places.set('7d1f02c4', questions[0].question_id.slice(0, 8));
  }

  /** Submits the task "last"; returns it once it is in this state or asks something. */
  async task(brief: string, state: string, ...flags: string[]): Promise<Json> {
    await this.json('task', 'submit', brief, '--worker', 'trial-1', '--access', 'read', ...flags);
    for (let look = 0; look < 600; look++) {
      const task = await this.json('task', 'show', 'last');
      if (task.state === state || task.questions.length > 0) return task;
      await pause(100);
    }
    assert.fail(`the task is never ${state}`);
  }
}

/** Preparation of an example. */
const BEFORE: Readonly<Record<string, (reader: Reader) => Promise<unknown>>> = {
  'handfast session steer last "only the tests, please"': (reader) => reader.works(),
  'handfast session interrupt last': (reader) => reader.works(),
  'handfast session queue last --remove 4c1e9a02': async (reader) => {
    await reader.works();
    await reader.json('session', 'send', 'last', '--detach', 'say "later"');
    const [{ id }] = await reader.json('session', 'queue', 'last');
    reader.places.set('4c1e9a02', id.slice(0, 8));
  },
  'handfast approve yes 3f9c2a17': (reader) => reader.asks('run "echo one"'),
  'handfast approve yes 3f9c2a17 --remember session': (reader) => reader.asks('run "echo two"'),
  'handfast approve yes 3f9c2a17 --content \'{"answer":"red"}\'': (reader) =>
    reader.asks('ask "Which one?" with choices "red", "blue"'),
  'handfast approve no 3f9c2a17': (reader) => reader.asks('run "echo three"'),
  'handfast tail 5f0c0a3e --follow': async (reader) => {
    await reader.json('tools', 'ls');
    const [{ session_id }] = await reader.json('tail');
    reader.places.set('5f0c0a3e', session_id);
  },
  'handfast proc logs 3f9c2a17': (reader) => reader.runs(),
  'handfast proc kill 3f9c2a17 --signal SIGINT': (reader) => reader.runs(),
  'handfast agents show sub_4f1c22a9': async (reader) => {
    const [{ subagent_id }] = await reader.json('agents', 'ls');
    reader.places.set('sub_4f1c22a9', subagent_id);
  },
  'handfast audit verify audit.jsonl --json': async ({ user }) =>
    copyFileSync(join(user.home, 'hosts', 'handfast', 'audit.jsonl'), join(user.cwd, 'audit.jsonl')),
  'handfast trust rm ../clone    # running programs stop using it': async (reader) => {
    mkdirSync(join(reader.user.folder, 'clone'));
    writeFileSync(join(reader.user.folder, 'clone', 'handfast.yaml'), 'host_id: clone\n');
    assert.equal((await reader.run('handfast trust add ../clone --yes')).code, 0);
  },
  'handfast memory get city --as-of 2026-01-01': (reader) =>
    reader.json('memory', 'add', 'city', 'Faro', '--valid-from', '2025-01-01', '--valid-until', '2026-02-01'),
  'handfast memory publish team deploy': (reader) => reader.json('memory', 'add', 'deploy', 'every Monday'),
  'handfast memory publish team --tag ops': (reader) =>
    reader.json('memory', 'add', 'backup', 'every night', '--tag', 'ops'),
  'handfast learning reward 5f0c1f6f9c2b4d0ea9f6b1a7c3d2e410 1': async (reader) => {
    const { experience_id } = await reader.json('learning', 'decide', 'search', 'lexical', 'hybrid');
    reader.places.set('5f0c1f6f9c2b4d0ea9f6b1a7c3d2e410', experience_id);
  },
  'handfast learning rollback 1f77a6c20d9e4c35b2aa90e4d1c85f63': async (reader) => {
    const { refinement_id } = await reader.json('learning', 'apply', '{"path":"router.weights.read","new_value":0.4}');
    reader.places.set('1f77a6c20d9e4c35b2aa90e4d1c85f63', refinement_id);
  },
  // The example before it deletes the plan.
  'handfast plan share release reviewer read': (reader) => reader.json('plan', 'create', 'release'),
  "handfast plan renew release 'Write the docs' --fence 1 --lease 600": async (reader) => {
    await reader.json('plan', 'move', 'release', 'Write the docs', 'todo');
    await reader.json('plan', 'claim', 'release', 'Write the docs');
  },
  'handfast plan dispatch release --access read': async (reader) => {
    await reader.json('plan', 'create', 'release');
    await reader.json('plan', 'add', 'release', 'Write the docs', '--description', 'say "written"');
  },
  'handfast task watch last': (reader) => reader.task('say "hello"', 'done'),
  'handfast task cancel last --reason "not needed any more"': (reader) => reader.task('wait 60000 ms', 'running'),
  'handfast task retry last': (reader) => reader.task('fail "no luck"', 'error'),
  'handfast task retry last --worker trial-1': (reader) => reader.task('fail "no luck"', 'error'),
  'handfast task drop last --reason "done by hand"': (reader) =>
    reader.task('say "x"', 'blocked', '--require-mcp', 'none'),
  'handfast task steer last "leave the lockfile alone"': (reader) => reader.task('wait 60000 ms', 'running'),
  'handfast task answer last 7d1f02c4 yes': (reader) => reader.question('ask "Go on?" with choices "yes", "no"'),
  'handfast task answer last 7d1f02c4 yes --content \'{"answer":"red"}\'': (reader) =>
    reader.question('ask "Which one?" with choices "red", "blue"'),
};

/** Returns true when nothing listens at this port: the examples name the one that a host has by default. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  const free = await Promise.race([
    once(server, 'listening').then(() => true),
    once(server, 'error').then(() => false),
  ]);
  server.close();
  return free;
}

/** Returns the rows of these commands and of all below them, in the order of the table. */
const below = (...words: readonly string[]): string[] =>
  Object.keys(examples).filter((each) => words.some((word) => each === word || each.startsWith(`${word} `)));

/** Runs the examples of these rows, each line once: a parent shows the examples of its commands too. */
async function runRows(reader: Reader, rows: readonly string[]): Promise<void> {
  for (const row of rows) {
    for (const line of examples[row] as readonly string[]) {
      if (NOT_RUN[line] !== undefined || reader.ran.has(line)) continue;
      reader.ran.add(line);
      await BEFORE[line]?.(reader);
      await reader.example(line);
    }
  }
}

const SERVING = ['init', 'up', 'stdio', 'rpc'];
const FLEET = below('fleet', 'worker', 'task', 'route', 'plan dispatch');
const WITH_HOST = Object.keys(examples).filter((row) => ![...SERVING, ...FLEET].includes(row));
/** The first thing that a user types; it starts a host in an empty folder. */
const FIRST = examples['']?.[0] as string;

test('every example that is not run has its reason, and exists', () => {
  const lines = new Set(Object.values(examples).flat());
  for (const table of [NOT_RUN, UNTIL_INTERRUPTED, PRINTS, CODES, BEFORE]) {
    assert.deepEqual(
      Object.keys(table).filter((line) => !lines.has(line)),
      [],
    );
  }
});

describe('the examples of the help', { concurrency: 2 }, () => {
  test('with a host, its sessions and a model', async (t) => {
    await using models = await startModelServer({
      models: ['claude-opus-4-5', 'claude-sonnet-4-5', 'gpt-5.2'],
      otherwise: () => ({ text: 'Hello.' }),
    });
    const reader = new Reader(t, {
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: models.baseUrl('anthropic'),
      OPENAI_API_KEY: 'sk-0123456789',
      OPENAI_BASE_URL: models.baseUrl('responses'),
    });
    const [http, tcp] = [await ownPort(), await ownPort()];
    const everything = fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'));
    const server = { name: 'everything', command: process.execPath, args: [everything, 'stdio'] };
    const tracker = { name: 'tracker', url: 'http://127.0.0.1:9/mcp', disabled: true };
    const mcp = JSON.stringify({ servers: [server, tracker] });
    const echo = [process.execPath, fileURLToPath(new URL('../support/echo-subagent.mjs', import.meta.url))];
    const agents = JSON.stringify({ kinds: [{ name: 'scout', command: echo }] });
    reader.user.write(
      'handfast.yaml',
      `listen: ['http://127.0.0.1:${http}', 'tcp://127.0.0.1:${tcp}']
plugins: [{ use: tools, options: { shell: true } }, chains, env, learning, memory, planning, toolkits, { use: skill, options: { roots: [./skills] } }, { use: proc, options: { programs: [ls, sleep] } }, { use: mcp, options: ${mcp} }, { use: multi_agent, options: ${agents} }]
journal: { kind: sqlite }
`,
    );
    reader.places.set('127.0.0.1:4701', `127.0.0.1:${tcp}`);
    await reader.run('handfast trust add --yes');
    await reader.start(['up', '--json']);
    reader.ran.add(FIRST);
    await runRows(reader, WITH_HOST);
  });

  test('of hosts', async (t) => {
    const reader = new Reader(t);
    reader.places.set('127.0.0.1:4701', `127.0.0.1:${await ownPort()}`);
    reader.places.set('/run/user/1000/handfast.sock', join(reader.user.folder, 'handfast.sock'));
    if (!(await isFree(4700))) reader.places.set('handfast up', `handfast up --port ${await ownPort()}`);
    await reader.example(FIRST);
    for (const made of ['handfast.yaml', 'hello.mts']) rmSync(join(reader.user.cwd, made));
    await runRows(reader, SERVING);
  });

  test('with a fleet', async (t) => {
    const reader = new Reader(t);
    const port = await ownPort();
    reader.user.write(
      'fleet.yaml',
      `name: trial
listen: ['http://127.0.0.1:${port}']
join_grace_s: 1
workers:
  - { id: own, executor: rehearsal, repo: ${join(reader.user.folder, 'repo')}, tier: opus, overhead_tokens: 0 }
`,
    );
    reader.places.set('127.0.0.1:4701', `127.0.0.1:${await ownPort()}`);
    await reader.run('handfast trust add --yes');
    await runRows(reader, ['fleet up', 'fleet check']);
    await reader.start(['fleet', 'up', 'fleet.yaml', '--json']);
    await runRows(reader, ['worker']);
    const worker = 'worker --id trial-1 --executor rehearsal --json --repo';
    await reader.start([...worker.split(' '), join(reader.user.folder, 'repo')]);
    await runRows(
      reader,
      FLEET.filter((row) => !['fleet up', 'fleet check', 'fleet', 'worker'].includes(row)),
    );
  });
});

/**
 * Agents and clients on the A2A Python SDK, which do not know fleets: agents as peers of a real orchestrator that is
 * killed in the middle, clients of real workers that ask.
 *
 * `A2A_PYTHON` names a Python with `a2a-sdk[http-server]` and `uvicorn`; without it a virtual environment with them is
 * created.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Command, type Json, User } from '../cli/command.ts';
import { ownPort } from '../support/own-port.ts';
import { type Program, start } from './python-sdk.ts';
import { virtualPython } from './virtual-python.ts';

/** Longest wait for anything: far above the usual duration. */
const PATIENCE_MS = 60_000;

const { python, skip } = prepared();

/** Returns the Python to run, or the reason why none is found. In CI its absence is a failure. */
function prepared(): { readonly python: string; readonly skip: string | false } {
  try {
    const packages = ['a2a-sdk[http-server]==1.3.0', 'uvicorn'];
    return { python: process.env.A2A_PYTHON || virtualPython('interop-a2a', packages), skip: false };
  } catch (error) {
    if (process.env.CI !== undefined) throw error;
    const how = 'set A2A_PYTHON to a Python with a2a-sdk[http-server] and uvicorn to run these tests';
    return { python: '', skip: `${how} (${String(error)})` };
  }
}

interface Site {
  readonly agent: Program;
  /** Lets the tasks that wait end. */
  go(): void;
  /** Ids of the messages the agent has received. */
  heard(): string[];
  /** Starts the orchestrator, whose only peer the agent is. */
  up(): Promise<Command>;
  json(...words: string[]): Promise<Json>;
  /** Waits until a task satisfies a condition. */
  until(task: string, done: (shown: Json) => boolean): Promise<Json>;
}

async function site(t: TestContext): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-a2a-python-'));
  const port = await ownPort();
  const agent = start([python, join(import.meta.dirname, 'a2a-agent.py'), String(port), folder]);
  const user = new User();
  t.after(async () => {
    await user.leave();
    agent.child.kill('SIGCONT');
    await agent.stop();
    rmSync(folder, { recursive: true });
  });
  assert.equal(await agent.line(), 'listening');
  const file = user.write(
    'fleet.yaml',
    `name: trial\nlisten: [ unix://fleet.sock ]\npeers: [ { id: painter, url: "http://127.0.0.1:${port}", kind: a2a } ]\n`,
  );
  const json = async (...words: string[]): Promise<Json> => {
    const { code, stdout, stderr } = await user.run([...words, '--json']);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  };
  return {
    agent,
    json,
    go: () => writeFileSync(join(folder, 'go'), ''),
    heard: () =>
      readFileSync(join(folder, 'heard.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).message),
    async up() {
      const command = user.start(['fleet', 'up', file, '--json']);
      await command.says('"ready":true');
      return command;
    },
    async until(task, done) {
      for (const end = performance.now() + PATIENCE_MS; ; await setTimeout(100)) {
        const shown = await json('task', 'show', task);
        if (done(shown)) return shown;
        assert.ok(performance.now() < end, JSON.stringify(shown));
      }
    },
  };
}

test('a task at a Python agent is found by an orchestrator that was killed, and its result is taken', {
  skip,
}, async (t) => {
  const { up, json, until, go, heard } = await site(t);
  const first = await up();
  await json('task', 'submit', '--id', 't-1', 'please [wait], then paint');
  await until('t-1', ({ state }) => state === 'running');
  first.child.kill('SIGKILL');
  await first.ended();
  await up();
  go();
  const { state, attempts, result } = await until('t-1', ({ ended_at }) => ended_at !== null);
  assert.deepEqual([state, attempts.length, result.prose], ['done', 1, 'Done after all.']);
  // Nothing was sent twice.
  assert.deepEqual(heard(), ['t-1#1']);
});

test('the task is found too when the agent cannot be reached at the restart, and has ended meanwhile', {
  skip,
}, async (t) => {
  const { up, json, until, go, heard, agent } = await site(t);
  const first = await up();
  await json('task', 'submit', '--id', 't-1', 'please [wait], then paint');
  await until('t-1', ({ state }) => state === 'running');
  first.child.kill('SIGKILL');
  await first.ended();
  go();
  await setTimeout(500);
  agent.child.kill('SIGSTOP');
  await up();
  await setTimeout(1_000);
  agent.child.kill('SIGCONT');
  const { state, result } = await until('t-1', ({ ended_at }) => ended_at !== null);
  assert.deepEqual([state, result.prose], ['done', 'Done after all.']);
  assert.deepEqual(heard(), ['t-1#1']);
});

test('a Python agent that asks is answered, also by an orchestrator that was killed while it asked', {
  skip,
}, async (t) => {
  const { up, json, until, heard } = await site(t);
  const first = await up();
  await json('task', 'submit', '--id', 't-1', 'please [ask], then paint');
  await until('t-1', ({ questions }) => questions.length === 1);
  first.child.kill('SIGKILL');
  await first.ended();
  await up();
  const { questions } = await until('t-1', (task) => task.questions.length === 1);
  assert.deepEqual([questions[0].title, questions[0].schema.required], ['Which colour: red or blue?', ['answer']]);
  await json('task', 'answer', 't-1', questions[0].question_id, 'yes', '--content', '{"answer":"red"}');
  const { state, result, attempts } = await until('t-1', ({ ended_at }) => ended_at !== null);
  assert.deepEqual([state, result.prose, attempts.length], ['done', 'Painted it red.', 1]);
  assert.equal(heard().length, 2);
});

/** Returns a worker that asks for a colour, and a client on the Python SDK. */
async function painter(t: TestContext) {
  const user = new User();
  t.after(() => user.leave());
  const port = await ownPort();
  user.write(
    'painter.mjs',
    `const schema = { type: 'object', properties: { colour: { enum: ['red', 'blue'] } }, required: ['colour'] };
    export async function run(task, { events }) {
      const { allowed, content } = await events.ask({ kind: 'question', title: 'Which colour?', schema });
      return 'Painted it ' + (allowed ? content.colour : 'nothing') + '.';
    }`,
  );
  const settings = `executor: { kind: function, module: painter.mjs }\nrepo: .\na2a: { port: ${port} }\n`;
  const client = async (...words: string[]): Promise<Json> => {
    const program = [join(import.meta.dirname, 'a2a-client.py'), `http://127.0.0.1:${port}`, ...words];
    const { stdout } = await promisify(execFile)(python, program, { timeout: PATIENCE_MS });
    return JSON.parse(stdout);
  };
  const up = async (file: string): Promise<Command> => {
    const command = user.start(['fleet', 'up', file, '--json']);
    await command.says('"ready":true');
    return command;
  };
  return { user, settings, client, up };
}

test('a Python client sees the question of a worker and answers it, while the orchestrator is killed and started again', {
  skip,
}, async (t) => {
  const { user, settings, client, up } = await painter(t);
  const file = user.write('fleet.yaml', 'name: trial\nlisten: [ unix://fleet.sock ]\n');
  const first = await up(file);
  const worker = user.start(['worker', '--json', user.write('worker.yaml', `id: painter\n${settings}`)]);
  await worker.says('"ready":true');
  const asked = await client('send', 'paint it');
  assert.deepEqual(
    [asked.state, asked.text],
    ['TASK_STATE_INPUT_REQUIRED', 'Which colour?\nAnswer with one of red, blue.'],
  );
  const [question] = asked.data;
  assert.deepEqual([question.choices, question.schema.required], [['red', 'blue'], ['colour']]);
  first.child.kill('SIGKILL');
  await first.ended();
  const wrong = await client('send', 'green', asked.id);
  assert.deepEqual([wrong.error, /red, blue/.test(wrong.message)], ['InvalidParamsError', true]);
  await up(file);
  assert.equal((await client('get', asked.id)).state, 'TASK_STATE_INPUT_REQUIRED');
  const painted = await client('stream', 'red', asked.id);
  assert.equal(painted.states[0], 'TASK_STATE_WORKING');
  assert.deepEqual(
    [painted.id, painted.state, painted.artifacts],
    [asked.id, 'TASK_STATE_COMPLETED', ['Painted it red.']],
  );
});

test('a task that asked a Python client when its worker was killed fails, instead of waiting for ever', {
  skip,
}, async (t) => {
  const { user, settings, client, up } = await painter(t);
  const file = user.write(
    'fleet.yaml',
    `name: trial\nlisten: [ unix://fleet.sock ]\nworkers:\n  - id: painter\n${settings.replaceAll(/^/gm, '    ').trimEnd()}\n`,
  );
  const first = await up(file);
  const asked = await client('stream', 'paint it');
  assert.equal(asked.states.at(-1), 'TASK_STATE_INPUT_REQUIRED');
  first.child.kill('SIGKILL');
  await first.ended();
  await up(file);
  let ended = await client('get', asked.id);
  for (const end = performance.now() + PATIENCE_MS; ended.state === asked.state; ended = await client('get', asked.id))
    assert.ok(performance.now() < end, JSON.stringify(ended));
  assert.deepEqual([ended.state, ended.text], ['TASK_STATE_FAILED', 'worker restarted during the task']);
  assert.equal((await client('send', 'red', asked.id)).error, 'UnsupportedOperationError');
});

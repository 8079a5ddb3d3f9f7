/**
 * An agent built on the A2E Python SDK against Handfast's host: the unchanged SDK, through its public API, over both of
 * its bindings. `python-agent.py` runs the steps; this file has the expected outcome of each.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Host } from '../../src/host/host.ts';
import { type HttpListener, httpServer } from '../../src/server/http/http.ts';
import { httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import { Relay } from '../transport/http/http-fixtures.ts';
import { interopHost } from './our-host.ts';
import { commandOf, skip, start } from './python-sdk.ts';

/** Output of `python-agent.py` for one step. */
interface Step {
  readonly step: string;
  readonly ok: boolean;
  readonly ms: number;
  // biome-ignore lint/suspicious/noExplicitAny: each step has a value of its own shape, which its test looks into
  readonly value?: any;
  readonly error?: string;
  readonly message?: string;
  readonly code?: string;
  readonly retryable?: boolean;
  readonly detail?: Record<string, unknown>;
  readonly capability_name?: string;
  readonly events?: readonly { kind: string; seq: number; data: Record<string, unknown> }[];
}

/** The text `python-agent.py` sends: beyond ASCII, beyond the basic plane, and every character some reader breaks lines at. */
const TEXT = 'été 東京 😀 \u2028\u2029\u0085\u007f \\ " \t';

const TOKEN = 'interop-secret';
const COMMAND = join(import.meta.dirname, '../../src/cli/main.ts');
const OUR_HOST = join(import.meta.dirname, 'our-host.ts');

/** The steps of one run, by name. */
class Run {
  readonly #steps: ReadonlyMap<string, Step>;

  constructor(steps: readonly Step[] = []) {
    this.#steps = new Map(steps.map((step) => [step.step, step]));
  }

  step(name: string): Step {
    const step = this.#steps.get(name);
    assert.ok(step !== undefined, `${name} did not run`);
    return step;
  }

  /** Returns the value of a step that must have succeeded. */
  value(name: string) {
    const { ok, message, value } = this.step(name);
    assert.ok(ok, `${name}: ${message}`);
    return value;
  }

  /** Returns a step that must have ended in the exception the SDK raises for an `error` message. */
  failure(name: string): Step {
    const step = this.step(name);
    assert.ok(!step.ok, `${name} should fail`);
    assert.equal(step.error, 'A2EClientError', `${name}: ${step.message}`);
    return step;
  }
}

/** Runs a scenario to its end. `cwd` is also where a host starts that the agent starts. */
async function scenario(name: string, target: readonly string[], token = '', cwd?: string): Promise<Run> {
  const agent = start(commandOf('python-agent.py', name, JSON.stringify(target), token), cwd);
  const steps = (await agent.rest()).map((line) => JSON.parse(line) as Step);
  assert.equal(agent.child.exitCode, 0, agent.stderr());
  return new Run(steps);
}

/** A way for the agent to reach a host; `target` is the argument of `python-agent.py`. */
interface Binding {
  readonly name: 'stdio' | 'http';
  target(token?: string): Promise<readonly string[]>;
  stop(): Promise<void>;
}

function stdio(): Binding {
  return {
    name: 'stdio',
    target: async (token) => ['stdio', process.execPath, OUR_HOST, ...(token === undefined ? [] : [token])],
    stop: async () => {},
  };
}

function http(): Binding {
  const running: { host: Host; listener: HttpListener }[] = [];
  return {
    name: 'http',
    async target(token) {
      const host = interopHost(token);
      await host.start();
      const endpoint = httpSseEndpoint({ accept: (link) => host.accept(link) });
      // One test uses a relay, and so calls the server by another port.
      const listener = await httpServer({ endpoint, allowedHosts: ['127.0.0.1'] });
      running.push({ host, listener });
      return ['http', listener.address];
    },
    async stop() {
      for (const { host, listener } of running) {
        await host.close(0);
        await listener.close();
      }
    },
  };
}

for (const binding of [stdio(), http()]) {
  describe(`the Python SDK’s agent over ${binding.name}`, { skip }, () => {
    let session = new Run();
    const value = (name: string) => session.value(name);
    const failure = (name: string) => session.failure(name);

    before(async () => {
      session = await scenario('session', await binding.target(TOKEN), TOKEN);
    });
    after(() => binding.stop());

    test('connects with its token and decodes what was granted and what was not', () => {
      value('connect');
      const [tools, memory, ...more] = value('capabilities');
      assert.deepEqual(more, [], 'a name outside the protocol is not answered: the SDK could not decode it');
      assert.equal(tools.capability, 'tools');
      assert.equal(tools.enabled, true);
      const { name, type, priority, exclusive } = tools.metadata;
      assert.deepEqual(
        { name, type, priority, exclusive },
        { name: 'interop', type: 'tools', priority: 5, exclusive: false },
      );
      assert.deepEqual(memory, { capability: 'memory', enabled: false, metadata: { reason: 'no plugin loaded' } });
    });

    test('lists tools with parameters, choices, nested parameters and flags', () => {
      const listed = value('list');
      assert.deepEqual(
        listed.map(({ name }: { name: string }) => name),
        ['greet', 'steps', 'breaks', 'nap', 'echo', 'exit'],
      );
      const nothing = { enum: null, properties: null };
      assert.deepEqual(listed[0], {
        name: 'greet',
        description: 'Greets somebody',
        input_parameters: [
          { name: 'name', type: 'string', description: 'Whom to greet', required: true, ...nothing },
          {
            name: 'manner',
            type: 'string',
            description: '',
            required: false,
            enum: ['kind', 'short'],
            properties: null,
          },
          {
            name: 'options',
            type: 'object',
            description: '',
            required: false,
            enum: null,
            properties: {
              times: { name: 'times', type: 'integer', description: 'How often', required: false, ...nothing },
            },
          },
        ],
        output_parameters: [{ name: 'text', type: 'string', description: 'The greeting', required: true, ...nothing }],
        streaming: true,
        idempotent: true,
        tags: ['text', 'social'],
        version: '1.0.0',
        toolkit: null,
        defer_loading: false,
      });
    });

    test('filters by tags, searches, and finds deferred tools', () => {
      assert.deepEqual(value('list by tag'), ['greet']);
      assert.deepEqual(value('list all'), ['greet', 'steps', 'breaks', 'nap', 'echo', 'exit', 'rare']);
      assert.deepEqual(value('search'), ['greet']);
      assert.deepEqual(value('search deferred'), ['rare']);
    });

    test('calls a tool and gets its text back unharmed', () => {
      const { result, events } = value('call');
      assert.deepEqual(result.data, { text: `Hello, ${TEXT}Hello, ${TEXT}` });
      assert.equal(result.success, true);
      assert.equal(result.tool_name, 'greet');
      assert.deepEqual(events, []);
      assert.deepEqual(value('call with a long text'), { value: TEXT.repeat(5_000) });
    });

    test('gets the exit code, the summary and the other fields of a result', () => {
      assert.equal(value('call with exit code').result.exit_code, 3);
      assert.equal(value('call with events').result.summary, 'four steps');
    });

    test('hears every event of a call in order and before the result', () => {
      const { events } = value('call with events');
      assert.deepEqual(
        events.map(({ kind, seq, data }: { kind: string; seq: number; data: object }) => [kind, seq, data]),
        [
          ['status', 0, { message: 'begun' }],
          ['progress', 1, { pct: 50, message: 'half \u2028 way' }],
          ['log', 2, { level: 'info', message: 'a line' }],
          ['artifact', 3, { name: 'out.txt', mime: 'text/plain', chunk: 'aGVsbG8=', final: true }],
        ],
      );
      assert.deepEqual(value('call without events').events, []);
      assert.deepEqual(value('call without events').result.data, { done: true });
    });

    test('receives which argument is missing or of the wrong type', () => {
      for (const name of ['argument missing', 'argument of the wrong type']) {
        const { code, detail, retryable } = failure(name);
        assert.equal(code, 'schema_violation');
        assert.equal(detail?.path, '/name');
        assert.equal(retryable, false);
      }
    });

    test('receives an error for an unknown tool, and for a failing one with its message and its events', () => {
      assert.equal(failure('unknown tool').code, 'unknown_tool');
      const { code, message, events, capability_name } = failure('failing tool');
      assert.equal(code, 'tool_error');
      assert.equal(message, '[tool_error] no luck');
      assert.equal(capability_name, 'tools');
      assert.deepEqual(
        events?.map(({ kind, data }) => [kind, data]),
        [['status', { message: 'before' }]],
      );
    });

    test('receives a timeout when the time of a call has passed', () => {
      const { code, retryable, detail, ms } = failure('timeout');
      assert.equal(code, 'timeout');
      assert.deepEqual([retryable, detail?.may_have_run], [false, true], 'this tool is not marked idempotent');
      assert.ok(ms < 4_000, `the host ends the call after its second, not after ${ms} ms`);
    });

    test('receives errors for capabilities that were not granted or not asked for', () => {
      for (const [name, capability] of [
        ['capability not granted', 'memory'],
        ['capability not asked for', 'proc'],
      ] as const) {
        const { code, capability_name } = failure(name);
        assert.equal(code, 'capability_missing');
        assert.equal(capability_name, capability);
      }
    });

    test('receives errors for unknown types and missing fields, and continues after garbage', () => {
      assert.equal(failure('unknown type').code, 'invalid_message');
      assert.equal(failure('field missing').code, 'schema_violation');
      for (const garbage of ['garbage', 'garbage without an object', 'garbage too long']) value(garbage);
      assert.equal(value('alive'), true);
      assert.deepEqual(value('call after garbage'), { value: 'still here' });
      assert.ok(value('ping') < 5_000);
    });

    test('makes more calls at once than the window has room for', () => {
      assert.deepEqual(
        value('parallel'),
        Array.from({ length: 16 }, (_, at) => ({ at })),
      );
    });

    test('shuts down without waiting for anything', () => {
      value('shutdown');
      const { ms } = session.step('shutdown');
      assert.ok(ms < 2_500, `the SDK sends SIGTERM after 3 s and waits 5 s for a stream; this took ${ms} ms`);
      assert.equal(value('exit code'), binding.name === 'stdio' ? 0 : null);
    });

    test('connects without naming capabilities, and is then granted none', async () => {
      const run = await scenario('defaults', await binding.target());
      assert.deepEqual(run.value('capabilities'), []);
      assert.equal(run.failure('list').code, 'capability_missing');
      run.value('ping');
      run.value('shutdown');
    });

    test('learns at once why a handshake was refused', async () => {
      const refusals = await scenario('refused', await binding.target(TOKEN), TOKEN);
      for (const [name, reason] of [
        ['wrong token', 'auth_failed'],
        ['no token', 'auth_failed'],
        ['no_caps', 'no_caps'],
      ] as const) {
        const step = refusals.step(name);
        assert.equal(step.error, 'ConnectionError', `${name}: ${step.message}`);
        assert.equal(step.message, `Handshake failed: ${reason}`);
        assert.ok(step.ms < 10_000, `the SDK waits 30 s for an answer; this took ${step.ms} ms`);
      }
    });
  });
}

describe('the Python SDK’s agent with `handfast stdio`', { skip }, () => {
  test('uses the built-in tools in the workspace, and not outside it', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-interop-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const workspace = join(folder, 'workspace');
    mkdirSync(workspace);
    writeFileSync(join(workspace, 'note.txt'), TEXT);
    writeFileSync(join(folder, 'secret.txt'), 'secret');
    const run = await scenario(
      'files',
      ['stdio', process.execPath, '-C', 'handfast-source', COMMAND, 'stdio'],
      '',
      workspace,
    );
    assert.ok(run.value('list').includes('read_file'));
    assert.equal(run.value('read').data.content, TEXT);
    assert.equal(run.failure('outside').code, 'tool_denied');
    run.value('shutdown');
  });
});

describe('the Python SDK’s agent over a network that fails', { skip }, () => {
  test('gets its answer after its event stream was cut', async (t) => {
    const binding = http();
    t.after(() => binding.stop());
    const [, direct = ''] = await binding.target();
    const { relay, address } = await Relay.to(t, Number(new URL(direct).port));
    const agent = start(commandOf('python-agent.py', 'cut', JSON.stringify(['http', address])));
    t.after(() => agent.stop());
    const steps = [await agent.line(), await agent.line()];
    relay.cut();
    agent.child.stdin?.write('\n');
    const run = new Run([...steps, ...(await agent.rest())].map((line) => JSON.parse(line) as Step));
    assert.deepEqual(run.value('before'), { at: 1 });
    assert.deepEqual(run.value('after'), { at: 2 });
    run.value('shutdown');
  });
});

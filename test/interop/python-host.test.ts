/**
 * Handfast's agent against a host built on the A2E Python SDK: the unchanged SDK, over its HTTP server and over stdin
 * and stdout.
 *
 * If the SDK's host departs from the protocol, a test states the agent's result for it, and accepts the protocol's
 * reply as well: a later SDK must not fail here for doing better.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Agent, type ConnectOptions, connect } from '../../src/connect.ts';
import type { CallEvent } from '../../src/connection/call.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { commandOf, environment, type Program, skip, start } from './python-sdk.ts';

type ToolsAgent = Agent<'tools'>;

/** Beyond ASCII, beyond the basic plane, and every character some reader breaks lines at. */
const TEXT = 'été 東京 😀 \u2028\u2029\u0085\u007f \\ " \t';

/** A way to reach a fresh Python host. */
interface Binding {
  readonly name: 'stdio' | 'http';
  /**
   * Starts a host with this number of tools plugins, if the agent does not start it itself, and resolves with its
   * address.
   */
  address(plugins: number): Promise<string>;
  stop(): Promise<void>;
}

function stdio(): Binding {
  return {
    name: 'stdio',
    async address(plugins) {
      const command = commandOf('python-host.py', 'stdio', String(plugins));
      return `stdio:${command.map((word) => `'${word}'`).join(' ')}`;
    },
    stop: async () => {},
  };
}

function http(): Binding {
  const running: Program[] = [];
  return {
    name: 'http',
    async address(plugins) {
      const host = start(commandOf('python-host.py', 'http', String(plugins)));
      running.push(host);
      return (await host.line()).replace('listening ', '');
    },
    async stop() {
      for (const host of running) await host.stop();
    },
  };
}

/** Returns the error of a call that must fail. */
async function failure(call: Promise<unknown>): Promise<HandfastError> {
  const error = await call.then(
    (value) => assert.fail(`expected a failure, got ${JSON.stringify(value)}`),
    (error: HandfastError) => error,
  );
  assert.equal(error.name, 'HandfastError', String(error));
  return error;
}

for (const binding of [stdio(), http()]) {
  describe(`the Python SDK’s host over ${binding.name}`, { skip }, () => {
    let agent: ToolsAgent;
    const join = async (plugins: number, options: ConnectOptions<'tools'> = {}): Promise<ToolsAgent> =>
      connect(await binding.address(plugins), {
        capabilities: ['tools'],
        env: environment(),
        timeoutMs: 10_000,
        ...options,
      });

    before(async () => {
      agent = await join(1);
    });
    after(async () => {
      await agent?.close();
      await binding.stop();
    });

    test('performs the handshake: the capability is granted, and no extension unknown to the host', () => {
      assert.equal(agent.state, 'open');
      assert.notEqual(agent.sessionId, '');
      assert.equal(agent.maxParallel, 4);
      assert.deepEqual([...agent.extensions], []);
      const granted = agent.capabilities.get('tools');
      assert.equal(granted?.enabled, true);
      assert.deepEqual(granted?.metadata, { name: 'interop_tools', type: 'tools', priority: 0, exclusive: false });
    });

    test('lists the active tools with their parameters, and all of them when asked', async () => {
      const listed = await agent.tools.list();
      const greet = listed.find(({ name }) => name === 'greet');
      assert.equal(greet?.idempotent, true);
      assert.deepEqual(greet?.tags, ['text', 'social']);
      assert.deepEqual(
        greet?.input_parameters?.map(({ name, type, required }) => [name, type, required]),
        [
          ['name', 'string', true],
          ['options', 'object', false],
        ],
      );
      assert.ok(!listed.some(({ name }) => name === 'rare'));
      const all = await agent.tools.list({ includeDeferred: true });
      assert.ok(all.some(({ name }) => name === 'rare'));
    });

    test('searches, with tags', async () => {
      const names = async (query: string, tags: string[] = []) =>
        (await agent.tools.search(query, { tags })).map(({ name }) => name);
      assert.deepEqual(await names('GREETS'), ['greet']);
      assert.deepEqual(await names('rare'), ['rare']);
      assert.deepEqual(await names('e', ['social']), ['greet']);
    });

    test('calls a tool and gets its text back unharmed', async () => {
      const result = await agent.tools.call('greet', { name: TEXT, options: { times: 2 } });
      assert.equal(result.tool_name, 'greet');
      assert.deepEqual(result.data, { text: `Hello, ${TEXT}Hello, ${TEXT}` });
      const long = await agent.tools.call('echo', { value: TEXT.repeat(5_000) });
      assert.deepEqual(long.data, { value: TEXT.repeat(5_000) });
    });

    test('gets the exit code and the summary of a result', async () => {
      assert.equal((await agent.tools.call('exit')).exit_code, 3);
      assert.equal((await agent.tools.call('steps')).summary, 'four steps');
    });

    test('hears the events of a call in order and before its result', async () => {
      const call = agent.tools.call('steps');
      const events: CallEvent[] = [];
      for await (const event of call) events.push(event);
      assert.deepEqual(
        events.map(({ kind, data }) => [kind, data]),
        [
          ['status', { message: 'begun' }],
          ['progress', { pct: 50, message: 'half \u2028 way' }],
          ['log', { level: 'info', message: 'a line' }],
          ['artifact', { name: 'out.txt', mime: 'text/plain', chunk: 'aGVsbG8=', final: true }],
        ],
      );
      // This host numbers events by its clock: the numbers do not fall, which is the only guarantee.
      assert.ok(events.every(({ seq }, at) => at === 0 || seq >= (events[at - 1]?.seq as number)));
      assert.deepEqual((await call).data, { done: true });
    });

    test('receives the failure of a tool with its message, after its events', async () => {
      const events: string[] = [];
      const error = await failure(agent.tools.call('breaks', {}, { onEvent: ({ kind }) => events.push(kind) }));
      assert.equal(error.code, 'tool_error');
      assert.equal(error.message, 'no luck');
      assert.deepEqual(events, ['status']);
    });

    test('takes a result that says it failed for the failure it is', async () => {
      const error = await failure(agent.tools.call('refuses'));
      assert.equal(error.code, 'tool_denied');
      assert.equal(error.message, 'not today');
    });

    test('receives unknown tools, missing fields and unknown types as errors in this host’s words', async () => {
      assert.match((await failure(agent.tools.call('nonesuch'))).code, /^(tool_error|unknown_tool)$/);
      const missing = await failure(agent.request('tool/call/req', { tool_name: 'echo' }));
      assert.match(missing.code, /^(parse_error|schema_violation)$/);
      assert.match((await failure(agent.request('no/such/req'))).code, /^(parse_error|invalid_message)$/);
    });

    test('ends a call at its own deadline where the host ignores it, and ignores the late answer', async () => {
      const error = await failure(agent.tools.call('nap', { ms: 1_200 }, { timeoutMs: 200 }));
      assert.equal(error.code, 'timeout');
      // One window full of waiting calls outlives the late answer.
      const results = await Promise.all(Array.from({ length: 4 }, () => agent.tools.call('nap', { ms: 1_200 })));
      assert.deepEqual(
        results.map(({ data }) => data),
        Array.from({ length: 4 }, () => ({ ms: 1_200 })),
      );
    });

    test('makes more calls at once than the host allows, and pings meanwhile', async () => {
      const calls = Array.from({ length: 16 }, (_, at) => agent.tools.call('echo', { value: { at } }));
      const { roundTripMs } = await agent.ping();
      assert.ok(roundTripMs < 5_000);
      assert.deepEqual(
        (await Promise.all(calls)).map(({ data }) => data),
        Array.from({ length: 16 }, (_, at) => ({ at })),
      );
    });

    test('takes the first answer of a host whose plugins all answer', async () => {
      await using twice = await join(2);
      for (let at = 0; at < 5; at++) assert.deepEqual((await twice.tools.call('echo', { value: { at } })).data, { at });
      assert.equal((await failure(twice.tools.call('breaks'))).code, 'tool_error');
      assert.equal((await twice.tools.list({ includeDeferred: true })).filter(({ name }) => name === 'rare').length, 1);
    });

    test('fails at once with capability_missing where the host has no tools', async () => {
      await using without = await join(0);
      assert.equal(without.capabilities.has('tools'), false);
      assert.throws(() => without.tools.call('echo'), { code: 'capability_missing' });
    });

    test('closes without waiting for a host that has nothing left to do', async () => {
      const closing = await join(1);
      await closing.ping();
      const from = performance.now();
      await closing.close();
      const tookMs = performance.now() - from;
      assert.ok(tookMs < 1_900, `a host that does not end by itself is stopped after 2 s; this took ${tookMs} ms`);
    });

    if (binding.name === 'stdio') {
      test('reads past what the host prints between its messages', async () => {
        const noise: string[] = [];
        await using noisy = await join(1, { onUnparsed: (line) => noise.push(line) });
        await noisy.ping();
        assert.equal(noise[0], 'A2E_SUBPROCESS_HOST_READY');
      });

      test('settles its calls with connection_lost when the host dies', async () => {
        const orphan = await join(1);
        const calls = [orphan.tools.call('nap', { ms: 5_000 }), orphan.tools.call('dies')];
        for (const call of calls) assert.equal((await failure(call)).code, 'connection_lost');
        assert.equal((await orphan.closed)?.code, 'connection_lost');
      });
    }
  });
}

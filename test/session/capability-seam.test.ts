import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { type ConnectOptions, connect } from '../../src/connect.ts';
import type { Host, HostOptions } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { listen } from '../../src/listen.ts';
import { rawAgent } from '../support/raw-agent.ts';
import { startRelay } from '../support/relay.ts';
import { type Door, doorOf } from '../support/sites.ts';
import { announce, numbered, openStreams, pushMany, question, relayQuestion, seamHost, watch } from './seam-host.ts';

const hosts: Host[] = [];
const doors: Door[] = [];
after(async () => {
  await Promise.all(hosts.map((one) => one.close(0)));
  await Promise.all(doors.map((one) => one.close()));
});

async function start(options: Partial<HostOptions> = {}): Promise<Host> {
  const host = await seamHost(options);
  hosts.push(host);
  return host;
}

const capabilities = ['seam'] as const;
const STDIO = `stdio:${process.execPath} -C handfast-source ${import.meta.dirname}/seam-host.ts`;

/** Waits for something that happens by itself. */
async function until(condition: () => boolean, what: string): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    assert.ok(tries < 1000, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

for (const transport of ['memory', 'stdio', 'tcp', 'websocket', 'http'] as const) {
  describe(`from the host to the agent, over ${transport}`, { timeout: 60_000 }, () => {
    const open = async (options: ConnectOptions = {}) => {
      if (transport === 'stdio') return connect(STDIO, { capabilities, ...options });
      const host = await start();
      const door = await doorOf(transport, host);
      doors.push(door);
      return connect(door.address ?? host, { capabilities, ...options });
    };

    test('pushes arrive in order, and none before the first listener is lost', async () => {
      await using agent = await open();
      const seen: number[] = [];
      agent.on(numbered, ({ n }) => seen.push(n));
      await agent.calls.call(pushMany, { count: 100 });
      await until(() => seen.length >= 100, 'all pushes');
      assert.deepEqual(
        seen,
        Array.from({ length: 100 }, (_, at) => at + 1),
      );
    });

    test('a stream continues behind its reply, with fields of its own, and ends in order', async () => {
      await using agent = await open();
      const call = agent.calls.call(watch, { count: 40 }, { keepStream: true, streaming: true });
      assert.equal((await call).started, true);
      const events = await Array.fromAsync(call);
      assert.deepEqual(
        events.map(({ fields, data, seq }) => [fields?.n, data.half, seq]),
        Array.from({ length: 40 }, (_, at) => [at + 1, (at + 1) / 2, at]),
      );
    });

    test('a stream that fails throws at its reader', async () => {
      await using agent = await open();
      const call = agent.calls.call(watch, { count: 3, fails: true }, { keepStream: true, streaming: true });
      await call;
      const seen: unknown[] = [];
      await assert.rejects(
        async () => {
          for await (const { fields } of call) seen.push(fields?.n);
        },
        { code: 'tool_error', message: 'the stream broke' },
      );
      assert.deepEqual(seen, [1, 2, 3]);
    });

    test('a stream that its reader leaves stops at the host', async () => {
      await using agent = await open();
      const call = agent.calls.call(watch, { count: 0 }, { keepStream: true, streaming: true });
      await call;
      for await (const { fields } of call) if ((fields?.n as number) >= 10) break;
      if (transport === 'stdio') return void (await agent.ping());
      await until(() => openStreams.size === 0, 'the end of the stream at the host');
    });

    test('the host asks the agent; without a handler it gets an error at once', async () => {
      await using agent = await open();
      await assert.rejects(agent.calls.call(relayQuestion, { text: 'who?' }), { code: 'no_handler' });
      const end = agent.serve(question, async ({ text }) => ({ answer: text.toUpperCase() }));
      assert.equal((await agent.calls.call(relayQuestion, { text: 'who?' })).answer, 'WHO?');
      end();
      await assert.rejects(agent.calls.call(relayQuestion, { text: 'who?' }), { code: 'no_handler' });
    });

    test('a question has a deadline and a cancel, and its handler hears of both', async () => {
      await using agent = await open();
      const reasons: unknown[] = [];
      agent.serve(question, (_, { signal }) => {
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            reasons.push((signal.reason as { code: string }).code);
            reject(signal.reason);
          });
        });
      });
      await assert.rejects(agent.calls.call(relayQuestion, { text: 'slow', timeoutMs: 20 }), { code: 'timeout' });
      const call = agent.calls.call(relayQuestion, { text: 'slow' });
      await new Promise((resolve) => setTimeout(resolve, 50));
      call.cancel();
      await assert.rejects(call, { code: 'cancelled' });
      await until(() => reasons.length === 2, 'both ends');
      assert.deepEqual(reasons, ['cancelled', 'cancelled']);
    });

    test('an agent hears of changed offers, and its capabilities say the same', async () => {
      const changes: unknown[] = [];
      await using agent = await open({ onCapabilityChanged: (...change) => changes.push(change) });
      assert.equal(agent.capabilities.get('seam')?.metadata.fact, 'first');
      for (const fact of ['one', 'all']) await agent.calls.call(announce, { fact });
      await until(() => changes.length === 2, 'both changes');
      assert.equal(agent.capabilities.get('seam')?.metadata.fact, 'all');
    });
  });
}

for (const transport of ['tcp', 'websocket', 'http'] as const) {
  test(`over a ${transport} link that is cut again and again, everything arrives once and in order`, {
    timeout: 60_000,
  }, async (t) => {
    const host = await start();
    const scheme = transport === 'tcp' ? 'tcp' : 'http';
    const listener = await listen(
      host,
      `${scheme}://127.0.0.1:0`,
      transport === 'tcp' ? {} : { allowedHosts: ['127.0.0.1'] },
    );
    t.after(() => listener.close());
    const { hostname, port } = new URL(listener.address);
    const relay = await startRelay({ host: hostname, port: Number(port) });
    t.after(() => relay.close());
    const url = new URL(transport === 'websocket' ? `ws://${hostname}/ws` : listener.address);
    url.port = String(relay.port);
    await using agent = await connect(url.href, { capabilities });
    const pushes: number[] = [];
    const asked: string[] = [];
    agent.on(numbered, ({ n }) => pushes.push(n));
    agent.serve(question, async ({ text }) => {
      asked.push(text);
      await new Promise((resolve) => setTimeout(resolve, 3));
      return { answer: `${text}!` };
    });
    const stream = agent.calls.call(watch, { count: 300 }, { keepStream: true, streaming: true });
    const cuts = setInterval(() => relay.cut(), 60);
    const answers = await Promise.all(
      Array.from({ length: 30 }, async (_, at) => {
        await new Promise((resolve) => setTimeout(resolve, at * 15));
        await agent.calls.call(pushMany, { count: 10 });
        return (await agent.calls.call(relayQuestion, { text: `q${at}` })).answer;
      }),
    );
    const events = await Array.fromAsync(stream);
    clearInterval(cuts);
    await until(() => pushes.length >= 300, 'all pushes');
    await agent.close();
    assert.deepEqual(
      answers,
      Array.from({ length: 30 }, (_, at) => `q${at}!`),
    );
    assert.deepEqual(asked.toSorted(), Array.from({ length: 30 }, (_, at) => `q${at}`).sort());
    assert.equal(pushes.length, 300);
    assert.deepEqual(
      events.map(({ fields }) => fields?.n),
      Array.from({ length: 300 }, (_, at) => at + 1),
    );
    assert.ok(relay.cuts >= 3, `${relay.cuts} cuts`);
  });
}

test('what the host sent by itself is in the journal', async () => {
  const journal = memoryJournal();
  const host = await start({ journal });
  const agent = await connect(host, { capabilities });
  agent.serve(question, ({ text }) => ({ answer: text }));
  await agent.calls.call(pushMany, { count: 1 });
  await agent.calls.call(relayQuestion, { text: 'x' });
  const stream = agent.calls.call(watch, { count: 1 }, { keepStream: true, streaming: true });
  await stream;
  await Array.fromAsync(stream);
  const { entries } = await journal.read(agent.sessionId, 0);
  assert.deepEqual(
    entries.map(({ kind, body }) => `${kind} ${(body as { type: string }).type}`),
    [
      'request seam/push/req',
      'notice seam/numbered/push',
      'reply seam/push/resp',
      'request seam/relay/req',
      'call seam/question/req',
      'reply seam/relay/resp',
      'request seam/watch/req',
      'reply seam/watch/resp',
      'event seam/watch/event',
      'event seam/watch/event',
    ],
  );
});

test('an agent of plain A2E gets none of it', async () => {
  const host = await start();
  const agent = rawAgent(host);
  const answer = await agent.shake({ agent_caps: ['seam', 'tools'] });
  assert.deepEqual(
    [answer.ok, answer.accepted_caps?.map((cap: { capability: string }) => cap.capability)],
    [false, ['tools']],
  );
});

test('a capability that a principal may not use, or that does not serve it, is answered with the reason', async () => {
  const host = await start();
  const agent = rawAgent(host);
  const answer = await agent.shake({
    agent_caps: [],
    extensions: { 'handfast/capabilities': { wanted: ['seam', 'else', 'tools', 7] } },
  });
  assert.deepEqual(
    answer.extensions['handfast/capabilities'].accepted.map(
      ({ capability, enabled, metadata }: { capability: string; enabled: boolean; metadata: { reason?: string } }) => [
        capability,
        enabled,
        metadata.reason,
      ],
    ),
    [
      ['seam', true, undefined],
      ['else', false, 'no plugin loaded'],
    ],
  );
});

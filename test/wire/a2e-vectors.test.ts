/**
 * The golden lines of A2E 1.0: messages of other implementations must be read, and Handfast's messages must match the
 * published schemas. Every line of `test/vectors/a2e/` takes the path of a message (depth, JSON, version, validator,
 * host, agent), and every message of Handfast is captured as the bytes on its wire.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { type AgentOptions, AgentSession } from '../../src/agent/agent.ts';
import { ToolsClient } from '../../src/capabilities/tools/client.ts';
import { type ToolCallResp, toolCall } from '../../src/capabilities/tools/messages.ts';
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { createHost, type Host } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import type { Link } from '../../src/transport/link.ts';
import { A2ECodec, errorOf, versionFits, withoutEnvelope } from '../../src/wire/a2e.ts';
import { toAscii } from '../../src/wire/ascii.ts';
import { tooDeep } from '../../src/wire/depth.ts';
import { isObject } from '../../src/wire/json.ts';
import { speaksJsonRpc } from '../../src/wire/jsonrpc.ts';
import { within } from '../contract/recorder.ts';
import { type Message, RawAgent } from '../support/raw-agent.ts';
import { echo, flood, patient } from '../support/tools.ts';
import { ascii, extensions, folder, manifest, proper, roleOf, schemas, vectors, wire } from './a2e-vectors.ts';

test('the manifest and the files agree', () => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ndjson'));
  assert.deepEqual(files.sort(), Object.keys(manifest.files).sort());
  assert.equal(vectors.length, manifest.total_lines);
  for (const [file, { lines, types }] of Object.entries(manifest.files)) {
    const found = vectors.filter(({ at }) => at.startsWith(`${file}:`));
    assert.equal(found.length, lines, file);
    const counted = Object.groupBy(found, ({ message }) => message.type as string);
    assert.deepEqual(
      Object.fromEntries(Object.entries(counted).map(([type, all]) => [type, all?.length])),
      types,
      file,
    );
  }
});

test('every core and tools type has lines here, except the extensions', () => {
  const seen = new Set(vectors.map(({ message }) => message.type));
  assert.deepEqual([...schemas.keys()].filter((type) => !seen.has(type)).sort(), extensions.toSorted());
});

// Reading.

describe('a line of another implementation', () => {
  test('is one flat line of ASCII that parses to an object', () => {
    for (const { at, text, message } of vectors) {
      assert.match(text, ascii, at);
      assert.ok(isObject(message), at);
      assert.ok(!tooDeep(text), at);
      assert.ok(!speaksJsonRpc(message), at);
      assert.notEqual(new A2ECodec().read(text, 64).kind, 'invalid', at);
    }
  });

  test('may carry either stamp, both or none; only another major version does not fit', () => {
    const stamps: Record<string, number> = {};
    for (const { at, message } of vectors) {
      const found = ['a2e', 'version'].filter((stamp) => Object.hasOwn(message, stamp)).join('+') || 'none';
      stamps[found] = (stamps[found] ?? 0) + 1;
      const fits = versionFits(message.a2e) && versionFits(message.version);
      assert.equal(fits, message.id !== 'st-mismatch', at);
    }
    assert.deepEqual(Object.keys(stamps).sort(), ['a2e', 'a2e+version', 'none', 'version']);
  });

  test('of the core or the tools is valid, and stays so with only what its receiver needs', () => {
    const needed: Record<string, readonly string[]> = {
      error: ['type', 'code'],
      'handshake/req': ['type', 'id'],
      'handshake/resp': ['type'],
      'invoke/event': ['type'],
      ping: ['type', 'id'],
      pong: ['type'],
      shutdown: ['type', 'id'],
      'tool/call/req': ['type', 'id', 'arguments'],
      'tool/call/resp': ['type', 'data'],
      'tool/event': ['type'],
      'tool/list/req': ['type', 'id'],
      'tool/list/resp': ['type'],
    };
    for (const { at, message } of vectors) {
      const known = schemas.get(message.type);
      if (known === undefined) continue;
      const valid = (value: Message) =>
        known.check(value) || assert.fail(`${at}: ${JSON.stringify(known.check.errors)}`);
      valid(message);
      known.schema(message);
      valid({ ...message, some_later_field: { of: ['any', 'shape'] } });
      const fields = needed[message.type] ?? assert.fail(`${message.type} is not in the table`);
      valid(Object.fromEntries(fields.map((field) => [field, message[field]])));
      for (const field of fields) {
        const { [field]: _left, ...rest } = message;
        assert.ok(!known.check(rest), `${at} without ${field}`);
      }
    }
  });

  test('that reports an error becomes that error, with any code', () => {
    for (const { at, message } of vectors.filter(({ message }) => message.type === 'error')) {
      const error = errorOf(message);
      assert.equal(error.code, message.code, at);
      assert.equal(error.message, message.message || message.code, at);
      assert.equal(error.retryable, message.retryable, at);
      assert.deepEqual(error.detail, message.detail, at);
      assert.equal(error.capability, message.capability_name, at);
    }
  });
});

// The same through the real parts, over byte streams.

/** A raw peer on a link of text. */
class TextAgent extends RawAgent {
  override send(message: Message | string): void {
    super.send(typeof message === 'string' ? message : JSON.stringify(message));
  }
}

async function hostWithTools(
  t: TestContext,
  waits = patient(),
  plugin = toolsPlugin({ tools: [echo, flood, waits.tool] }),
): Promise<Host> {
  const host = createHost({ plugins: [plugin], journal: memoryJournal() });
  await host.start();
  t.after(() => host.close(0));
  return host;
}

/** Opens an agent over a link, with a client for tools. */
async function agentOn(link: Link, options: AgentOptions = {}): Promise<{ agent: AgentSession; tools: ToolsClient }> {
  const agent = await AgentSession.open(async () => link, ['tools', 'memory'], { timeoutMs: 60_000, ...options });
  return { agent, tools: new ToolsClient(agent) };
}

describe('a host', () => {
  test('answers every request of the set once, ignores every answer and event, and keeps the link', async (t) => {
    const host = await hostWithTools(t);
    const link = wire(t);
    host.accept(link.host);
    const raw = new TextAgent(link.agent);
    await raw.shake();
    for (const { at, text, message } of vectors) {
      if (message.type === 'shutdown') continue;
      raw.send(text);
      // Requests are replied to in order and a ping at once, so all effects of the line have arrived with its pong.
      raw.send({ type: 'ping', id: `after ${at}` });
      const answers: Message[] = [];
      for (let next = await raw.next(); next.req_id !== `after ${at}`; next = await raw.next()) answers.push(next);
      if (roleOf(message.type) !== 'request') {
        // No peer sends the upper-case ones on a wire; a host may answer that it does not know them.
        if (!message.type.startsWith('SUBAGENT_')) assert.deepEqual(answers, [], at);
        continue;
      }
      assert.equal(answers.length, 1, `${at}: ${JSON.stringify(answers)}`);
      const [answer] = answers as [Message];
      assert.equal(answer.req_id, message.id ?? '', at);
      if (message.type === 'ping') assert.equal(answer.type, 'pong', at);
      else if (message.type === 'tool/list/req') assert.equal(answer.type, 'tool/list/resp', at);
      else {
        assert.equal(answer.type, 'error', at);
        const expected = message.type === 'handshake/req' ? 'invalid_message' : 'capability_missing';
        assert.equal(answer.code, message.type === 'tool/call/req' ? 'unknown_tool' : expected, at);
      }
    }
    assert.equal(raw.closedWith, undefined);
  });

  test('accepts every handshake of the set but the one of another major version', async (t) => {
    for (const { at, text, message } of vectors.filter(({ message }) => message.type === 'handshake/req')) {
      const host = await hostWithTools(t);
      const link = wire(t);
      host.accept(link.host);
      const raw = new TextAgent(link.agent);
      raw.send(text);
      const answer = await raw.answer(message.id);
      assert.equal(answer.ok, message.id !== 'st-mismatch', at);
      assert.equal(answer.reason, message.id === 'st-mismatch' ? 'version_mismatch' : '', at);
    }
  });

  test('drains and closes after every shutdown of the set', async (t) => {
    for (const { text } of vectors.filter(({ message }) => message.type === 'shutdown')) {
      const host = await hostWithTools(t);
      const link = wire(t);
      host.accept(link.host);
      const raw = new TextAgent(link.agent);
      await raw.shake();
      raw.send(text);
      await raw.closed();
    }
  });

  test('takes a call with only its arguments as one without events and with 30 seconds', () => {
    const full = vectors.find(({ message }) => message.type === 'tool/call/req')?.message as never;
    const bare = { arguments: {} } as never;
    assert.equal(toolCall.limitMs?.(bare), 30_000);
    assert.equal(toolCall.limitMs?.(full), 30_000);
    assert.equal(toolCall.streaming?.(bare), false);
    assert.equal(toolCall.streaming?.(full), false);
  });
});

describe('an agent', () => {
  /** Starts a host that replies as the test scripts, in lines. */
  const scripted = (link: Link, answer: (message: Message) => (Message | string)[]) => {
    const raw = new TextAgent(link);
    void (async () => {
      for (;;) for (const message of answer(await raw.next())) raw.send(message);
    })().catch(() => {}); // Its link has ended, and so has the test.
    return raw;
  };
  const accepted = ({ id }: Message) => ({
    type: 'handshake/resp',
    req_id: id,
    accepted_caps: [{ capability: 'tools' }],
  });

  test('keeps its link and its calls through every line of the set', async (t) => {
    const link = wire(t);
    scripted(link.host, (message) => {
      if (message.type === 'handshake/req') return [accepted(message)];
      if (message.type === 'ping') return [{ type: 'pong', req_id: message.id }];
      const lines = vectors.map(({ text }) => text);
      return [...lines, { type: 'tool/list/resp', req_id: message.id, tools: [] }];
    });
    const noise: string[] = [];
    const { agent, tools } = await agentOn(link.agent, { onUnparsed: (line) => noise.push(line) });
    assert.deepEqual(await within(tools.list(), 'the list'), []);
    await within(agent.ping(), 'a pong');
    assert.equal(agent.state, 'open');
    assert.deepEqual(noise, []);
  });

  test('takes fields that are left out for what the protocol says they are then', async (t) => {
    const link = wire(t);
    scripted(link.host, (message) => {
      const { type, id: req_id } = message;
      if (type === 'handshake/req') return [accepted(message)];
      if (type === 'ping') return [{ type: 'pong', req_id }];
      if (type === 'tool/list/req') return [{ type: 'tool/list/resp', req_id }];
      const data = { success: true, tool_name: 'x', duration_ms: 0 };
      return [
        { type: 'tool/event', req_id },
        { type: 'tool/call/resp', req_id, data },
      ];
    });
    const { agent, tools } = await agentOn(link.agent);
    assert.equal(agent.maxParallel, 4);
    assert.deepEqual(agent.capabilities.get('tools'), { enabled: true, metadata: {} });
    assert.equal((await agent.ping()).uptimeSeconds, 0);
    assert.deepEqual(await tools.list(), []);
    const events: object[] = [];
    const result = await tools.call('x', {}, { onEvent: (event) => events.push(event) });
    assert.deepEqual(events, [{ kind: 'status', data: {}, seq: 0 }]);
    assert.equal(result.success, true);
  });

  test('gets the result of another implementation whole, and its failures as errors', async (t) => {
    const results = vectors.filter(({ message }) => message.type === 'tool/call/resp').map(({ message }) => message);
    const link = wire(t);
    const answers = [...results];
    scripted(link.host, (message) =>
      message.type === 'handshake/req' ? [accepted(message)] : [{ ...answers.shift(), req_id: message.id }],
    );
    const { tools } = await agentOn(link.agent);
    assert.equal(results.length, 2);
    for (const { data } of results) {
      const call = tools.call(data.tool_name);
      if (data.success) assert.deepEqual(await call, data);
      else await assert.rejects(call, { code: 'tool_error' });
    }
  });
});

describe('what is written', () => {
  test('for every line of the set is the same message, stamped twice, in ASCII, and valid', () => {
    const writer = new A2ECodec('w-', () => 1_767_225_600_125);
    for (const { at, message } of vectors) {
      const { type, id = 'none', req_id = 'r1' } = message;
      const body = withoutEnvelope(message);
      const forms = [true, false].map((text) => {
        const address = { id: req_id, idText: '' };
        if (roleOf(type) === 'request') return writer.request(text, type, id, body);
        if (type === 'tool/event' || type === 'invoke/event') {
          return writer.event(text, type, address, body.kind as string, body.data as object, body.seq as number, 0);
        }
        const write = type === toolCall.reply ? (reply: never, s: string) => toolCall.writeReply!(reply, s) : undefined;
        return writer.reply(text, type, address, body, 7, write);
      });
      const [text, object] = forms as [string, Message];
      const written = proper(toAscii(text));
      const { id: _id, ...fields } = written;
      const { id: _own, ...same } = proper(toAscii(JSON.stringify(object)));
      const time = (body as Partial<ToolCallResp>).created_at === undefined ? {} : { created_at: fields.created_at };
      assert.deepEqual({ ...fields, ...time }, { ...same, ...time }, at);
      assert.deepEqual(withoutEnvelope(written), { ...body, ...time }, at);
      assert.equal(written.ts, 1_767_225_600.125, at);
    }
  });

  test('in a whole conversation, by both sides, is stamped twice, in ASCII, and valid', async (t) => {
    const waits = patient();
    const plugin = toolsPlugin({ tools: [echo, waits.tool] });
    const host = await hostWithTools(t, waits, plugin);
    const link = wire(t);
    host.accept(link.host);
    const { agent, tools } = await agentOn(link.agent, { agentId: 'été \u2028 😀' });
    await agent.ping();
    await plugin.add([flood]);
    await tools.list({ tags: ['été'] });
    const text = 'été 東京 😀 \u2028\u2029\u0085 \ud800';
    assert.deepEqual((await tools.call('echo', { text })).data, { text });
    for await (const event of tools.call('flood', { count: 3, kind: 'progress' })) assert.equal(event.kind, 'progress');
    await assert.rejects(tools.call('nonesuch été'), { code: 'unknown_tool' });
    await assert.rejects(tools.call('echo', { text: 7 }), { code: 'schema_violation' });
    await assert.rejects(agent.request('no/such/été'), { code: 'unknown_type' });
    await assert.rejects(agent.request('memory/list/req'), { code: 'capability_missing' });
    const waiting = tools.call('patient', { name: 'x' });
    await agent.ping();
    waiting.cancel();
    await assert.rejects(waiting, { code: 'cancelled' });
    await agent.ping();
    assert.deepEqual(waits.stopped, ['x:cancelled'], 'the host received which call to cancel');
    const { last } = await agent.journal('', {}, { onEvent: () => {} });
    assert.ok(last > 0);
    await agent.close();

    const messages = [...link.sent.agent(), ...link.sent.host()].map(proper);
    const sent = new Set(messages.map(({ type }) => type));
    // Read, but never written: Handfast's events are events of a capability.
    assert.deepEqual(
      [...schemas.keys()].filter((type) => !sent.has(type)),
      ['invoke/event'],
    );
  });

  test('to a peer without a handshake, or sent no JSON, is stamped twice, in ASCII, and valid', async (t) => {
    const host = await hostWithTools(t);
    const link = wire(t);
    host.accept(link.host);
    const raw = new TextAgent(link.agent);
    for (const line of ['{"type":', '[]', '{"type":"tool/list/req","id":"é"}', '{"id":"x"}']) raw.send(line);
    raw.send({ type: 'handshake/req', id: 'hs', agent_caps: ['memory', 'été'] });
    const refusal = await raw.answer('hs');
    assert.equal(refusal.reason, 'no_caps');
    await raw.closed();
    const messages = link.sent.host().map(proper);
    assert.deepEqual(
      messages.map(({ type, code }) => code ?? type),
      ['parse_error', 'invalid_message', 'capability_missing', 'invalid_message', 'handshake/resp'],
    );
  });
});

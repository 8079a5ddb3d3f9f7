/**
 * Servers that break the protocol: each ends in a health that reports it, with the last lines of its standard error,
 * and costs a bounded amount of memory.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { McpServer } from '../../src/mcp/server.ts';
import { errorOf, folder, PATIENCE_MS, serverOverHttp, until } from '../capabilities/mcp/support.ts';

const MIB = 1024 * 1024;
type Params = { readonly protocolVersion?: string; readonly name?: string };
const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };

/** Returns a program that gets each message as `message`, and has `send`, which sends one. */
const serverOf = (body: string): string => `
const fs = require('node:fs');
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const tool = (name, description = name) => ({ name, description, inputSchema: { type: 'object' } });
const opened = ({ id, params }) => send({ id, result: {
  protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'broken', version: '1' },
} });
console.error('broken: started');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line);
  const { id, method } = message;
  ${body}
});`;

function broken(t: TestContext, code: string, startTimeoutMs = PATIENCE_MS) {
  const cwd = folder(t);
  const server = new McpServer({
    address: { stdio: { command: process.execPath, args: ['-e', code] } },
    cwd,
    startTimeoutMs,
  });
  t.after(() => server.close());
  return { server, cwd };
}

const COLLECT_MS = 100;

/** Runs work, and gives the most memory that was in use meanwhile, in bytes, after garbage was collected, beyond that of before. */
async function memoryOf(work: Promise<unknown>): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = (): number => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  let most = 0;
  let isDone = false;
  void work.finally(() => {
    isDone = true;
  });
  let usedAt = 0;
  await until(() => {
    // Garbage collection is slow, and slower with more objects.
    if (isDone || performance.now() - usedAt >= COLLECT_MS) {
      most = Math.max(most, used() - before);
      usedAt = performance.now();
    }
    return isDone;
  });
  return most;
}

/** Each is too little for a start; the time is that of the start. */
const SILENT: Readonly<Record<string, string>> = {
  'never answers': serverOf(''),
  'answers with other ids': serverOf(`send({ id: 'other', result: {} }); send({ id: 99999, result: {} });`),
  'prints junk without end': `${serverOf('')} const junk = 'junk\\n'.repeat(10_000);
    const more = () => { while (process.stdout.write(junk)); process.stdout.once('drain', more); }; more();`,
  'prints a line without end': `${serverOf('')} const junk = 'junk '.repeat(10_000);
    const more = () => { while (process.stdout.write(junk)); process.stdout.once('drain', more); }; more();`,
};

for (const [what, code] of Object.entries(SILENT)) {
  test(`a server that ${what} is timeout, with what it printed`, async (t) => {
    const { server } = broken(t, code, 2_500);
    const starting = errorOf(server.start());
    const most = await memoryOf(starting);
    assert.equal((await starting).code, 'timeout');
    assert.deepEqual([server.health.state, server.health.stderr], ['timeout', ['broken: started']]);
    assert.ok(most < 100 * MIB, `${Math.round(most / MIB)} MiB`);
  });
}

test('a server that exits at once is failed, with its last words', async (t) => {
  const { server } = broken(
    t,
    `for (let at = 0; at < 100_000; at += 1) console.error('line ' + at); process.exitCode = 9;`,
  );
  assert.match((await errorOf(server.start())).message, /the server ended with code 9: line 99999/);
  assert.equal(server.health.state, 'failed');
  assert.deepEqual(server.health.stderr, ['line 99995', 'line 99996', 'line 99997', 'line 99998', 'line 99999']);
});

/** 100 MiB as one response. */
const HUGE = `const part = Buffer.alloc(1024 * 1024, 'x');
  const turn = new Int32Array(new SharedArrayBuffer(4));
  // A full pipe takes nothing for a moment.
  const write = (bytes) => {
    for (let at = 0; at < bytes.length;) try { at += fs.writeSync(1, bytes, at); } catch { Atomics.wait(turn, 0, 0, 1); }
  };
  write(Buffer.from('{"jsonrpc":"2.0","id":' + id + ',"result":{"tools":[{"name":"'));
  for (let at = 0; at < 100; at += 1) write(part);
  write(Buffer.from('"}]}}\\n'));`;

test('a line of 100 MiB instead of the list of tools fails the start, and instead of a result its call alone', async (t) => {
  const first = broken(
    t,
    serverOf(`if (method === 'initialize') opened(message); else if (method === 'tools/list') { ${HUGE} }`),
  );
  const starting = errorOf(first.server.start());
  const most = await memoryOf(starting);
  assert.match((await starting).message, /the response has more than 16777216 characters/);
  assert.deepEqual([first.server.health.state, first.server.health.stderr], ['failed', ['broken: started']]);
  assert.ok(most < 90 * MIB, `${Math.round(most / MIB)} MiB`);
  const answers = `if (method === 'initialize') opened(message);
    else if (method === 'tools/list') send({ id, result: { tools: [tool('huge'), tool('small')] } });
    else if (message.params?.name === 'small') send({ id, result: { content: [] } });
    else if (method === 'tools/call') { ${HUGE} }`;
  const { server } = broken(t, serverOf(answers));
  await assert.rejects(server.call('huge', {}, patiently), /more than 16777216 characters/);
  assert.deepEqual(await server.call('small', {}, patiently), { content: [] });
  assert.equal(server.health.state, 'ready');
});

/** Over HTTP: as one JSON text, as one event, and as events of which each is short. */
const LONG_BODIES: Readonly<
  Record<string, { readonly type: string; readonly each: string; readonly isRefused: boolean }>
> = {
  'a JSON text': { type: 'application/json', each: 'x', isRefused: true },
  'an event': { type: 'text/event-stream', each: 'x', isRefused: true },
  'many events': { type: 'text/event-stream', each: '\n\n: comment', isRefused: false },
  'many events of a type in capitals': { type: 'Text/Event-Stream', each: '\n\n: comment', isRefused: false },
};

for (const [what, { type, each, isRefused }] of Object.entries(LONG_BODIES)) {
  test(`a response over HTTP of 100 MiB in ${what} ${isRefused ? 'fails its call alone' : 'is read'}`, async (t) => {
    const part = each.repeat(Math.ceil(MIB / each.length));
    const isEvent = type !== 'application/json';
    const server = await serverOverHttp(t, async (request, response) => {
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const { id, method, params } = (await json(request)) as { id?: number; method: string; params?: Params };
      if (id === undefined) return void response.writeHead(202).end();
      const results: Readonly<Record<string, unknown>> = {
        initialize: {
          protocolVersion: params?.protocolVersion,
          capabilities: { tools: {} },
          serverInfo: { name: 'broken', version: '1' },
        },
        'tools/list': { tools: ['huge', 'small'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
        'tools/call': { content: [] },
      };
      const result = results[method];
      const text = JSON.stringify({
        jsonrpc: '2.0',
        id,
        ...(result === undefined ? { error: { code: -32_601, message: 'not known' } } : { result }),
      });
      if (params?.name !== 'huge')
        return void response.writeHead(200, { 'content-type': 'application/json' }).end(text);
      response.writeHead(200, { 'content-type': type });
      response.write(isEvent ? 'data: ' : '"');
      if (!isRefused) response.write(text);
      for (let at = 0; at < 100 && !response.destroyed; at += 1) {
        await new Promise((resolve) => response.write(part, resolve));
      }
      response.end(isEvent ? '\n\n' : '"');
    });
    const calling = server.call('huge', {}, patiently);
    const ended = calling.catch(() => {});
    const most = await memoryOf(ended);
    if (isRefused) await assert.rejects(calling, /the response has more than 16777216 bytes/);
    else assert.deepEqual(await calling, { content: [] });
    assert.ok(most < 90 * MIB, `${Math.round(most / MIB)} MiB`);
    assert.deepEqual(await server.call('small', {}, patiently), { content: [] });
  });
}

test('a server that lists two tools of one name is failed', async (t) => {
  const lists = `if (method === 'initialize') opened(message);
    else if (method === 'tools/list') send({ id, result: { tools: [tool('same', 'harmless'), tool('same', 'harmful')] } });`;
  const { server } = broken(t, serverOf(lists));
  assert.match((await errorOf(server.start())).message, /the server lists two tools with the name "same"/);
  assert.deepEqual([server.health.state, server.health.stderr], ['failed', ['broken: started']]);
});

test('a tool that is on two pages alike is one', async (t) => {
  const lists = `if (method === 'initialize') opened(message);
    else if (method === 'tools/list') send({ id, result: message.params?.cursor === '2'
      ? { tools: [tool('same', 'one'), tool('b')] } : { tools: [tool('a'), tool('same', 'one')], nextCursor: '2' } });`;
  const { server } = broken(t, serverOf(lists));
  await server.start();
  assert.deepEqual(
    server.tools.map(({ name }) => name),
    ['a', 'same', 'b'],
  );
});

const LONG: Readonly<Record<string, string>> = {
  'one definition of 100 KB': `[tool('big', 'x'.repeat(100_000))]`,
  'definitions of 1 MB': `Array.from({ length: 20 }, (_, at) => tool('big' + at, 'x'.repeat(50_000)))`,
  '2,001 tools': `Array.from({ length: 2_001 }, (_, at) => tool('big' + at))`,
};

for (const [what, tools] of Object.entries(LONG)) {
  test(`a server that lists ${what} is failed: its tools would leave no room for those of others`, async (t) => {
    const { server } = broken(
      t,
      serverOf(`if (method === 'initialize') opened(message);
      if (method === 'tools/list') send({ id, result: { tools: ${tools} } });`),
    );
    const { message } = await errorOf(server.start(patiently.signal));
    assert.match(message, /more than/);
    assert.equal(server.health.state, 'failed');
  });
}

test('of a storm of notifications few are read, and what has changed is noticed', async (t) => {
  const storm = `if (method === 'initialize') opened(message);
    else if (method === 'tools/list') send({ id, result: { tools: fs.existsSync('CHANGED') ? [tool('storm'), tool('late')] : [tool('storm')] } });
    else if (method === 'tools/call') {
      for (let at = 0; at < 5_000; at += 1) send({ method: 'notifications/message', params: { level: 'info', data: at } });
      for (let at = 0; at < 5_000; at += 1) send({ method: 'notifications/progress', params: { progressToken: 'none' + at, progress: at } });
      for (let at = 0; at < 5_000; at += 1) send({ method: 'notifications/tools/list_changed' });
      fs.writeFileSync('CHANGED', '');
      send({ method: 'notifications/tools/list_changed' });
      send({ id, result: { content: [] } });
    }`;
  let read = 0;
  const server = new McpServer({
    address: { stdio: { command: process.execPath, args: ['-e', serverOf(storm)] } },
    cwd: folder(t),
    onNotification: () => {
      read += 1;
    },
  });
  t.after(() => server.close());
  await server.start(patiently.signal);
  assert.deepEqual(await server.call('storm', {}, patiently), { content: [] });
  await until(() => server.tools.some(({ name }) => name === 'late'));
  assert.ok(read < 10_000, `${read} of 15,000 were read`);
});

test('a server whose definitions change at every list is not listed all the time, and its tool is not called', async (t) => {
  const changes = `if (method === 'initialize') opened(message);
    else if (method === 'tools/list') {
      fs.appendFileSync('lists', '.');
      send({ id, result: { tools: [tool('shifty', String(Math.random())), tool('steady')] } });
      send({ method: 'notifications/tools/list_changed' });
    } else if (method === 'tools/call') send({ id, result: { content: [] } });`;
  const { server, cwd } = broken(t, serverOf(changes));
  await server.start();
  const lists = (): number => readFileSync(join(cwd, 'lists'), 'utf8').length;
  const before = performance.now();
  await until(() => lists() >= 8);
  // Some at once, then one each second: not thousands.
  assert.ok(lists() < 10 + (performance.now() - before) / 1_000, `${lists()} lists`);
  assert.equal((await errorOf(server.call('shifty', {}, patiently))).code, 'tool_denied');
  assert.deepEqual(await server.call('steady', {}, patiently), { content: [] });
});

test('a result that does not fit the schema of its tool fails the call with the text that the tool gave', async (t) => {
  const { server } = broken(
    t,
    serverOf(`if (method === 'initialize') return opened(message);
      const outputSchema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
      if (method === 'tools/list') send({ id, result: { tools: ['none', 'other', 'failed'].map((name) => ({ ...tool(name), outputSchema })) } });
      const content = [{ type: 'text', text: 'filter expects an integer' }];
      const results = { none: { content }, other: { content, structuredContent: {} }, failed: { content, isError: true, structuredContent: { error: 1 } } };
      if (method === 'tools/call') send({ id, result: results[message.params.name] });`),
  );
  await server.start();
  for (const [name, why] of [
    ['none', 'it has no structured content'],
    ['other', '/a is required'],
  ] as const) {
    const { code, message } = await errorOf(server.call(name, {}, patiently));
    assert.equal(code, 'schema_violation');
    assert.equal(message, `result of ${name}: ${why}; the tool has run, and says: filter expects an integer`);
  }
  assert.equal((await server.call('failed', {}, patiently)).isError, true);
});

test('a result is held to the schema of its tool, for which the thread of the host does nothing', async (t) => {
  const slow = JSON.stringify({ properties: { a: { pattern: '^(a+)+$' } } });
  const { server } = broken(
    t,
    serverOf(`if (method === 'initialize') return opened(message);
      const outputs = { slow: ${slow}, number: { properties: { a: { type: 'number' } } }, odd: { properties: { a: { type: 'strong' } } } };
      if (method === 'tools/list') send({ id, result: { tools: Object.entries(outputs).map(([name, { properties }]) =>
        ({ ...tool(name), outputSchema: { type: 'object', properties } })) } });
      if (method === 'tools/call') send({ id, result: { content: [], structuredContent: { a: 'a'.repeat(40) + '!' } } });`),
  );
  await server.start();
  const turns = setInterval(() => {
    count += 1;
  }, 5);
  let count = 0;
  const late = await errorOf(server.call('slow', {}, patiently));
  clearInterval(turns);
  assert.deepEqual([late.code, late.detail.reason], ['schema_violation', 'time'], late.message);
  // A check in this thread lets no timer run.
  assert.ok(count > 5, `${count}`);
  const wrong = await errorOf(server.call('number', {}, patiently));
  assert.deepEqual([wrong.code, wrong.detail.path], ['schema_violation', '/a'], wrong.message);
  assert.match(
    (await errorOf(server.call('odd', {}, patiently))).message,
    /the schema of the result of odd is invalid/,
  );
});

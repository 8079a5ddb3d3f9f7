/**
 * Servers over HTTP that forget sessions with any status, write responses a little differently, or send responses that cannot be read,
 * each of which fails its call at once.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';

import { setTimeout } from 'node:timers/promises';
import { errorOf, PATIENCE_MS, serverOverHttp, until } from '../capabilities/mcp/support.ts';

const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };
type Message = { readonly id?: number; readonly method: string; readonly params?: { readonly name?: string } };

interface Ways {
  /** Replies to a request of a session that is not known. */
  readonly forgotten?: (response: ServerResponse, message: Message) => void;
  /** Replies to a call of the tool `odd`. */
  readonly odd?: (response: ServerResponse, message: Message, request: IncomingMessage) => void;
  /** Serves the stream of notifications. */
  readonly stream?: (response: ServerResponse) => void;
}

/** Starts a server with sessions and the tools `good` and `odd`. */
async function serverOf(t: TestContext, ways: Ways) {
  const sessions = new Set<string>();
  const seen = { opened: 0, calls: 0 };
  const server = await serverOverHttp(t, async (request, response) => {
    if (request.method === 'GET' && ways.stream !== undefined) return ways.stream(response);
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const message = (await json(request)) as Message;
    const reply = (result: object, headers: Readonly<Record<string, string>> = {}): void => {
      const text = JSON.stringify({ jsonrpc: '2.0', id: message.id, result });
      response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text);
    };
    if (message.method === 'initialize') {
      seen.opened += 1;
      sessions.add(`s${seen.opened}`);
      const ready = {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' },
      };
      return reply(ready, { 'mcp-session-id': `s${seen.opened}` });
    }
    if (!sessions.has(String(request.headers['mcp-session-id']))) return ways.forgotten?.(response, message);
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === 'tools/list') {
      return reply({ tools: ['good', 'odd'].map((name) => ({ name, inputSchema: { type: 'object' } })) });
    }
    if (message.method !== 'tools/call') return reply({});
    seen.calls += 1;
    if (message.params?.name === 'odd') return ways.odd?.(response, message, request);
    reply({ content: [{ type: 'text', text: `call ${seen.calls}` }] });
  });
  return { server, seen, forget: () => sessions.clear() };
}

const sent =
  (status: number, body: unknown, type = 'application/json') =>
  (response: ServerResponse, { id }: Message): void => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    response.writeHead(status, { 'content-type': type }).end(text.replaceAll('ID', String(id)));
  };

/** Replies of the SDKs in TypeScript, Python, Rust, Go, Java and C#, and of gateways before them, for an unknown session. */
const FORGOTTEN: Readonly<Record<string, ReturnType<typeof sent>>> = {
  '404': sent(404, { jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null }),
  '404 without a body': sent(404, ''),
  '400 of an example of the SDK': sent(400, {
    jsonrpc: '2.0',
    error: { code: -32000, message: 'Bad Request: No valid session ID provided' },
    id: null,
  }),
  '400 of a server that was started again': sent(400, {
    jsonrpc: '2.0',
    error: { code: -32000, message: 'Bad Request: Server not initialized' },
    id: null,
  }),
  '400 in plain text': sent(400, 'Invalid session ID', 'text/plain'),
  '401': sent(401, { error: 'Unauthorized: Session not found' }),
  '401 in plain text': sent(401, 'Unauthorized: Session not found', 'text/plain'),
  '409': sent(409, { error: { message: 'session is closed' } }),
  '410': sent(410, 'Gone', 'text/plain'),
  '500': sent(500, { error: 'Session 0f9a does not exist' }),
  '503': sent(503, { error: 'no session' }),
  'an error of JSON-RPC': sent(
    200,
    '{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Received request before initialization was complete"}}',
  ),
  'an error of JSON-RPC as an event': sent(
    200,
    'data: {"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Received request before initialization was complete"}}\n\n',
    'text/event-stream',
  ),
};

for (const [what, forgotten] of Object.entries(FORGOTTEN)) {
  test(`a call opens a session that is forgotten with ${what} again, and runs once`, async (t) => {
    const { server, seen, forget } = await serverOf(t, { forgotten });
    await server.call('good', {}, patiently);
    forget();
    const { content } = await server.call('good', {}, patiently);
    assert.deepEqual(content, [{ type: 'text', text: 'call 2' }]);
    assert.equal(seen.opened, 2);
    assert.equal(server.health.state, 'ready');
  });
}

test('an error that does not mention sessions opens no session, and has one line', async (t) => {
  const errors: readonly (readonly [status: number, body: unknown, type: string, line: RegExp])[] = [
    [
      502,
      `<html><head><title>502 Bad Gateway</title></head>${'x'.repeat(200_000)}`,
      'text/html',
      /^the server replied HTTP 502 Bad Gateway: 502 Bad Gateway$/,
    ],
    [
      500,
      { error: { code: -32603, message: 'the disk is\nfull' } },
      'application/json',
      /^the server replied HTTP 500 .*: the disk is full$/,
    ],
    [429, 'slow down', 'text/plain', /^the server replied HTTP 429 Too Many Requests: slow down$/],
    [400, `${'long '.repeat(10_000)}`, 'text/plain', /^the server replied HTTP 400 Bad Request: long/],
    [403, '', 'text/plain', /^the server replied HTTP 403 Forbidden$/],
  ];
  for (const [status, body, type, line] of errors) {
    const { server, seen } = await serverOf(t, { odd: sent(status, body, type) });
    const { message, detail } = await errorOf(server.call('odd', {}, patiently));
    assert.match(message, line);
    assert.equal(detail.may_have_run, status >= 500 ? true : undefined, 'a gateway does not know');
    assert.ok(message.length < 400, String(message.length));
    assert.equal(seen.opened, 1);
  }
});

test('a call that was cut off when its server forgot the session is not made again', async (t) => {
  let cut: (() => void) | undefined;
  const { server, seen, forget } = await serverOf(t, {
    forgotten: sent(404, ''),
    odd: (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': working\n\n');
      cut = () => void response.destroy();
    },
  });
  const odd = errorOf(server.call('odd', {}, patiently));
  while (cut === undefined) await new Promise((resolve) => setImmediate(resolve));
  forget();
  const again = server.call('good', {}, patiently);
  cut();
  const { code, detail } = await odd;
  assert.deepEqual([code, detail.may_have_run], ['connection_lost', true]);
  assert.deepEqual((await again).content, [{ type: 'text', text: 'call 2' }]);
  assert.equal(seen.calls, 2);
});

const result = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"read"}]}}';
const deep = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${'['.repeat(99)}${']'.repeat(99)}}}`;
const READ: Readonly<Record<string, ReturnType<typeof sent>>> = {
  'a type in capitals with a charset': sent(200, result, 'Application/JSON; charset=UTF-8'),
  'the type of plain text': sent(200, result, 'text/plain'),
  'another JSON type': sent(200, result, 'application/json-rpc+json'),
  'a byte order mark': sent(200, `\ufeff${result}`),
  'a batch': sent(
    200,
    `[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}},${result}]`,
  ),
  'an error that is null': sent(200, result.replace('"result"', '"error":null,"result"')),
  'an id that is null': sent(200, result.replace('ID', 'null')),
  'an id that is a text': sent(200, result.replace('ID', '"ID"')),
  'an event without a name': sent(200, `data:${result}\r\n\r\n`, 'text/event-stream'),
  'an event without its last line': sent(200, `event: message\ndata: ${result}\n`, 'text/event-stream'),
  'an event of many lines': sent(
    200,
    `data: {"jsonrpc":"2.0","id":ID,"error":null,\ndata: "result":{"content":[{"type":"text","text":"read","_meta":null}]}}\n\n`,
    'text/event-stream',
  ),
  'a notification before it that is not JSON': sent(
    200,
    `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":NaN}}\n\ndata: ${result}\n\n`,
    'text/event-stream',
  ),
  'a notification before it that is nested too deeply': sent(
    200,
    `data: ${deep}\n\ndata: ${result}\n\n`,
    'text/event-stream',
  ),
  'other events before it': sent(
    200,
    `id: 0\nretry: 100\ndata:\n\n: ping\n\nevent: ping\ndata: now\n\nid: 1\ndata: ${result}\n\n`,
    'text/event-stream; charset=utf-8',
  ),
};

test('responses that are written a little differently are read', async (t) => {
  for (const [what, odd] of Object.entries(READ)) {
    const { server } = await serverOf(t, { odd });
    const { content } = await server.call('odd', {}, patiently);
    assert.deepEqual(content, [{ type: 'text', text: 'read' }], what);
  }
});

test('the client continues a response by the id of its last event', async (t) => {
  const [first, second] = ['id: e1\nretry: 10\ndata:\n\n', `id: e2\ndata: ${result}\n\n`];
  let id: number | undefined;
  const { server } = await serverOf(t, {
    odd: (response, message) => {
      id = message.id;
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(first);
    },
    stream: (response) => {
      if (id === undefined) return void response.writeHead(405).end();
      assert.equal(response.req.headers['last-event-id'], 'e1');
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(second.replace('ID', String(id)));
    },
  });
  assert.deepEqual((await server.call('odd', {}, patiently)).content, [{ type: 'text', text: 'read' }]);
});

const stays = (events: string) => (response: ServerResponse, message: Message) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(events.replaceAll('ID', String(message.id)));
};
/** Each with its reason; a wait would end at the limit of the call, which is far away. */
const UNREADABLE: readonly (readonly [odd: Ways['odd'], why: RegExp])[] = [
  [sent(200, '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":NaN}}}'), /NaN and Infinity/],
  [sent(200, ''), /cannot be read: it is empty/],
  [sent(200, 'null'), /cannot be read: it is no JSON object/],
  [sent(200, '{"jsonrpc":"2.0","id":ID}'), /neither a result nor an error/],
  [sent(200, result.replace('ID', '987')), /it is for another request/],
  [sent(200, '<html>Sign in</html>', 'text/html'), /it is of the type "text\/html"/],
  [sent(202, ''), /accepted the request and sent nothing/],
  [sent(204, ''), /cannot be read|content type/],
  [stays('data: {"jsonrpc":"2.0","id":ID,"result":{"content":[]\n\n'), /cannot be read: it is not JSON/],
  [stays('data: {"jsonrpc":"2.0","id":ID}\n\n'), /neither a result nor an error/],
];

test('a stream of notifications that ends at once is not asked for in a loop, and one of another type once', async (t) => {
  for (const [stream, most] of [
    [(response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(), 4],
    [
      (response: ServerResponse) =>
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end('retry: 0\nid: 1\ndata:\n\n'),
      4,
    ],
    [(response: ServerResponse) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'), 1],
    [(response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/plain' }).end('use POST'), 1],
  ] as const) {
    let asked = 0;
    const { server } = await serverOf(t, {
      stream: (response) => {
        asked += 1;
        stream(response);
      },
    });
    await setTimeout(1_000);
    assert.ok(asked >= 1 && asked <= most, `${asked} requests`);
    await server.call('good', {}, patiently);
  }
});

test('a response that cannot be read fails its call at once, also on a stream that stays open', async (t) => {
  for (const [odd, why] of UNREADABLE) {
    const { server } = await serverOf(t, { ...(odd && { odd }) });
    assert.match((await errorOf(server.call('odd', {}, patiently))).message, why);
    assert.deepEqual((await server.call('good', {}, patiently)).content, [{ type: 'text', text: 'call 2' }]);
  }
});

test('a call that is accepted without a response fails at once where no stream of notifications is open', async (t) => {
  for (const status of [204, 302, 405]) {
    let streams = 0;
    const { server } = await serverOf(t, {
      odd: sent(202, ''),
      stream: (response) => {
        response.writeHead(status).end();
        streams += 1;
      },
    });
    await until(() => streams > 0);
    await server.call('good', {}, patiently);
    assert.match((await errorOf(server.call('odd', {}, patiently))).message, /accepted the request and sent nothing/);
  }
});

test('a response of JSON that is cut off may have run', async (t) => {
  const { server } = await serverOf(t, {
    odd: (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"jsonrpc":', () => response.destroy());
    },
  });
  const { code, detail } = await errorOf(server.call('odd', {}, patiently));
  assert.deepEqual([code, detail.may_have_run], ['connection_lost', true]);
});

/**
 * The bad-input contract as byte fixtures: the sent bytes, and the exact replies. `bad-input.test.ts` sends them over
 * every text transport.
 *
 * @see the threat model, "Bad-input contract" and the rows of the fault catalogue named in the titles
 */

/** The reply that the host must send. `path` and `reason` are compared with `detail`. */
export interface Expected {
  readonly code: string;
  readonly reason?: string;
  readonly path?: string;
  readonly req_id?: string;
  readonly retryable?: boolean;
  readonly capability_name?: string;
}

/** One piece of bad input. */
export interface Fixture {
  readonly title: string;
  /** Sent in one write: one frame or body where the transport has those. A newline is added. */
  readonly send: string | Buffer;
  /** Errors in order; undefined = nothing is answered. */
  readonly expect: readonly Expected[] | undefined;
  /** Status of the HTTP answer for a client that numbers its bodies, when it is not 200. A plain client gets 200. */
  readonly status?: number;
}

const message = (fields: object): string => JSON.stringify(fields);
const call = (id: unknown, tool_name: string, args: unknown, extra: object = {}): string =>
  message({ type: 'tool/call/req', id, tool_name, arguments: args, ...extra });
const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))));

const parseError: Expected = { code: 'parse_error', req_id: '', retryable: false };
const noMessage: Expected = { code: 'invalid_message', req_id: '', retryable: false };
const violation = (path: string, req_id: string): Expected => ({ code: 'schema_violation', path, req_id });
const unknownType = (req_id: string): Expected => ({ code: 'invalid_message', reason: 'unknown_type', req_id });
const notGranted = (capability_name: string, req_id: string): Expected => ({
  code: 'capability_missing',
  capability_name,
  req_id,
});
const tooDeep: Expected = { code: 'invalid_message', reason: 'too_large', req_id: '' };

/** Arguments nested so deep that the whole message has `levels` levels. */
const nested = (id: string, levels: number): string =>
  `{"type":"tool/call/req","id":"${id}","tool_name":"echo","arguments":${'{"a":'.repeat(levels - 2)}{}${'}'.repeat(levels - 2)}}`;

/** Not JSON, or not UTF-8. */
const unreadable: readonly Fixture[] = [
  { title: 'words', send: 'hello, host', expect: [parseError] },
  { title: 'a truncated object', send: '{"type":"ping","id":"p"', expect: [parseError] },
  { title: 'two objects on one line', send: '{"type":"ping"} {"type":"ping"}', expect: [parseError] },
  { title: 'a trailing comma', send: '{"type":"ping","id":"p",}', expect: [parseError] },
  { title: 'single quotes', send: "{'type':'ping'}", expect: [parseError] },
  { title: 'NaN', send: '{"type":"ping","id":"p","ts":NaN}', expect: [parseError] },
  { title: 'F-04: a raw NUL in a string', send: bytes('{"type":"ping","id":"a', [0], 'b"}'), expect: [parseError] },
  { title: 'F-04: a lone NUL', send: bytes([0]), expect: [parseError] },
  {
    title: 'F-04: a raw control byte in a string',
    send: bytes('{"type":"ping","id":"', [1], '"}'),
    expect: [parseError],
  },
  { title: 'F-04: a raw tab in a string', send: '{"type":"ping","id":"\t"}', expect: [parseError] },
  {
    title: 'F-11: a lone carriage return between two messages',
    send: '{"type":"ping"}\r{"type":"ping"}',
    expect: [parseError],
  },
  ...Object.entries({
    'a byte that never occurs': [0xff],
    'an overlong slash': [0xc0, 0xaf],
    'an overlong NUL': [0xc0, 0x80],
    'a surrogate': [0xed, 0xa0, 0x80],
    'a pair of surrogates': [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80],
    'a sequence cut off': [0xe2, 0x82],
    'a stray continuation': [0x80],
    'a code point above the last': [0xf4, 0x90, 0x80, 0x80],
  }).map(([what, wrong]) => ({
    title: `F-05: ${what}`,
    send: bytes('{"type":"ping","id":"', wrong, '"}'),
    expect: [parseError],
  })),
];

/** JSON, but no message. */
const shapeless: readonly Fixture[] = [
  ...['[]', '[{"type":"ping","id":"p"}]', '"ping"', '5', 'null', 'true'].map((send) => ({
    title: `${send} instead of an object`,
    send,
    expect: [noMessage],
    status: 400,
  })),
  { title: 'an empty object', send: '{}', expect: [noMessage] },
  { title: 'no type', send: '{"id":"a"}', expect: [{ code: 'invalid_message', req_id: 'a' }] },
  ...['5', 'null', '""', '["ping"]', '{"ping":1}', 'true'].map((type) => ({
    title: `the type ${type}`,
    send: `{"type":${type},"id":"a"}`,
    expect: [{ code: 'invalid_message', req_id: 'a' }],
  })),
  { title: 'a request without an id', send: '{"type":"tool/list/req"}', expect: [noMessage] },
  ...['5', 'null', '""', '["a"]', '{"a":1}', 'true'].map((id) => ({
    title: `a request with the id ${id}`,
    send: `{"type":"tool/list/req","id":${id}}`,
    expect: [noMessage],
  })),
  ...['1e400', '9007199254740993', '12345678901234567890', '-0.0'].map((id) => ({
    title: `F-08: the number ${id} as an id is refused, not rounded`,
    send: `{"type":"tool/list/req","id":${id}}`,
    expect: [noMessage],
  })),
  {
    title: 'F-09: a type that is only inherited',
    send: '{"__proto__":{"type":"tool/list/req","id":"inherited"}}',
    expect: [noMessage],
  },
];

/** Messages that do not fit their schema. */
const misshapen: readonly Fixture[] = [
  {
    title: 'a call without arguments',
    send: message({ type: 'tool/call/req', id: 'v1' }),
    expect: [violation('/arguments', 'v1')],
  },
  { title: 'arguments that are a list', send: call('v2', 'echo', []), expect: [violation('/arguments', 'v2')] },
  { title: 'arguments that are null', send: call('v3', 'echo', null), expect: [violation('/arguments', 'v3')] },
  { title: 'a negative timeout', send: call('v4', 'echo', {}, { timeout: -1 }), expect: [violation('/timeout', 'v4')] },
  {
    title: 'streaming as text',
    send: call('v5', 'echo', {}, { streaming: 'yes' }),
    expect: [violation('/streaming', 'v5')],
  },
  {
    title: 'a tool name that is a list',
    send: message({ type: 'tool/call/req', id: 'v6', tool_name: ['echo'], arguments: {} }),
    expect: [violation('/tool_name', 'v6')],
  },
  {
    title: 'tags that are no list',
    send: message({ type: 'tool/list/req', id: 'v7', filter_tags: 'a' }),
    expect: [violation('/filter_tags', 'v7')],
  },
  { title: 'a time that is text', send: call('v8', 'echo', {}, { ts: 'now' }), expect: [violation('/ts', 'v8')] },
  { title: 'an argument of the wrong type', send: call('v9', 'echo', { text: 5 }), expect: [violation('/text', 'v9')] },
  {
    title: 'F-08: an infinite number for an integer',
    send: '{"type":"tool/call/req","id":"v10","tool_name":"echo","arguments":{"n":1e400}}',
    expect: [violation('/n', 'v10')],
  },
  { title: 'an argument that is missing', send: call('v11', 'sum', {}), expect: [violation('/numbers', 'v11')] },
  {
    title: 'an unknown argument',
    send: call('v12', 'sum', { numbers: [], more: 1 }),
    expect: [violation('/more', 'v12')],
  },
  {
    title: 'a wrong item deep inside',
    send: call('v13', 'sum', { numbers: [1, 'two'] }),
    expect: [violation('/numbers/1', 'v13')],
  },
  {
    title: 'a version stamp of another major version',
    send: call('v14', 'echo', {}, { a2e: '2.0' }),
    expect: [{ code: 'version_mismatch', req_id: 'v14' }],
  },
];

/** Things this host does not do, or may not do. */
const unserved: readonly Fixture[] = [
  ...[
    'no/such/req',
    'tool/frobnicate/req',
    'x',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    'TOOL/LIST/REQ',
  ].map((type) => ({
    title: `F-25: the type ${type}`,
    send: message({ type, id: type }),
    expect: [unknownType(type)],
  })),
  ...['__proto__', 'constructor', 'no such tool', '', '../echo', 'echo\u0000'].map((name) => ({
    title: `F-09: the tool ${JSON.stringify(name)}`,
    send: call('t', name, {}),
    expect: [{ code: 'unknown_tool', req_id: 't', retryable: false }],
  })),
  ...(
    [
      ['memory/store/req', 'memory'],
      ['env/step/req', 'env'],
      ['proc/spawn/req', 'proc'],
      ['planning/create', 'planning'],
      ['mcp/register/req', 'mcp'],
      ['test/bug/req', 'test'],
    ] as const
  ).map(([type, capability]) => ({
    title: `a capability that was not granted: ${type}`,
    send: message({ type, id: 'c' }),
    expect: [notGranted(capability, 'c')],
  })),
  ...[
    'tool/event',
    'no/such/event',
    'tool/call/resp',
    'no/such/resp',
    'env/state/push',
    'pong',
    'handshake/resp',
    'error',
  ].map((type) => ({
    title: `F-25: ${type}, which is no request, is dropped`,
    send: message({ type, id: 'e', req_id: 'nobody', code: 'x', data: {} }),
    expect: undefined,
  })),
  {
    title: 'F-15: a second handshake',
    send: message({ type: 'handshake/req', id: 'hs2', agent_caps: ['tools', 'proc', 'test'] }),
    expect: [{ code: 'invalid_message', req_id: 'hs2' }],
  },
  {
    title: 'a cancel, which this session did not agree to',
    send: message({ type: 'cancel', id: 'k', req_id: 'nobody' }),
    expect: [unknownType('k')],
  },
  { title: 'a tool that fails', send: call('f', 'fails', {}), expect: [{ code: 'tool_error', req_id: 'f' }] },
];

/** Pings, which are checked like every message. */
const pings: readonly Fixture[] = [
  ...['{"type":"ping","id":""}', '{"type":"ping","id":5}', '{"type":"ping","id":null}'].map((send) => ({
    title: `a ping with an id that is none: ${send}`,
    send,
    expect: [{ code: 'invalid_message', req_id: '' }],
  })),
  ...[{ a2e: '2.0' }, { version: '2.0' }, { a2e: 1 }].map((stamp) => ({
    title: `a ping of another version: ${JSON.stringify(stamp)}`,
    send: message({ type: 'ping', id: 'v', ...stamp }),
    expect: [{ code: 'version_mismatch', req_id: 'v' }],
  })),
  {
    title: 'a ping with a time that is no number',
    send: message({ type: 'ping', id: 't', ts: 'now' }),
    expect: [violation('/ts', 't')],
  },
];

/** Too long or too deep. */
const oversized: readonly Fixture[] = [
  {
    title: 'F-01: a line of 1.5 MiB',
    send: call('big', 'echo', { text: 'x'.repeat(1.5 * 1024 * 1024) }),
    expect: [{ code: 'invalid_message', reason: 'too_large', req_id: '', retryable: false }],
    status: 413,
  },
  {
    title: 'F-06: a message one level too deep',
    send: nested('deep', 65),
    expect: [{ ...tooDeep, req_id: 'deep' }],
    status: 413,
  },
  { title: 'F-06: 100,000 open brackets', send: '['.repeat(100_000), expect: [tooDeep], status: 413 },
  {
    title: 'F-06: 100,000 nested objects',
    send: `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`,
    expect: [tooDeep],
    status: 413,
  },
];

/** Sent on an established session, which must stay usable. */
export const fixtures: readonly Fixture[] = [
  ...unreadable.map((fixture) => ({ ...fixture, status: 400 })),
  ...shapeless,
  ...misshapen,
  ...unserved,
  ...pings,
  ...oversized,
];

const handshake = (fields: object): string =>
  message({ type: 'handshake/req', id: 'hs', agent_caps: ['tools'], ...fields });

/** The host's reply to a first message that ends the link. */
export interface Farewell {
  readonly title: string;
  readonly send: string | Buffer;
  /** An error, a refused handshake, or undefined when no reply is expected. */
  readonly expect: Expected | { readonly refused: string } | undefined;
}

/** Returns first messages to a host that demands a token: each gets one reply, then the end, and no later input is read. */
export const farewells = (token: string): readonly Farewell[] => [
  ...unreadable
    .filter(({ title }) => ['words', 'F-05: an overlong slash', 'F-04: a lone NUL'].includes(title))
    .map(({ title, send }) => ({ title, send, expect: parseError })),
  { title: 'a list', send: '[]', expect: noMessage },
  { title: 'no type', send: '{"id":"a"}', expect: { code: 'invalid_message', req_id: 'a' } },
  { title: 'an empty type', send: '{"type":"","id":"a"}', expect: { code: 'invalid_message', req_id: 'a' } },
  {
    title: 'F-16: a request',
    send: call('early', 'mark', { name: 'never' }),
    expect: { code: 'unauthorized', reason: 'handshake_required', req_id: 'early' },
  },
  {
    title: 'F-16: an unknown type',
    send: message({ type: 'no/such/req', id: 'early' }),
    expect: { code: 'unauthorized', reason: 'handshake_required', req_id: 'early' },
  },
  {
    title: 'a handshake without an id',
    send: message({ type: 'handshake/req', auth_token: token }),
    expect: noMessage,
  },
  {
    title: 'a handshake with the id 5',
    send: message({ type: 'handshake/req', id: 5, auth_token: token }),
    expect: noMessage,
  },
  {
    title: 'capabilities that are no list',
    send: handshake({ agent_caps: 'tools', auth_token: token }),
    expect: violation('/agent_caps', 'hs'),
  },
  {
    title: 'F-01: a line of 65 KiB',
    send: handshake({ agent_id: 'x'.repeat(65 * 1024), auth_token: token }),
    expect: { code: 'invalid_message', reason: 'too_large', req_id: '' },
  },
  { title: 'F-06: 10,000 open brackets', send: '['.repeat(10_000), expect: tooDeep },
  ...[{ a2e: '2.0' }, { version: '9.9' }, { a2e: 1 }, { a2e: '1.0', version: '2.0' }, { a2e: '' }].map((stamp) => ({
    title: `F-17: the version ${JSON.stringify(stamp)}`,
    send: handshake({ ...stamp, auth_token: token }),
    expect: { refused: 'version_mismatch' },
  })),
  ...[
    '',
    'wrong',
    token.slice(0, -1),
    `${token}x`,
    token.toUpperCase(),
    `${token}\u0000`,
    [token],
    { token },
    0,
    null,
    true,
  ].map((auth_token) => ({
    title: `F-18: the token ${JSON.stringify(auth_token)?.replaceAll(token, 'TOKEN').replaceAll(token.slice(0, -1), 'TOKE')}`,
    send: handshake({ auth_token }),
    expect: { refused: 'auth_failed' },
  })),
  { title: 'a shutdown', send: message({ type: 'shutdown', id: 's' }), expect: undefined },
];

/**
 * JSON-RPC as session RPC has it: the form of a line, the writing of messages, and errors in both directions.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Incoming } from '../../src/wire/codec.ts';
import { type ErrorName, type ErrorRow, errorTable, fail, HandfastError } from '../../src/wire/errors.ts';
import { errorFromRpc, JsonRpcCodec, rpcErrorOf } from '../../src/wire/jsonrpc.ts';
import fc from '../support/properties.ts';

/** The side that serves, and the side that calls. */
const codec = new JsonRpcCodec({ calls: false });
const caller = new JsonRpcCodec({ calls: true });

const rows = Object.entries(errorTable) as [ErrorName, ErrorRow][];

/** Returns the error that a line gets as its reply. */
function errorOf(line: string | Record<string, unknown>) {
  const incoming = codec.read(line);
  assert.equal(incoming?.kind, 'invalid');
  assert.equal(incoming.message, undefined);
  return rpcErrorOf(incoming.error as HandfastError);
}

function requestOf(line: string): Incoming {
  const incoming = codec.read(line);
  assert.equal(incoming?.kind, 'request');
  return incoming;
}

describe('what a line is', () => {
  test('blank lines are nothing: spaces of every kind, a byte order mark', () => {
    for (const line of ['', '  \t ', '\u00a0\u2003', '\ufeff', '\r']) assert.equal(codec.read(line), undefined);
  });

  test('space and a byte order mark around a message do not count', () => {
    assert.equal(requestOf(' \ufeff {"jsonrpc":"2.0","id":1,"method":"m"}\u00a0').type, 'm');
  });

  test('a request has an id: text, number or null; it keeps its method as it came', () => {
    for (const id of ['7', '"a"', '""', 'null', '-1', '0.5']) {
      const request = requestOf(`{"jsonrpc":"2.0","id":${id},"method":" M ","params":[1],"extra":{}}`);
      assert.deepEqual([request.id, request.type, request.body], [JSON.parse(id), ' M ', [1]]);
      assert.equal(codec.reply(true, '', request, 1), `{"jsonrpc":"2.0","id":${id},"result":1}`);
    }
  });

  test('a number that JavaScript cannot hold goes back as it came', () => {
    for (const id of ['9007199254740993', '12345678901234567890123', '0.1000000000000000055511151231257827', '1e400']) {
      const request = requestOf(`{"id":${id},"params":{"id":1.5,"deep":[{"id":2}]},"jsonrpc":"2.0","method":"m"}`);
      assert.equal(request.idText, id);
    }
    // The last of two counts, as for every other member.
    assert.equal(requestOf('{"jsonrpc":"2.0","id":1.5,"method":"m","id":1e30}').idText, '1e30');
    assert.equal(requestOf('{"jsonrpc":"2.0","id":1e30,"method":"m","id":3}').idText, '3');
  });

  test('a message without an id is a notification', () => {
    const incoming = codec.read('{"jsonrpc":"2.0","method":"m","params":null}');
    assert.deepEqual([incoming?.kind, incoming?.type, incoming?.body], ['notice', 'm', null]);
  });

  test('everything else is an invalid request, and its id is not believed', () => {
    const lines = [
      ...['1', '"x"', 'null', 'true', '{}', '{"jsonrpc":"2.0","id":1,"result":{}}'],
      ...['{"jsonrpc":"2.0","id":true,"method":"m"}', '{"jsonrpc":"2.0","id":{},"method":"m"}'],
      ...['{"jsonrpc":"2.0","id":[1],"method":"m"}', '{"jsonrpc":2,"id":1,"method":"m"}'],
      ...['{"jsonrpc":"2.0","id":1,"method":""}', '{"jsonrpc":"2.0","id":1,"method":" \u2003"}'],
      ...[
        '{"jsonrpc":"2.0","id":1,"method":5}',
        '{"id":1,"method":"m"}',
        '{"__proto__":{"jsonrpc":"2.0","method":"m"}}',
      ],
    ];
    for (const line of lines) {
      const { code, message, data } = errorOf(line);
      assert.deepEqual([code, message, data.reason], [-32600, 'invalid request', 'invalid_request'], line);
    }
  });

  test('every array is a batch, and none is taken', () => {
    for (const line of ['[]', '[1]', '[{"jsonrpc":"2.0","id":1,"method":"m"}]']) {
      const { code, message, data } = errorOf(line);
      assert.deepEqual([code, message], [-32600, 'batch requests are not supported']);
      assert.equal(data.reason, 'batch_not_supported');
    }
  });

  test('what is not JSON is reported in the words of the parser, and little of it comes back', () => {
    for (const line of ['{bad', '{"a":1}{"b":2}', '\u0000', `{"a":"${'x'.repeat(10_000)}`]) {
      const { code, message, data } = errorOf(line);
      assert.deepEqual([code, data.reason], [-32700, 'parse_error']);
      assert.match(message, /^parse error: ./);
      assert.ok(message.length < 256);
    }
  });

  test('nesting past the limit is refused unread', () => {
    const deep = `{"jsonrpc":"2.0","id":1,"method":"m","params":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    const { code, data } = errorOf(deep);
    assert.deepEqual([code, data.reason, data.limit, data.unit], [-32600, 'too_large', 64, 'levels']);
  });

  test('no text makes it throw, and what it takes for a request is one', () => {
    const member = fc.constantFrom('jsonrpc', 'id', 'method', 'params', '__proto__', 'x');
    const value = fc.oneof(fc.constantFrom('2.0', 'm', null, true, 1, '', {}), fc.jsonValue());
    const texts = fc.oneof(
      fc.string(),
      fc.json(),
      fc.dictionary(member, value).map((each) => JSON.stringify(each)),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const incoming = codec.read(text);
        if (incoming?.kind !== 'request') return;
        const parsed = JSON.parse(text.trim());
        assert.equal(parsed.jsonrpc, '2.0');
        assert.deepEqual(incoming.id, parsed.id);
        assert.deepEqual(JSON.parse(codec.reply(true, '', incoming, null) as string).id, parsed.id);
      }),
      { numRuns: 500 },
    );
  });
});

describe('what the side that calls reads', () => {
  const kindOf = (line: string) => caller.read(line)?.kind;

  test('results and errors of its requests, errors of no request, notifications, and requests of the server', () => {
    assert.equal(kindOf('{"jsonrpc":"2.0","id":1,"result":{"a":1}}'), 'reply');
    assert.equal(kindOf('{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'), 'failure');
    assert.equal(kindOf('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'), 'refusal');
    assert.equal(kindOf('{"jsonrpc":"2.0","method":"event","params":{}}'), 'notice');
    assert.equal(kindOf('{"jsonrpc":"2.0","id":1,"method":"m"}'), 'request');
    const reply = caller.read('{"jsonrpc":"2.0","id":7,"result":[1]}');
    assert.deepEqual([reply?.ref, reply?.body], [7, [1]]);
  });

  test('ignores JSON that is no object, and finds what is no JSON at all', () => {
    for (const line of ['[]', '1', 'null']) assert.equal(caller.read(line), undefined);
    assert.equal(caller.read('{')?.error?.code, 'parse_error');
  });

  test('what one side writes, the other reads', () => {
    const id = caller.id();
    const request = codec.read(caller.request(true, 'm', id, { a: 1 }));
    assert.deepEqual([request?.kind, request?.id, request?.body], ['request', id, { a: 1 }]);
    const cancel = codec.read(caller.cancel(true, id));
    assert.deepEqual([cancel?.kind, cancel?.ref], ['cancel', id]);
    const failure = caller.read(codec.failure(true, request as Incoming, fail('not_found', 'gone')));
    assert.deepEqual([failure?.kind, failure?.ref, failure?.error?.code], ['failure', id, 'not_found']);
  });
});

describe('what is written', () => {
  const request = { id: 'a"b', idText: '"a\\"b"' };

  test('answers and notifications are one line of JSON; the in-memory pair gets the same as an object', () => {
    const result = { text: 'line\nbreak\u2028', none: undefined };
    const line = codec.reply(true, '', request, result) as string;
    assert.doesNotMatch(line, /\n/);
    assert.deepEqual(JSON.parse(line), { jsonrpc: '2.0', id: 'a"b', result: { text: 'line\nbreak\u2028' } });
    assert.deepEqual(codec.reply(false, '', request, result), { jsonrpc: '2.0', id: 'a"b', result });
    const params = { type: 't', payload: {} };
    assert.equal(
      codec.notice(true, 'event', params),
      '{"jsonrpc":"2.0","method":"event","params":{"type":"t","payload":{}}}',
    );
    assert.deepEqual(codec.notice(false, 'event', params), { jsonrpc: '2.0', method: 'event', params });
  });

  test('no result is null', () => {
    assert.equal(codec.reply(true, '', { id: 1, idText: '1' }, undefined), '{"jsonrpc":"2.0","id":1,"result":null}');
    assert.deepEqual(codec.reply(false, '', { id: 1, idText: '1' }, undefined), {
      jsonrpc: '2.0',
      id: 1,
      result: null,
    });
  });

  test('an error can always be written, with less of it where JSON cannot carry its detail', () => {
    const detail: Record<string, unknown> = { big: 1n };
    const line = codec.failure(true, request, fail('not_found', 'gone', detail)) as string;
    assert.deepEqual(JSON.parse(line).error, {
      code: -32603,
      message: 'gone',
      data: { reason: 'internal_error', kind: 'not_found', retryable: false },
    });
  });
});

describe('errors', () => {
  test('numbers and reasons of 1.0.0 are as they were', () => {
    const expected: Partial<Record<ErrorName, [number, string]>> = {
      parse_error: [-32700, 'parse_error'],
      batch_not_supported: [-32600, 'batch_not_supported'],
      invalid_message: [-32600, 'invalid_request'],
      unknown_type: [-32601, 'method_not_found'],
      schema_violation: [-32602, 'invalid_params'],
      version_mismatch: [-32602, 'unsupported_protocol_version'],
      runtime_error: [-32603, 'internal_error'],
      session_not_found: [-32603, 'internal_error'],
      session_busy: [-32603, 'internal_error'],
      session_closed: [-32603, 'internal_error'],
      empty_prompt: [-32603, 'internal_error'],
      not_found: [-32603, 'internal_error'],
      not_configured: [-32603, 'internal_error'],
      provider_error: [-32603, 'internal_error'],
      login_failed: [-32603, 'internal_error'],
      over_capacity: [-32001, 'over_capacity'],
      handshake_required: [-32002, 'handshake_required'],
      auth_failed: [-32003, 'auth_failed'],
      unauthorized: [-32003, 'unauthorized'],
      cancelled: [-32800, 'cancelled'],
    };
    for (const [name, [code, reason]] of Object.entries(expected)) {
      const body = rpcErrorOf(fail(name as ErrorName, 'x'));
      assert.deepEqual([body.code, body.data.reason, body.data.kind], [code, reason, name]);
    }
  });

  test('every row comes back as it was, with its detail', () => {
    for (const [name, row] of rows) {
      const error = fail(name, `about ${name}`, { session_id: 's', field: 'f' });
      const back = errorFromRpc(JSON.parse(JSON.stringify(rpcErrorOf(error))));
      assert.deepEqual(
        [back.code, back.message, back.detail, back.retryable],
        [name, error.message, error.detail, row.retryable],
      );
    }
  });

  test('without our name a row is found by number and reason wherever 1.0.0 tells it apart', () => {
    for (const [name, row] of rows) {
      const { code, message, data } = rpcErrorOf(fail(name, 'x'));
      const back = errorFromRpc({ code, message, data: { reason: data.reason } });
      assert.equal(back.code, row.jsonrpc === -32603 ? 'runtime_error' : name);
    }
    assert.equal(errorFromRpc({ code: -32601, message: 'no' }).code, 'unknown_type');
  });

  test('where the general validator stopped is not told, the field is', () => {
    const { data } = rpcErrorOf(fail('schema_violation', 'x', { path: '/a', field: 'a' }));
    assert.deepEqual(data, { field: 'a', reason: 'invalid_params', kind: 'schema_violation', retryable: false });
    assert.equal(rpcErrorOf(fail('not_found', 'x', { path: 'p' })).data.path, 'p');
  });

  test('detail never takes the place of what the protocol says', () => {
    const { data } = rpcErrorOf(fail('not_found', 'x', { reason: 'mine', kind: 'mine', retryable: 'mine' }));
    assert.deepEqual(data, { reason: 'internal_error', kind: 'not_found', retryable: false });
  });

  test('an error that a peer sent keeps its name', () => {
    const foreign = new HandfastError('their_code', 'theirs', { retryable: true });
    const body = rpcErrorOf(foreign);
    assert.deepEqual([body.code, body.data.reason, body.data.kind], [-32603, 'internal_error', 'their_code']);
    assert.deepEqual([errorFromRpc(body).code, errorFromRpc(body).retryable], ['their_code', true]);
  });

  test('anything a server sends as an error becomes one of ours', () => {
    for (const odd of [undefined, null, 'x', 7, [], {}, { code: 'x', message: 5, data: [] }, { code: -1 }]) {
      const error = errorFromRpc(odd);
      assert.ok(error instanceof HandfastError);
      assert.deepEqual([error.code, error.retryable], ['runtime_error', false]);
      assert.notEqual(error.message, '');
    }
  });
});

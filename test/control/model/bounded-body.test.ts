/** Bodies of providers: events of any length and number leave the loop to others, and one that is too large ends the answer. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { boundedBody } from '../../../src/control/backends/model/bounded-body.ts';
import { requestJson } from '../../../src/control/providers/http/http-json.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { countedTurns } from '../../support/counted-turns.ts';
import { inTurns } from '../../support/longest-turn.ts';
import { ask, choiceOf, KEY, PROVIDERS, partsOf } from './harness.ts';

/** The text that a body gives which arrives in chunks of `size` bytes. */
function passed(text: string, { size = 65_536 } = {}): Promise<string> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
  const body = boundedBody(ReadableStream.from(chunks), () => {}) as ReadableStream<Uint8Array<ArrayBuffer>>;
  return new Response(body).text();
}

const refused = (text: string, what: RegExp) =>
  assert.rejects(passed(text), (error: Error & { code?: string }) => {
    assert.equal(error.code, 'provider_error');
    assert.match(error.message, what);
    return true;
  });

test('events of each line end pass unchanged, in chunks of any length', async () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const text = `: comment${end}${end}event: a${end}data: {"a":["hä",1]}${end}${end}data: [DONE]${end}${end}`;
    for (let size = 1; size <= Buffer.byteLength(text); size += 1) assert.equal(await passed(text, { size }), text);
  }
});

test('an event of too many values, or too long, is refused; many events together may be larger', async () => {
  const values = /an event of more than 65536 values/;
  await refused(`data: [${'[],'.repeat(70_000)}[]]\n\n`, values);
  await refused(`data: [\n${'data: [],\n'.repeat(70_000)}data: []]\n\n`, values);
  // A quote in another line hides nothing.
  await refused(`: "\ndata: [${'[],'.repeat(70_000)}[]]\n\n`, values);
  await refused(`[${'[],\n\n'.repeat(70_000)}[]]`, values);
  await refused(`\n {"a":[${'[],\n\n'.repeat(70_000)}[]]}`, values);
  await refused(`data: "${'x'.repeat(9_000_000)}"\n\n`, /an event longer than 8388608 bytes/);
  for (const end of ['\n', '\r\n', '\r']) {
    const one = `data: [${'[],'.repeat(30_000)}"${',:{['.repeat(20_000)}"]${end}${end}`;
    assert.equal((await passed(one.repeat(4))).length, one.length * 4);
  }
});

test('a body that arrives at once is handed on in several turns', async (t) => {
  const turns = countedTurns(t);
  await passed('\n'.repeat(4_000_000), { size: 4_000_000 });
  assert.ok(turns() > 10, `${turns()} turns`);
});

test('leaving a body ends the one behind it, also while nothing comes', async () => {
  let reason: unknown;
  const body = new ReadableStream<Uint8Array>({
    cancel(given) {
      reason = given;
    },
  });
  const reader = boundedBody(body, () => {}).getReader();
  const read = reader.read();
  await reader.cancel('left');
  assert.deepEqual([(await read).done, reason], [true, 'left']);
});

/** The reply of the provider. */
let reply = { status: 200, type: 'text/event-stream', body: '' };
const provider = createServer((request, response) => {
  request.resume();
  response.writeHead(reply.status, { 'content-type': reply.type });
  response.end(reply.body);
});
before(() => new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve)));
after(() => provider.closeAllConnections());
after(() => provider.close());
const address = () => `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`;

const many = `[${'{"a":[]},'.repeat(30_000)}{}]`;
const replies: readonly [string, typeof reply, RegExp][] = [
  ['an event', { status: 200, type: 'text/event-stream', body: `data: {"x":${many}}\n\n` }, /more than 65536 values/],
  [
    'a long event',
    { status: 200, type: 'text/event-stream', body: `data: {"x":"${'x'.repeat(9e6)}"}\n\n` },
    /8388608 bytes/,
  ],
  [
    'events of another type',
    { status: 200, type: 'text/plain', body: `data: {"x":${many}}\n\n` },
    /more than 65536 values/,
  ],
  ['a value in place of events', { status: 200, type: 'application/json', body: many }, /more than 65536 values/],
  [
    'an error',
    { status: 400, type: 'application/json', body: `{"error":{"message":"no","x":${many}}}` },
    /more than 65536 values/,
  ],
];

for (const name of PROVIDERS) {
  test(`${name}: a reply that is too large is an error with the limit, and is not built`, async (t) => {
    for (const [what, given, limit] of replies) {
      reply = given;
      await inTurns(t, what, () =>
        assert.rejects(
          partsOf(
            ask({ baseUrl: address } as never, choiceOf(name), {
              access: { baseUrl: address() },
              limits: { maxBrokenAttempts: 1 },
            }),
          ),
          ({ code, message }: HandfastError) => {
            assert.equal(code, 'provider_error', what);
            assert.match(message, limit, what);
            assert.ok(!message.includes(KEY));
            return true;
          },
        ),
      );
    }
  });
}

test('a list of a provider with too many values is an error with the limit', async () => {
  reply = { status: 200, type: 'application/json', body: `{"data":[${'{"a":[]},'.repeat(100_000)}{}]}` };
  await assert.rejects(requestJson(fetch, { url: address(), maxBytes: 16_000_000 }), {
    code: 'provider_error',
    message: /more than 262144 values/,
  });
});

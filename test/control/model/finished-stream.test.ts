/**
 * The end of a stream of chat completions: a missing reason is added, calls have one form, and everything else passes
 * unchanged.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishedStream } from '../../../src/control/backends/model/finished-stream.ts';

const REASON = JSON.stringify({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
});

/** Returns the stream for a text that arrives in chunks of `size` bytes. */
function passed(text: string, size: number): Promise<string> {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
  return new Response(ReadableStream.from(chunks).pipeThrough(finishedStream())).text();
}

test('a missing reason is added once, for chunks of any length and every line end', async () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const said = `data: {"choices":[{"delta":{"content":"hä"}}]}${end}${end}`;
    const last = `data: [DONE]${end}${end}`;
    const whole = `${said}${last}`;
    for (let size = 1; size <= Buffer.byteLength(whole); size += 1) {
      assert.equal(await passed(whole, size), `${said}data: ${REASON}\n\n${last}`, JSON.stringify([end, size]));
    }
  }
});

test('a stream with a reason, and one without an answer, pass unchanged', async () => {
  const finished = 'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n';
  for (const text of [finished, 'data: [DONE]\n\n', ': comment\n\n', '']) assert.equal(await passed(text, 7), text);
});

test('a line of megabytes passes in small chunks', async () => {
  const text = `data: {"choices":[{"delta":{"content":"${'x'.repeat(4 * 1024 * 1024)}"},"finish_reason":"stop"}]}\n\n`;
  assert.equal((await passed(text, 1_024)) === text, true);
});

/** Returns the deltas of calls that come out. */
async function callsOf(...choices: readonly object[]): Promise<unknown[]> {
  const text = choices.map((choice) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`).join('');
  const lines = (await passed(text, 50)).split('\n').filter((line) => line.startsWith('data: '));
  return lines.flatMap((line) => JSON.parse(line.slice(6)).choices[0].delta?.tool_calls ?? []);
}
const delta = (...tool_calls: readonly object[]) => ({ index: 0, delta: { tool_calls } });

test('each call has an index, also where the arguments come before the name', async () => {
  const pieces = [
    delta({ id: 'a', function: { arguments: '{"x"' } }),
    delta({ id: 'a', function: { name: 'read', arguments: ':1}' } }),
    delta({ id: 'b', function: { name: 'read', arguments: '{' } }),
    delta({ function: { arguments: '}' } }),
    delta({ function: { name: 'read', arguments: '{}' } }, { index: '7', function: { name: 'read', arguments: '{}' } }),
  ];
  assert.deepEqual(
    (await callsOf(...pieces)).map((call) => (call as { index: unknown }).index),
    [0, 0, 1, 1, 2, 7],
  );
});

test('arguments are a text and names have no white space', async () => {
  const [call] = await callsOf(delta({ index: 0, id: 'a', function: { name: ' read\n', arguments: { x: [1] } } }));
  assert.deepEqual(call, { index: 0, id: 'a', function: { name: 'read', arguments: '{"x":[1]}' } });
});

test('a function_call is a call, and a message in the place of deltas is one delta', async () => {
  const made = { name: 'read', arguments: '{}' };
  const whole = { message: { role: 'assistant', tool_calls: [{ id: 'a', function: made }] } };
  assert.deepEqual(await callsOf({ delta: { function_call: made } }), [{ index: 0, type: 'function', function: made }]);
  assert.deepEqual(await callsOf(whole), [{ id: 'a', function: made, index: 0 }]);
  assert.deepEqual(await callsOf(delta({ index: 0, id: 'a', function: made }), whole), [
    { index: 0, id: 'a', function: made },
  ]);
});

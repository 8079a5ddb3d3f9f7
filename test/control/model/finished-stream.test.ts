/** The end of a stream of chat completions: a missing reason is added, and everything else passes unchanged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishedStream } from '../../../src/control/backends/model/finished-stream.ts';

const REASON = JSON.stringify({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
});

/** The stream for a text that arrives in chunks of `size` bytes. */
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

/**
 * Session RPC on the pipes of a process: its lines byte by byte, prints of other code, and every way it ends.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerOf, pingOf, requestOf, startControl, typesOf } from './stdio-peer.ts';

describe('session RPC on pipes', { concurrency: 3 }, () => {
  test('LF, CRLF and CR alone end a line, and each is answered at once', async () => {
    const { peer, child, exit } = startControl();
    for (const [id, end] of ['\n', '\r\n', '\r', '\r'].entries()) {
      peer.write(pingOf(id) + end);
      assert.equal((await answerOf(peer, id)).id, id);
    }
    // A return and its newline in two chunks, and two lines of one chunk.
    peer.write(`${pingOf('a')}\r`);
    await answerOf(peer, 'a');
    peer.write(`\n${pingOf('b')}\r${pingOf('c')}\r\n`);
    await answerOf(peer, 'b');
    await answerOf(peer, 'c');
    child.stdin?.end();
    assert.equal(await exit(), 0);
  });

  test('weakness 29: with prints of any kind, standard output holds messages and nothing else', async () => {
    const { peer, child, stderr, exit } = startControl('noisy');
    peer.write(`${pingOf(1)}\n`);
    await answerOf(peer, 1);
    child.stdin?.end();
    assert.equal(await exit(), 0);
    // The peer has parsed every line of standard output.
    assert.ok(peer.messages.every(({ jsonrpc }) => jsonrpc === '2.0'));
    for (const when of ['before', 'at the end', 'after'])
      assert.match(stderr(), new RegExp(`stray (log|write) ${when}`));
  });

  test('a malformed line gets an error, and the next one is answered', async () => {
    const { peer, exit } = startControl();
    const bad: [Buffer | string, number, string][] = [
      ['{', -32700, 'parse_error'],
      [Buffer.from('7b226a736f6e727063223a22ff', 'hex'), -32700, 'parse_error'],
      [`"${'x'.repeat(33 * 1024 * 1024)}"`, -32600, 'too_large'],
      ['['.repeat(70), -32600, 'too_large'],
      ['[]', -32600, 'batch_not_supported'],
      ['7', -32600, 'invalid_request'],
    ];
    for (const [bytes, code, reason] of bad) {
      peer.write(bytes);
      peer.write('\n');
      const { error } = (await answerOf(peer, null)) as {
        error: { code: number; message: string; data: { reason: string } };
      };
      assert.deepEqual([error.code, error.data.reason], [code, reason]);
      if (code === -32700) assert.match(error.message, /^parse error: /);
      peer.write(`${pingOf(reason)}\n`);
      await answerOf(peer, reason);
    }
    peer.end();
    assert.equal(await exit(), 0);
  });

  test('a prompt with a large image is one line', async () => {
    const { peer, exit } = startControl('long');
    const image = 'x'.repeat(11 * 1024 * 1024);
    peer.write(`${requestOf(1, 'test.echo', { text: 'seen', image })}\n`);
    const { result } = (await answerOf(peer, 1)) as { result: { text: string } };
    assert.equal(result.text, 'seen');
    peer.end();
    assert.equal(await exit(), 0);
  });

  test('the last line needs no end, and its request is answered before the process ends', async () => {
    const { peer, child, exit } = startControl();
    child.stdin?.end(requestOf(1, 'session.create', {}));
    assert.ok((await answerOf(peer, 1)).result !== undefined);
    assert.equal(await exit(), 0);
  });
});

test('a server that cannot be put together says so on stderr, and nothing else', async () => {
  const { peer, stderr, exit } = startControl('broken');
  assert.equal(await exit(), 2);
  assert.deepEqual(peer.lines, []);
  assert.match(stderr(), /cannot serve: config_invalid/);
});

describe('weakness 23: the end', { concurrency: 3 }, () => {
  test('of the input ends turns and process with exit code 0; a client that still reads is notified', async () => {
    const { peer, child, exit } = startControl('hasty');
    peer.write(`${pingOf(1)}\n${requestOf(2, 'test.wait', { name: 'login' })}\n`);
    await answerOf(peer, 1);
    child.stdin?.end();
    assert.equal(((await answerOf(peer, 2)).error as { data: { kind: string } }).data.kind, 'interrupted');
    assert.equal(await exit(), 0);
    assert.deepEqual(typesOf(peer), [
      ['state.changed', 'input_closed'],
      ['session.interrupted', undefined],
    ]);
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    test(`by ${signal} is reported with its name`, async () => {
      const { child, peer, exit } = startControl();
      peer.write(`${pingOf(1)}\n`);
      await answerOf(peer, 1);
      child.kill(signal);
      assert.equal(await exit(), 0);
      assert.deepEqual(typesOf(peer), [
        ['state.changed', signal.toLowerCase()],
        ['session.interrupted', undefined],
      ]);
    });
  }

  test('by system.shutdown: the reason, the answer, the last events of turns, and then the process is gone', async () => {
    const { peer, exit } = startControl();
    peer.write(
      `${requestOf(1, 'test.wait', { name: 'login' })}\n${requestOf(2, 'system.shutdown', { reason: ' bye ' })}\n`,
    );
    // Input is still open; its content is not answered.
    assert.deepEqual((await answerOf(peer, 2)).result, { accepted: true, reason: 'bye' });
    peer.write(`${pingOf(3)}\n{\n[]\n`);
    assert.equal(await exit(), 0);
    assert.deepEqual(
      peer.messages.map(({ id, params }) => params?.type ?? id),
      ['state.changed', 2, 1, 'session.interrupted'],
    );
  });
});

/**
 * A server on pipes that ends although processes around it do not.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { within } from '../contract/recorder.ts';
import { answerOf, pingOf, requestOf, startControl } from '../control/rpc/stdio-peer.ts';

describe('weakness 23: the end', { concurrency: 2 }, () => {
  test('comes although a tool left something running', async () => {
    const { child, peer, exit } = startControl('stuck');
    peer.write(`${pingOf(1)}\n`);
    await answerOf(peer, 1);
    child.stdin?.end();
    assert.equal(await exit(), 0);
  });

  test('is not kept waiting by a reader that stopped', async () => {
    const { peer, child, exit } = startControl();
    child.stdout?.pause();
    peer.write(`${requestOf(1, 'test.emit', { session_id: 's', count: 20_000 })}\n`);
    peer.write(`${requestOf(2, 'system.shutdown')}\n`);
    const exited = new Promise((resolve) => child.once('exit', resolve));
    await within(exited, 'the process to exit');
    child.stdout?.resume();
    assert.equal(await exit(), 0);
  });
});

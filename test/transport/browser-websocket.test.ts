/**
 * The link of browsers, with Node's own `WebSocket`, against the server's end: the demands of the link contract.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { httpServer } from '../../src/server/http/http.ts';
import { connectBrowser } from '../../src/transport/browser-websocket.ts';
import type { Link } from '../../src/transport/link.ts';
import { webSocketAcceptor } from '../../src/transport/websocket.ts';
import { PATIENCE_MS, Recorder, within } from '../contract/recorder.ts';

/** Returns a browser's link and the server's end of it. */
async function pair(t: TestContext, maxMessageBytes?: number): Promise<{ near: Link; far: Link; url: string }> {
  const accepted = Promise.withResolvers<Link>();
  const accept = (link: Link): void => accepted.resolve(link);
  const http = await httpServer({ webSocket: webSocketAcceptor(), accept });
  const url = `${http.address.replace('http', 'ws')}/ws`;
  const near = await connectBrowser(url, { maxMessageBytes });
  const far = await within(accepted.promise, 'the link');
  t.after(async () => {
    near.destroy();
    far.destroy();
    await http.close();
  });
  return { near, far, url };
}

test('messages arrive in order, both ways, also those that came before anybody listened', async (t) => {
  const { near, far } = await pair(t);
  for (let n = 0; n < 2_000; n++) far.send(JSON.stringify({ n }));
  const atFar = Recorder.on(far);
  for (let n = 0; n < 2_000; n++) near.send(JSON.stringify({ n, text: 'ü €' }));
  await atFar.count(2_000);
  const atNear = new Recorder();
  near.open(atNear);
  assert.equal(atNear.messages.length, 0, 'nothing before open has returned');
  await atNear.count(2_000);
  for (const { messages } of [atNear, atFar]) assert.ok(messages.every(({ n }, at) => n === at));
  assert.equal(atFar.messages[0]?.text, 'ü €');
  await near.drained();
  assert.equal(near.buffered, 0);
});

test('a pause holds what comes, and its end is reported behind it', async (t) => {
  const { near, far } = await pair(t);
  const recorder = Recorder.on(near);
  near.pause(true);
  Recorder.on(far);
  far.send('{"n":1}');
  await far.close('done', PATIENCE_MS);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([recorder.messages.length, recorder.causes.length], [0, 0]);
  near.pause(false);
  await recorder.count(1);
  assert.equal((await recorder.end()).clean, true);
});

test('what arrives is counted while the link is read, for liveness', async (t) => {
  const { near, far } = await pair(t);
  const recorder = Recorder.on(near);
  assert.equal(near.received, 0);
  far.send('{"n":1}');
  await recorder.count(1);
  assert.equal(near.received, 1);
  near.pause(true);
  assert.equal(near.received, undefined, 'silence means nothing while this side does not read');
  near.pause(false);
  assert.equal(near.isClosed, false);
  near.destroy('the test is over');
  assert.equal(near.isClosed, true);
});

test('a message that is too long is reported and skipped', async (t) => {
  const { near, far } = await pair(t, 100);
  const recorder = Recorder.on(near);
  far.send(JSON.stringify({ pad: 'x'.repeat(100) }));
  far.send('{"n":1}');
  await recorder.count(1);
  assert.deepEqual(recorder.problems, [{ reason: 'too_large', limit: 100 }]);
  near.setMaxMessageBytes(1_000);
  far.send(JSON.stringify({ pad: 'x'.repeat(100) }));
  await recorder.count(2);
});

test('closing sends what is queued, destroying does not wait, and both tell the end once', async (t) => {
  const first = await pair(t);
  const [near, far] = [Recorder.on(first.near), Recorder.on(first.far)];
  first.near.send('{"last":true}');
  const closing = first.near.close('done', PATIENCE_MS);
  assert.equal(first.near.close(), closing);
  first.near.send('{"late":true}');
  await within(closing, 'the end');
  assert.deepEqual([await near.end(), near.lateCalls], [{ clean: true, reason: 'done' }, 0]);
  await far.end();
  assert.deepEqual(far.messages, [{ last: true }]);

  const second = await pair(t);
  const dropped = Recorder.on(second.near);
  second.near.destroy('enough');
  assert.deepEqual(await dropped.end(), { clean: false, reason: 'enough' });
  await second.near.close();
  const gone = await pair(t);
  const lost = Recorder.on(gone.near);
  gone.far.destroy();
  assert.equal((await lost.end()).clean, false);
});

test('dialling fails with the codes of the table', async (t) => {
  const { url } = await pair(t);
  await assert.rejects(connectBrowser('ws://127.0.0.1:1/rpc'), { code: 'unreachable' });
  await assert.rejects(connectBrowser(url.replace('/ws', '/none')), { code: 'unreachable' });
  await assert.rejects(connectBrowser('not a URL'), { code: 'usage' });
  await assert.rejects(connectBrowser(url, { signal: AbortSignal.abort() }), { code: 'cancelled' });
  const giveUp = new AbortController();
  const dialling = connectBrowser(url, { signal: giveUp.signal });
  giveUp.abort();
  await assert.rejects(dialling, { code: 'cancelled' });
});

test('what a browser loads needs nothing that only Node has', async () => {
  const modules = ['agent.browser.ts', 'control.browser.ts'].map(
    (file) => new URL(`../../src/${file}`, import.meta.url).href,
  );
  const code = `
    delete globalThis.Buffer;
    delete globalThis.setImmediate;
    for (const module of ${JSON.stringify(modules)}) await import(module);
    console.log('loaded');`;
  const args = ['-C', 'handfast-source', '--input-type=module', '-e', code];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  assert.match(stdout, /loaded/);
});

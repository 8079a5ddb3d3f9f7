/**
 * The loopback page of a sign-in: its single use by the right browser, and its text.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type Callback, openCallback } from '../../../src/base/http/sign-in-callback.ts';
import { HandfastError } from '../../../src/wire/errors.ts';

async function opened(t: TestContext, ports: readonly number[] = []): Promise<Callback> {
  const callback = await openCallback('/back', ports);
  t.after(() => callback.close());
  return callback;
}

const signal = new AbortController().signal;

test('visits with a wrong state, another path or another method change nothing', async (t) => {
  const callback = await opened(t);
  const arrival = callback.arrival('the-state', signal);
  const statusOf = async (url: string, init?: RequestInit) => {
    const response = await fetch(url, init);
    await response.text();
    return response.status;
  };
  const at = callback.redirectUri;
  assert.equal(await statusOf(`${at}?code=theirs&state=wrong`), 400);
  assert.equal(await statusOf(`${at}?code=theirs`), 400);
  assert.equal(await statusOf(`${at}?error=access_denied&state=wrong`), 400);
  assert.equal(await statusOf(at.replace('/back', '/favicon.ico')), 404);
  assert.equal(await statusOf(`${at}?code=c&state=the-state`, { method: 'POST' }), 404);

  const page = fetch(`${at}?code=ours&state=the-state`);
  const arrived = await arrival;
  assert.equal(arrived.url.href, `${at}?code=ours&state=the-state`);
  // Used once: while the code is exchanged, and after it, no other request gets in.
  assert.equal(await statusOf(`${at}?code=second&state=the-state`), 410);
  arrived.show({ ok: true, message: 'Done <here> & now' });
  const response = await page;
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('referrer-policy'), 'no-referrer');
  assert.equal(response.headers.get('content-security-policy'), "default-src 'none'");
  assert.match(await response.text(), /Done &lt;here> &amp; now/);
});

test('a user who says no ends the wait with the reason', async (t) => {
  const callback = await opened(t);
  const arrival = assert.rejects(callback.arrival('s', signal), {
    code: 'login_failed',
    message: 'sign-in was refused: not today',
  });
  const response = await fetch(`${callback.redirectUri}?error=access_denied&error_description=not+today&state=s`);
  assert.match(await response.text(), /not signed in/);
  await arrival;
});

test('an ended wait rejects with the reason of its signal, at once or later', async (t) => {
  const callback = await opened(t);
  const controller = new AbortController();
  const arrival = assert.rejects(callback.arrival('s', controller.signal), { code: 'cancelled', message: 'over' });
  controller.abort(new HandfastError('cancelled', 'over'));
  await arrival;
  await assert.rejects(callback.arrival('s', controller.signal), { code: 'cancelled' });
});

test('a port that is taken is left to its owner', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  t.after(() => other.close());
  const { port } = other.address() as AddressInfo;
  const callback = await opened(t, [port]);
  assert.notEqual(new URL(callback.redirectUri).port, String(port));
});

/**
 * `listen`: the addresses it opens, and those it refuses to open. The calls over each transport are in
 * `examples/transports.ts`.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { after, test } from 'node:test';
import { connect, createHost, listen, tool, toolsPlugin } from 'handfast';
import { createAuthenticator, tokenDigest } from 'handfast/host';
import { startRelay } from './support/relay.ts';

const echo = tool({ name: 'echo', description: 'Gives back its arguments', run: (args) => args });
const host = createHost({ plugins: [toolsPlugin({ tools: [echo] })] });
await host.start();
after(() => host.close(0));

test('an HTTP address serves its binding, WebSocket and health on one port', async () => {
  const listener = await listen(host, 'http://127.0.0.1:0');
  try {
    assert.match(listener.address, /^http:\/\/127\.0\.0\.1:\d+$/);
    for (const address of [listener.address, `${listener.address.replace('http', 'ws')}/ws`]) {
      await using agent = await connect(address, { capabilities: ['tools'] });
      assert.deepEqual((await agent.tools.call('echo', { n: 1 })).data, { n: 1 });
    }
    assert.deepEqual(await (await fetch(`${listener.address}/health`)).json(), { status: 'ok' });
  } finally {
    await listener.close();
  }
});

test('an address that other machines can reach is refused without a token', async () => {
  for (const address of ['http://0.0.0.0:0', 'tcp://[::]:0', 'tcp://192.0.2.1:0', 'http://example.org:0']) {
    await assert.rejects(listen(host, address), { code: 'config_invalid' }, address);
  }
});

test('a host that demands a token listens on other addresses too, and answers to the names it is given', async (t) => {
  const principal = { name: 'team', capabilities: ['tools'] };
  const guarded = createHost({
    plugins: [toolsPlugin({ tools: [echo] })],
    auth: createAuthenticator([{ principal, digests: [tokenDigest('s3cret')] }]),
  });
  await guarded.start();
  t.after(() => guarded.close(0));
  for (const address of ['tcp://0.0.0.0:0', 'http://0.0.0.0:0']) {
    const listener = await listen(guarded, address, { allowedHosts: ['host.example'] });
    t.after(() => listener.close());
    const reachable = listener.address.replace('0.0.0.0', '127.0.0.1');
    await assert.rejects(connect(reachable, { capabilities: ['tools'] }), { code: 'auth_failed' });
    await using agent = await connect(reachable, { capabilities: ['tools'], token: 's3cret' });
    assert.deepEqual((await agent.tools.call('echo', { n: 1 })).data, { n: 1 });
    if (!address.startsWith('http')) continue;
    for (const [host, status] of [
      ['host.example', 200],
      ['other.example', 403],
    ] as const) {
      assert.equal(await statusOf(`${reachable}/health`, host), status);
    }
  }
});

/** Returns the status of a GET that calls the server by another name. */
async function statusOf(url: string, host: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { headers: { host } }), 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

test('over a forwarded port the client learns which name was refused and what admits it', async (t) => {
  const listener = await listen(host, 'http://127.0.0.1:0');
  t.after(() => listener.close());
  const relay = await startRelay({ host: '127.0.0.1', port: Number(new URL(listener.address).port) });
  t.after(() => relay.close());
  const { port } = relay;
  for (const address of [`http://127.0.0.1:${port}`, `ws://127.0.0.1:${port}/ws`]) {
    await assert.rejects(
      connect(address, { capabilities: ['tools'], reconnect: { maxMs: 0 } }),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'unauthorized');
        assert.ok(
          error.message.includes(`not called "127.0.0.1:${port}": add "127.0.0.1" to http.allowed_hosts`),
          error.message,
        );
        return true;
      },
    );
  }
});

test('an address of another form is refused', async () => {
  for (const address of ['', '127.0.0.1:0', 'ws://127.0.0.1:0', 'tcp://127.0.0.1', 'unix://']) {
    await assert.rejects(listen(host, address), { code: 'usage' }, address);
  }
});

test('an address in use is reported with the reason of the system', async () => {
  const listener = await listen(host, 'tcp://127.0.0.1:0');
  try {
    await assert.rejects(listen(host, listener.address), (error: { code: string; detail: { reason: string } }) => {
      assert.deepEqual([error.code, error.detail.reason], ['runtime_error', 'EADDRINUSE']);
      return true;
    });
  } finally {
    await listener.close();
  }
});

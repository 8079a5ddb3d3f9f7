/**
 * The owners of requests on a kept-alive connection, with real HTTP on both sides.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request as openRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type Authenticator, createAuthenticator, type PrincipalTokens, tokenDigest } from '../../src/session/auth.ts';
import { ConnectionTokens } from '../../src/session/bearer.ts';

const grant = (name: string, token: string): PrincipalTokens => ({
  principal: { name },
  digests: [tokenDigest(token)],
});

/** Starts a server that replies with the owner of the token, and a client of one connection. */
async function asking(t: TestContext, auth: Authenticator) {
  const tokens = new ConnectionTokens(auth);
  const connections = new Set<unknown>();
  const server = createServer((request, response) => {
    connections.add(request.socket);
    request.resume();
    response.end(tokens.ownerOf(request)?.name ?? 'none');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => {
    agent.destroy();
    server.close();
  });
  const ask = async (authorization?: string): Promise<string> => {
    const headers = authorization === undefined ? {} : { authorization };
    const request = openRequest({ agent, host: '127.0.0.1', port, headers }).end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return (await response.setEncoding('utf8').toArray()).join('');
  };
  return { ask, connections };
}

/** Returns the authenticator with a count of the tokens it checked. */
function counted(auth: Authenticator) {
  let asked = 0;
  const counting: Authenticator = {
    hasTokens: auth.hasTokens,
    authenticate(token) {
      asked++;
      return auth.authenticate(token);
    },
    ...(auth.onChange && { onChange: (listener) => auth.onChange?.(listener) }),
  };
  return { counting, asked: () => asked };
}

test('a token that is repeated on a connection is compared with the known digests once', async (t) => {
  const { counting, asked } = counted(createAuthenticator([grant('anna', 'token-a'), grant('berta', 'token-b')]));
  const { ask, connections } = await asking(t, counting);
  for (let count = 0; count < 3; count++) assert.equal(await ask('Bearer token-a'), 'anna');
  assert.equal(connections.size, 1);
  assert.equal(asked(), 1);
});

test('each request on a connection has the owner of its own token', async (t) => {
  const { ask, connections } = await asking(
    t,
    createAuthenticator([grant('anna', 'token-a'), grant('berta', 'token-b')]),
  );
  assert.equal(await ask('Bearer token-a'), 'anna');
  assert.equal(await ask('Bearer token-b'), 'berta');
  assert.equal(await ask('Bearer token-c'), 'none');
  assert.equal(await ask(), 'none');
  assert.equal(await ask('Bearer token-'), 'none');
  assert.equal(await ask('Bearer token-a'), 'anna');
  assert.equal(connections.size, 1);
});

test('a token that was withdrawn or given to another principal is noticed on an open connection', async (t) => {
  const auth = createAuthenticator([grant('anna', 'token-a')]);
  const { ask, connections } = await asking(t, auth);
  assert.equal(await ask('Bearer token-a'), 'anna');
  auth.replace([grant('anna', 'token-2')]);
  assert.equal(await ask('Bearer token-a'), 'none');
  assert.equal(await ask('Bearer token-2'), 'anna');
  auth.replace([grant('berta', 'token-2')]);
  assert.equal(await ask('Bearer token-2'), 'berta');
  assert.equal(connections.size, 1);
});

test('an authenticator that does not say when its answers change is asked about every request', async (t) => {
  const { onChange: _, ...silent } = createAuthenticator([grant('anna', 'token-a')]);
  const { counting, asked } = counted(silent);
  const { ask } = await asking(t, counting);
  assert.equal(await ask('Bearer token-a'), 'anna');
  assert.equal(await ask('Bearer token-a'), 'anna');
  assert.equal(asked(), 2);
});

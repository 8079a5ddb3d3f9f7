/** The toolkit `http` with local servers: hosts, private networks, redirects, and a secret that only its origin gets. */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { HttpOptions } from '../../../src/capabilities/toolkits/kits/http.ts';
import type { SecretSettings } from '../../../src/capabilities/toolkits/secrets.ts';
import { agentOf, errorOf, folder, refusalOf, toolkitsHost } from './support.ts';

interface Page {
  readonly status: number;
  readonly text: string;
  readonly redirects: string[];
}

async function server(
  t: TestContext,
  respond: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const listening = createServer(respond).listen(0, '127.0.0.1');
  await new Promise((resolve) => listening.once('listening', resolve));
  t.after(() => listening.close());
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

/** Sends back the request it received. */
const echo = (t: TestContext) =>
  server(t, async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ method: request.method, headers: request.headers, body }));
  });

async function agentWith(t: TestContext, http: HttpOptions, secrets: readonly SecretSettings[] = []) {
  const host = await toolkitsHost(t, {
    workspace: folder(t),
    builtin: [{ name: 'http' }],
    kits: { http },
    toolkits: { secrets, env: { TOKEN: 'the-secret' } },
  });
  const agent = await agentOf(t, host, { enable: ['http'] });
  const call = (name: string, args: object) => agent.tools.call<Page>(`http_${name}`, { ...args });
  const seen = async (name: string, args: object) => JSON.parse((await call(name, args)).data?.text ?? '{}');
  return { agent, call, seen };
}

test('requests with methods, headers and a body', async (t) => {
  const url = await echo(t);
  const { call, seen } = await agentWith(t, { allowPrivateAddresses: true });
  assert.equal((await seen('fetch', { url })).method, 'GET');
  const sent = await seen('send', {
    url,
    method: 'PUT',
    headers: { 'X-One': '1', 'Content-Type': 'text/plain' },
    body: 'ö',
  });
  assert.deepEqual(
    [sent.method, sent.body, sent.headers['x-one'], sent.headers['content-type']],
    ['PUT', 'ö', '1', 'text/plain'],
  );
  assert.equal((await errorOf(call('fetch', { url, method: 'POST' }))).code, 'schema_violation');
  for (const header of ['Host', 'authorization', 'Cookie', 'Transfer-Encoding', 'X-Forwarded-For']) {
    assert.equal(
      await refusalOf(call('fetch', { url, headers: { [header]: 'x' } })),
      'tool_denied header_refused',
      header,
    );
  }
  assert.equal((await errorOf(call('fetch', { url, headers: { 'X-One': 'a\r\nHost: b' } }))).code, 'schema_violation');
});

test('private networks are refused: as addresses, as names, by a redirect, and by a name that changes its answer', async (t) => {
  const url = await echo(t);
  let asked = 0;
  const { call } = await agentWith(t, {
    async resolve(hostname) {
      asked += 1;
      if (hostname === 'both.example')
        return [
          { address: '93.184.215.14', family: 4 },
          { address: '127.0.0.1', family: 4 },
        ];
      return [{ address: hostname === 'inner.example' ? '10.0.0.1' : '93.184.215.14', family: 4 }];
    },
  });
  for (const each of [
    url,
    'http://[::1]/',
    'http://169.254.169.254/latest',
    'http://0x7f.1/',
    'http://inner.example/',
    'http://both.example/',
  ]) {
    assert.equal(await refusalOf(call('fetch', { url: each })), 'tool_denied private_address', each);
    assert.equal(await refusalOf(call('send', { url: each })), 'tool_denied private_address', each);
  }
  // A name is resolved once: the connection goes to the checked address.
  assert.equal(asked, 4);
  assert.equal(await refusalOf(call('fetch', { url: 'file:///etc/passwd' })), 'tool_denied scheme');
  assert.equal(await refusalOf(call('fetch', { url: 'http://user:pass@example.com/' })), 'tool_denied url_credentials');
});

test('only the hosts that the host and the session allow, also behind a redirect', async (t) => {
  const target = await echo(t);
  const other = target.replace('127.0.0.1', 'localhost');
  const from = await server(t, (request, response) => {
    response.writeHead(request.url === '/308' ? 308 : 302, { location: request.url === '/out' ? other : target }).end();
  });
  const { agent, call, seen } = await agentWith(t, { allowPrivateAddresses: true, hosts: ['127.*'] });
  assert.equal(await refusalOf(call('fetch', { url: other })), 'tool_denied host_not_allowed');
  assert.equal(await refusalOf(call('fetch', { url: `${from}/out` })), 'tool_denied host_not_allowed');
  // Headers for one server do not reach another, and only 308 repeats a request that changes something.
  const sent = { headers: { 'X-One': '1' }, body: 'b' };
  const turned = await seen('send', { url: `${from}/302`, ...sent });
  assert.deepEqual([turned.method, turned.body, turned.headers['x-one']], ['GET', '', undefined]);
  const repeated = await seen('send', { url: `${from}/308`, ...sent });
  assert.deepEqual([repeated.method, repeated.body, repeated.headers['x-one']], ['POST', 'b', undefined]);
  await agent.toolkits.configure('http', { hosts: ['example.com'] });
  assert.equal(await refusalOf(call('fetch', { url: target })), 'tool_denied host_not_allowed');
  // A session cannot have more than the host allows.
  await agent.toolkits.configure('http', { hosts: ['*'] });
  assert.equal(await refusalOf(call('fetch', { url: other })), 'tool_denied host_not_allowed');
});

test('a secret goes to its own origins alone', async (t) => {
  const mine = await echo(t);
  const theirs = await echo(t);
  const from = await server(t, (_, response) => response.writeHead(302, { location: theirs }).end());
  const { agent, call, seen } = await agentWith(t, { allowPrivateAddresses: true }, [
    { name: 'mine', env: 'TOKEN', origins: [mine, from] },
    { name: 'nowhere', env: 'TOKEN' },
  ]);
  await agent.toolkits.configure('http', { secret: 'mine' });
  assert.equal((await seen('fetch', { url: mine })).headers.authorization, 'Bearer the-secret');
  assert.equal((await seen('fetch', { url: theirs })).headers.authorization, undefined);
  assert.equal((await seen('fetch', { url: from })).headers.authorization, undefined, 'behind a redirect');
  await agent.toolkits.configure('http', { secret: 'mine', secret_header: 'X-Api-Key', secret_prefix: '' });
  assert.equal((await seen('send', { url: mine })).headers['x-api-key'], 'the-secret');
  const wrong = await errorOf(agent.toolkits.configure('http', { secret: 'mine', secret_header: 'Host' }));
  assert.equal((wrong.detail.errors as { path: string }[])[0]?.path, '/secret_header');
  await agent.toolkits.configure('http', { secret: 'nowhere' });
  assert.equal((await errorOf(call('fetch', { url: mine }))).code, 'toolkits.secret');
});

test('a large or endless body is cut, and a silent server is left', async (t) => {
  const url = await server(t, (request, response) => {
    if (request.url === '/silent') return;
    const writing = setInterval(() => response.write('x'.repeat(65_536)), 1);
    response.on('close', () => clearInterval(writing));
  });
  const { call } = await agentWith(t, { allowPrivateAddresses: true });
  const { data, truncated } = await call('fetch', { url, max_bytes: 1_000 });
  assert.deepEqual([data?.text.length, truncated], [1_000, true]);
  assert.equal((await errorOf(call('fetch', { url: `${url}/silent`, timeout_seconds: 0.5 }))).code, 'timeout');
});

test('restricted principals need the toolkit and the risk', async (t) => {
  const principals = [
    { name: 'some', capabilities: ['tools'], grants: { toolkits: { names: ['http'] } } },
    { name: 'more', capabilities: ['tools'], tools: { risks: ['network'] }, grants: { toolkits: { names: ['http'] } } },
  ];
  const host = await toolkitsHost(t, { builtin: [{ name: 'http' }], principals });
  const some = await agentOf(t, host, { principal: 'some', enable: ['http'] });
  assert.equal((await errorOf(some.tools.call('http_fetch', { url: 'http://127.0.0.1/' }))).code, 'tool_denied');
  const more = await agentOf(t, host, { principal: 'more', enable: ['http'] });
  assert.equal(
    await refusalOf(more.tools.call('http_fetch', { url: 'http://127.0.0.1/' })),
    'tool_denied private_address',
  );
  assert.match(
    (await errorOf(more.tools.call('http_send', { url: 'http://127.0.0.1/' }))).message,
    /"http_send" is not allowed here/,
  );
});

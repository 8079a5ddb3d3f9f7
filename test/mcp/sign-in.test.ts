/**
 * Sign-in to MCP servers over HTTP, against a guarded server and its authorization server that speak the same HTTP:
 * sign-in, renewal by several processes at once, revoked and refused tokens, and servers with false metadata about the
 * sign-in.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { McpAuthorization } from '../../src/mcp/authorization.ts';
import { checkedFetch } from '../../src/mcp/checked-fetch.ts';
import type { OAuthSettings } from '../../src/mcp/oauth-settings.ts';
import { McpServer } from '../../src/mcp/server.ts';
import { signIn, signOut } from '../../src/mcp/sign-in.ts';
import { SignInFile, type StoredSignIn } from '../../src/mcp/sign-in-file.ts';
import { asError } from '../../src/wire/errors.ts';
import { listening, redirectOf, type Seen, type Service, signInService, visit } from '../support/sign-in-service.ts';

const child = fileURLToPath(new URL('../support/mcp-signed-in.ts', import.meta.url));

/** Longest wait for anything: far above the usual duration on a busy machine. */
const PATIENCE_MS = 60_000;
const patiently = { signal: new AbortController().signal, timeoutMs: PATIENCE_MS };

interface Guarded {
  readonly folder: string;
  readonly authorization: McpAuthorization;
  readonly server: McpServer;
  login(show?: (address: string) => void): Promise<void>;
  stored(): Promise<StoredSignIn>;
  change(more: Partial<StoredSignIn>): Promise<void>;
}

/** Returns a host's view of the guarded server. */
async function guarded(t: TestContext, { url }: Pick<Service, 'url'>, settings: OAuthSettings = {}): Promise<Guarded> {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-sign-in-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const make = () =>
    new McpAuthorization({ name: 'guarded', url, settings, file: new SignInFile(folder, 'guarded', url) });
  const authorization = make();
  const server = new McpServer({ address: { http: { url } }, cwd: '/', authorization });
  t.after(() => server.close());
  return {
    folder,
    authorization,
    server,
    // The command is another process with the same file.
    login: (show = (address) => void visit(address)) => signIn(make(), { signal: patiently.signal, show }),
    stored: () => make().file.read(),
    change: async (more) => {
      await make().file.change(patiently.signal, async (stored) => ({ ...stored, ...more }));
    },
  };
}

const call = async (server: McpServer): Promise<string> => {
  const { content = [] } = await server.call('whoami', {}, patiently);
  return String(content[0]?.text);
};

const failureOf = async (promise: Promise<unknown>): Promise<{ code: string; message: string }> =>
  promise.then(
    () => ({ code: 'none', message: '' }),
    (thrown) => asError(thrown),
  );

/** Makes the call in another process. */
function callElsewhere({ folder }: Guarded, { url }: Service): { done: Promise<string>; kill: () => void } {
  const started = spawn(process.execPath, ['-C', 'handfast-source', child, folder, url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  started.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const done = new Promise<string>((resolve) => started.once('close', () => resolve(text)));
  return { done, kill: () => started.kill('SIGKILL') };
}

test('a server that asks for a sign-in says so; after it the next call works, and the file is the user’s alone', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  const refused = await failureOf(call(host.server));
  assert.equal(refused.code, 'unauthorized');
  assert.equal(refused.message, 'it asks for a sign-in: handfast mcp login guarded');
  assert.equal(host.server.health.state, 'needs_auth');
  await failureOf(call(host.server));
  const asked = service.seenByMcp.length;
  assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
  assert.equal(service.seenByMcp.length, asked, 'while its backoff lasts the server is not asked again');

  let page = '';
  await host.login((address) => {
    page = address;
    void visit(address);
  });
  assert.equal(await call(host.server), 'signed in for basic', 'at once, by the scope that the server asked for');
  assert.equal(host.server.health.state, 'ready');
  const { searchParams } = new URL(page);
  assert.equal(searchParams.get('code_challenge_method'), 'S256');
  assert.equal(searchParams.get('resource'), service.url);
  const [file = ''] = (await readdir(host.folder)).filter((name) => name.endsWith('.json'));
  assert.equal((await stat(join(host.folder, file))).mode & 0o777, 0o600);
  assert.equal((await stat(host.folder)).mode & 0o777, 0o700);

  await host.login();
  assert.equal(service.clients.size, 1, 'the registration is used again');
});

test('an expired token is renewed before it is sent, a refused one when the server says so', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);
  service.expire();
  assert.equal(await call(host.server), 'signed in for basic');
  assert.equal(service.renewals(), 1);
  await host.change({ expiresAt: 1 });
  const next = await guarded(t, service);
  await writeFile(
    join(next.folder, (await readdir(host.folder))[0] as string),
    await readFile(join(host.folder, (await readdir(host.folder))[0] as string)),
  );
  const before = service.seenByMcp.length;
  assert.equal(await call(next.server), 'signed in for basic');
  assert.equal(service.renewals(), 2);
  const { tokens } = await next.stored();
  const sent = service.seenByMcp.slice(before).map(({ authorization }) => authorization);
  assert.deepEqual([...new Set(sent)], [`Bearer ${tokens?.access_token}`], 'the expired one was not sent');
});

test('a renewal without a lifetime ends that of before, and a short life is used for half of it', async (t) => {
  const service = await signInService(t, { lifetime: 20 });
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);
  assert.equal(service.renewals(), 0);
  await host.change({ expiresAt: 1 });
  const fresh = await guarded(t, service);
  service.options.tokenMembers = { expires_in: undefined };
  const [file] = (await readdir(host.folder)).filter((name) => name.endsWith('.json'));
  await writeFile(join(fresh.folder, file!), await readFile(join(host.folder, file!)));
  await call(fresh.server);
  await call(fresh.server);
  assert.equal(service.renewals(), 1);
  assert.equal((await fresh.stored()).expiresAt, undefined);
});

test('two processes renew at once: one renewal, and both calls work', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await host.change({ expiresAt: 1 });
  service.options.beforeTokens = () => new Promise((resolve) => setTimeout(resolve, 300));
  const calls = [1, 2, 3].map(() => callElsewhere(host, service).done);
  assert.deepEqual(await Promise.all(calls), Array(3).fill('signed in for basic'));
  assert.equal(service.renewals(), 1);
});

test('kill -9 while a process renews: the next one renews, and nothing is lost', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await host.change({ expiresAt: 1 });
  const { promise: renewing, resolve: isRenewing } = Promise.withResolvers<void>();
  service.options.beforeTokens = () => {
    isRenewing();
    return new Promise(() => {});
  };
  const killed = callElsewhere(host, service);
  await renewing;
  delete service.options.beforeTokens;
  killed.kill();
  await killed.done;
  assert.equal(await callElsewhere(host, service).done, 'signed in for basic');
  assert.equal(service.renewals(), 1);
});

test('a revoked sign-in and a registration that is gone need a new one; a silent authorization server does not', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);
  service.options.beforeTokens = () => service.expire('all');
  service.expire('all');
  assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
  assert.equal(host.server.health.state, 'needs_auth');
  assert.equal((await host.stored()).tokens, undefined);
  delete service.options.beforeTokens;
  await host.login();
  assert.equal(await call(host.server), 'signed in for basic');

  service.expire();
  service.clients.clear();
  assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
  assert.equal((await host.stored()).client, undefined);
  await host.login();
  assert.equal(service.clients.size, 1, 'registered again');
  assert.equal(await call(host.server), 'signed in for basic');

  await host.change({ client: { ...(await host.stored()).client, client_secret: 's', client_secret_expires_at: 1 } });
  await host.login();
  assert.equal(service.clients.size, 2, 'an expired secret is not used');

  const { tokens } = await host.stored();
  service.expire();
  service.options.serverMetadata = {};
  await host.change({ expiresAt: 1, discovery: { ...(await host.stored()).discovery, ...dead } });
  const other = await guarded(t, service);
  const file = (await readdir(host.folder)).find((name) => name.endsWith('.json')) as string;
  await writeFile(join(other.folder, file), await readFile(join(host.folder, file)));
  const unreachable = await failureOf(call(other.server));
  assert.match(unreachable.message, /the sign-in cannot be renewed now: 127\.0\.0\.1:1 cannot be reached/);
  assert.equal(other.server.health.state, 'failed');
  assert.deepEqual((await other.stored()).tokens, tokens, 'kept for the next try');
});

/** An address without a listener. */
const dead = {
  authorizationServerUrl: 'http://127.0.0.1:1',
  authorizationServerMetadata: {
    issuer: 'http://127.0.0.1:1',
    authorization_endpoint: 'http://127.0.0.1:1/authorize',
    token_endpoint: 'http://127.0.0.1:1/token',
    response_types_supported: ['code'],
  },
};

test('a call that needs more scope asks for a sign-in with it, which keeps what was granted', async (t) => {
  const service = await signInService(t, { toolScope: 'admin' });
  const host = await guarded(t, service);
  await host.login();
  const refused = await failureOf(call(host.server));
  assert.equal(refused.message, 'it asks for a sign-in for admin: handfast mcp login guarded');
  assert.equal(host.server.health.state, 'needs_auth');
  await host.login();
  assert.equal(await call(host.server), 'signed in for basic admin');
});

test('a session that the server forgot is opened again with the same token', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);
  service.forgetSessions();
  assert.equal(await call(host.server), 'signed in for basic');
  assert.equal(service.renewals(), 0);
});

test('signing out revokes and removes; a running host notices', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);
  const { refresh_token: token = '' } = (await host.stored()).tokens ?? {};
  assert.equal(await signOut(host.authorization, patiently.signal), true);
  assert.equal(service.seen.find(({ path }) => path === '/revoke')?.body.includes(token), true);
  assert.deepEqual(await host.stored(), { server: service.url });
  assert.equal(await signOut(host.authorization, patiently.signal), false);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
});

test('an address that was pasted signs in; one of another sign-in, or of another issuer, does not', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  const paste = async (change: (address: string) => string): Promise<{ code: string; message: string }> => {
    const { promise: pasted, resolve } = Promise.withResolvers<string>();
    const show = async (address: string): Promise<void> => resolve(change(await redirectOf(address)));
    return failureOf(signIn(host.authorization, { signal: patiently.signal, pasted, show: (a) => void show(a) }));
  };
  assert.equal((await paste((address) => address)).code, 'none');
  assert.match((await paste((address) => address.replace(/state=[^&]*/, 'state=other'))).message, /does not belong/);
  assert.match((await paste(() => 'yes')).message, /paste all of what the browser shows/);
  const mixed = await paste((address) => address.replace(/iss=[^&]*/, 'iss=https%3A%2F%2Fevil.example'));
  assert.equal(mixed.code, 'login_failed');
  assert.match(mixed.message, /issuer/i);
  const missing = await paste((address) => address.replace(/&iss=[^&]*/, ''));
  assert.equal(missing.code, 'login_failed');
  assert.match(
    (await paste((address) => `${address}&error=access_denied`)).message,
    /sign-in was refused: access_denied/,
  );
});

test('a client that was registered by hand: its secret is sent to its own authorization server alone', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service, { clientId: 'by-hand', clientSecret: 'hush' });
  service.clients.set('by-hand', {
    client_secret: 'hush',
    redirect_uris: { includes: () => true } as never,
  });
  await host.login();
  assert.equal(await call(host.server), 'signed in for basic');
  assert.equal(
    service.seen.some(({ path }) => path === '/register'),
    false,
  );
  assert.equal(JSON.stringify(await host.stored()).includes('hush'), false, 'the secret is not stored');
  service.expire();
  assert.equal(await call(host.server), 'signed in for basic', 'renewed with the secret');

  const evil = await signInService(t);
  service.options.resourceMetadata = { authorization_servers: [evil.issuer] };
  const refused = await failureOf(host.login());
  assert.match(refused.message, /names the authorization server .* forgets the other one/);
  assert.equal(JSON.stringify(evil.seen).includes('hush'), false);
  const bound = await guarded(t, service, { clientId: 'x', issuer: service.issuer });
  assert.match((await failureOf(bound.login())).message, /names the authorization server/);
});

test('a client signs in by itself with its secret, also when its token is refused; another authorization server does not get it', async (t) => {
  const service = await signInService(t);
  const settings = { clientId: 'program', clientSecret: 'hush', clientCredentials: true, issuer: service.issuer };
  service.clients.set('program', { client_secret: 'hush', redirect_uris: [] });
  const host = await guarded(t, service, settings);
  assert.equal(await call(host.server), 'signed in for basic');
  service.expire('all');
  assert.equal(await call(host.server), 'signed in for basic');
  assert.equal(JSON.stringify(await host.stored()).includes('hush'), false, 'the secret is not stored');
  const grants = service.seen.filter(({ path }) => path === '/token').map(({ body }) => new URLSearchParams(body));
  assert.deepEqual(
    grants.map((form) => form.get('grant_type')),
    ['client_credentials', 'client_credentials'],
  );
  assert.match((await failureOf(host.login())).message, /needs no person/);

  const evil = await signInService(t);
  service.options.resourceMetadata = { authorization_servers: [evil.issuer] };
  service.expire('all');
  assert.match((await failureOf(call(host.server))).message, /names the authorization server/);
  assert.equal(JSON.stringify(evil.seen).includes('hush'), false);

  const other = await signInService(t);
  const refused = await guarded(t, other, { ...settings, issuer: other.issuer });
  const failure = await failureOf(call(refused.server));
  assert.equal(failure.code, 'unauthorized');
  assert.match(failure.message, /refuses the client: invalid_client/);
});

for (const [how, methods] of [
  ['in a header', ['client_secret_basic', 'private_key_jwt']],
  ['in the form', ['private_key_jwt', 'client_secret_post']],
] as const) {
  test(`a client that has to have a secret registers for one, and sends it ${how}, with any characters`, async (t) => {
    const service = await signInService(t, {
      secret: 'a:b c+d%2F/é=',
      serverMetadata: { token_endpoint_auth_methods_supported: methods },
    });
    const host = await guarded(t, service);
    await host.login();
    assert.equal(await call(host.server), 'signed in for basic');
    service.expire();
    assert.equal(await call(host.server), 'signed in for basic', 'renewed');
    assert.equal(await signOut(host.authorization, patiently.signal), true);
    service.expire();
    assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
    assert.equal(service.renewals(), 1, 'the refresh token is revoked');
  });
}

test('a code is sent once, and the error has the reason of the authorization server', async (t) => {
  for (const error of ['invalid_grant', 'invalid_client']) {
    const service = await signInService(t, {
      tokenMembers: { access_token: undefined, error, error_description: 'no: \u009b2J' },
    });
    const said: unknown[] = [];
    t.mock.method(console, 'warn', (...words: unknown[]) => said.push(words));
    const host = await guarded(t, service);
    const failure = await failureOf(host.login());
    assert.match(failure.message, new RegExp(`${error}: no: `));
    assert.equal(service.seen.filter(({ path }) => path === '/token').length, 1);
    assert.deepEqual(said, [], 'nothing is printed past the command');
  }
});

test('a registration that the authorization server has forgotten is made again after a sign-in that did not end', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  service.expire('all');
  assert.equal((await failureOf(call(host.server))).code, 'unauthorized');
  const { client } = await host.stored();
  assert.notEqual(client, undefined, 'the registration stays');
  service.clients.clear();
  // The page reports an unknown client, and redirects no browser.
  const ends = new AbortController();
  const show = (): void => ends.abort();
  await assert.rejects(signIn(host.authorization, { signal: ends.signal, show }), { name: 'AbortError' });
  const again = AbortSignal.timeout(PATIENCE_MS);
  await signIn(host.authorization, { signal: again, show: (address) => void visit(address) });
  assert.equal(await call(host.server), 'signed in for basic');
  assert.notDeepEqual((await host.stored()).client, client);

  const stopped = new AbortController();
  const stop = (): void => stopped.abort();
  await assert.rejects(signIn(host.authorization, { signal: stopped.signal, show: stop }), { name: 'AbortError' });
  service.expire();
  assert.equal(await call(host.server), 'signed in for basic', 'tokens are renewed with a registration that stays');
});

test('of several authorization servers it takes the one of the configuration, else the first that has metadata', async (t) => {
  const service = await signInService(t);
  const other = await signInService(t);
  service.options.resourceMetadata = {
    authorization_servers: ['http://127.0.0.1:1', new URL('/mcp', service.url).href, service.issuer, other.issuer],
  };
  const host = await guarded(t, service);
  await host.login();
  assert.equal((await host.stored()).issuer, service.issuer);
  service.options.resourceMetadata = { authorization_servers: [other.issuer, service.issuer] };
  await host.login();
  assert.equal((await host.stored()).issuer, service.issuer, 'that of the last sign-in');
  const bound = await guarded(t, service, { issuer: other.issuer });
  assert.match((await failureOf(bound.login())).message, /: invalid_target$/);
  assert.ok(other.seen.some(({ path }) => path === '/register'));
});

test('the authorization server of the configuration is found where the server names none', async (t) => {
  const service = await signInService(t, {
    intercept: ({ url }, response) => url !== '/mcp' && response.writeHead(404).end() !== undefined,
  });
  const asked: string[] = [];
  const bound = await guarded(t, service, { issuer: service.issuer });
  await failureOf(
    bound.login((address) => {
      asked.push(address);
      void visit(address);
    }),
  );
  assert.match(String(asked[0]), new RegExp(`^${service.issuer}/authorize\\?`));
});

test('a server that moves to another authorization server: a new registration, nothing of the old one', async (t) => {
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  const before = await host.stored();
  const other = await signInService(t);
  service.options.resourceMetadata = { authorization_servers: [other.issuer] };
  // The other one is for the resource of this server.
  const failed = await failureOf(host.login());
  assert.equal(failed.code, 'login_failed');
  assert.equal(other.clients.size, 1);
  const old = [String(before.client?.client_id), String(before.tokens?.refresh_token)];
  for (const secret of old) assert.equal(JSON.stringify(other.seen).includes(secret), false);
});

test('attacks: redirects, private and insecure addresses, a resource of another server', async (t) => {
  const stolen: Seen[] = [];
  const thief = await listening(t, stolen, (_request, response) => void response.writeHead(200).end('{}'));
  const service = await signInService(t);
  const host = await guarded(t, service);
  await host.login();
  await call(host.server);

  for (const status of [302, 307, 308]) {
    service.options.intercept = (request, response) => {
      if (request.method !== 'POST') return false;
      response.writeHead(status, { location: `${thief.origin}/mcp` }).end();
      return true;
    };
    const refused = await failureOf(call(host.server));
    assert.match(refused.message, /Redirect to .* not followed/);
  }
  delete service.options.intercept;
  assert.deepEqual(stolen, [], 'no request, and no token');

  service.options.resourceMetadata = { resource: 'https://other.example/mcp' };
  assert.match((await failureOf(host.login())).message, /does not match/);
  service.options.resourceMetadata = { authorization_servers: ['http://169.254.169.254'] };
  assert.match((await failureOf(host.login())).message, /169\.254\.169\.254 is named without https/);
  service.options.resourceMetadata = { authorization_servers: ['https://169.254.169.254'] };
  assert.match((await failureOf(host.login())).message, /not on the public internet/);
  service.options.resourceMetadata = {};
  service.options.serverMetadata = { authorization_endpoint: 'file:///etc/passwd' };
  assert.match((await failureOf(host.login())).message, /without https/);
  service.options.serverMetadata = { token_endpoint: 'http://example.com/token' };
  assert.match((await failureOf(host.login())).message, /HTTPS|https/);
  service.options.serverMetadata = { issuer: 'https://other.example' };
  assert.match((await failureOf(host.login())).message, /issuer/i);
});

test('a server of the internet cannot name an address of this machine or a private network', async () => {
  const signal = new AbortController().signal;
  const fetch = checkedFetch('https://93.184.215.14/mcp', signal);
  for (const address of [
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://10.0.0.7/',
    'https://[fd00::1]/',
    'https://169.254.169.254/',
  ]) {
    assert.match((await failureOf(fetch(address))).message, /is not on the public internet/, address);
  }
  assert.match((await failureOf(fetch('http://10.0.0.7/'))).message, /without https/);
  assert.match((await failureOf(fetch('https://user:pw@example.com/'))).message, /with a password/);
  assert.match((await failureOf(fetch('ftp://example.com/'))).message, /without https/);
  const within = checkedFetch('https://10.0.0.1/mcp', signal);
  assert.match((await failureOf(within('https://127.0.0.1/'))).message, /is not on the public internet/);
});

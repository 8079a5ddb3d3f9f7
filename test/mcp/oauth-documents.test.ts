/**
 * Sign-in with authorization servers that write their documents a little differently: with a slash more or less, empty
 * members, other types, at other addresses. The sign-in refuses an unusable document with a message that names its
 * address.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { McpAuthorization } from '../../src/mcp/authorization.ts';
import { challengeOf } from '../../src/mcp/challenge.ts';
import { McpServer } from '../../src/mcp/server.ts';
import { signIn } from '../../src/mcp/sign-in.ts';
import { SignInFile } from '../../src/mcp/sign-in-file.ts';
import { asError, type HandfastError } from '../../src/wire/errors.ts';
import { listening, visit } from '../support/sign-in-service.ts';

const patiently = { signal: new AbortController().signal, timeoutMs: 60_000 };

interface Site {
  /** Origin, and path, of the authorization server. */
  readonly base: string;
  readonly issuer: string;
}
type Documents = Readonly<Record<string, unknown>>;

interface Ways {
  readonly path?: string;
  /** Members of the documents, over those they have; a text or a number in place of one is the whole body, or a status. */
  readonly resource?: ((site: Site) => Documents) | number | string;
  readonly metadata?: ((site: Site) => Documents) | number | string;
  readonly registered?: Documents | string | number;
  readonly tokens?: Documents | string | number;
  /** The path of the metadata. Default: of RFC 8414. */
  readonly metadataAt?: string;
  /** Returns the header of a refusal. */
  readonly challenge?: (origin: string) => string;
  readonly iss?: (site: Site) => string;
}

/** Starts a server, and the authorization server on the same port. */
async function siteOf(t: TestContext, ways: Ways) {
  const { path = '', resource, metadata, registered, tokens } = ways;
  const forms: URLSearchParams[] = [];
  const site = await listening(t, [], (request: IncomingMessage, response: ServerResponse, body: string) => {
    const { origin } = site;
    const url = new URL(request.url ?? '', origin);
    const of: Site = { base: origin + path, issuer: origin + path };
    const send = (own: object, given: unknown, status = 200): void => {
      const whole = typeof given === 'function' ? given(of) : given;
      if (typeof whole === 'number') return void response.writeHead(whole).end('<h1>no such page</h1>');
      const text = typeof whole === 'string' ? whole : JSON.stringify({ ...own, ...whole });
      response.writeHead(status, { 'content-type': text.startsWith('<') ? 'text/html' : 'application/json' }).end(text);
    };
    const { metadataAt = `/.well-known/oauth-authorization-server${path}` } = ways;
    switch (url.pathname) {
      case '/.well-known/oauth-protected-resource/mcp':
        return send({ resource: `${origin}/mcp`, authorization_servers: [of.issuer] }, resource);
      case metadataAt:
        return send(
          {
            issuer: of.issuer,
            authorization_endpoint: `${origin}/authorize`,
            token_endpoint: `${origin}/token`,
            registration_endpoint: `${origin}/register`,
            response_types_supported: ['code'],
            code_challenge_methods_supported: ['S256'],
          },
          metadata,
        );
      case '/register':
        return send({ ...JSON.parse(body), client_id: 'c1' }, registered, 201);
      case '/authorize': {
        const back = new URL(url.searchParams.get('redirect_uri') ?? '');
        back.searchParams.set('code', 'code1');
        back.searchParams.set('state', url.searchParams.get('state') ?? '');
        if (ways.iss !== undefined) back.searchParams.set('iss', ways.iss(of));
        return void response.writeHead(302, { location: back.href }).end();
      }
      case '/token':
        forms.push(new URLSearchParams(body));
        return send({ access_token: 't1', token_type: 'Bearer', expires_in: 3_600, refresh_token: 'r1' }, tokens);
      case '/mcp':
        return serve(request, response, body, ways.challenge?.(origin) ?? 'Bearer');
      default:
        response.writeHead(404).end();
    }
  });
  return { url: `${site.origin}/mcp`, origin: site.origin, forms };
}

function serve(request: IncomingMessage, response: ServerResponse, body: string, challenge: string): void {
  if (request.headers.authorization !== 'Bearer t1')
    return void response.writeHead(401, { 'www-authenticate': challenge }).end();
  if (request.method !== 'POST') return void response.writeHead(405).end();
  const { id, method } = JSON.parse(body);
  if (id === undefined) return void response.writeHead(202).end();
  const results: Readonly<Record<string, object>> = {
    initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } },
    'tools/list': { tools: [{ name: 'who', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: 'signed in' }] },
  };
  const text = JSON.stringify({ jsonrpc: '2.0', id, result: results[method] });
  response.writeHead(200, { 'content-type': 'application/json' }).end(text);
}

/** Signs in, and calls a tool. */
async function signedIn(t: TestContext, ways: Ways) {
  const { url, forms, origin } = await siteOf(t, ways);
  const folder = await mkdtemp(join(tmpdir(), 'handfast-documents-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const make = () => new McpAuthorization({ name: 'site', url, file: new SignInFile(folder, 'site', url) });
  const failure = await signIn(make(), { ...patiently, show: (address) => void visit(address) }).then(
    () => undefined,
    (thrown: unknown): HandfastError => asError(thrown),
  );
  if (failure !== undefined) return { failure, forms, origin };
  const server = new McpServer({ address: { http: { url } }, cwd: '/', authorization: make() });
  t.after(() => server.close());
  const { content } = await server.call('who', {}, patiently);
  assert.deepEqual(content, [{ type: 'text', text: 'signed in' }]);
  return { failure, forms, origin, stored: await make().file.read() };
}

const slash = ({ issuer }: Site): Documents => ({ issuer: `${issuer}/` });
const slashAtResource = ({ issuer }: Site): Documents => ({ authorization_servers: [`${issuer}/`] });
const NULLS: Documents = {
  scopes_supported: null,
  service_documentation: '',
  revocation_endpoint: null,
  op_policy_uri: '',
  jwks_uri: null,
  client_id_metadata_document_supported: null,
  extra: null,
};

const WORKING: Readonly<Record<string, Ways>> = {
  'nothing special': {},
  'a slash at the issuer': { metadata: slash },
  'a slash where the server names it': { resource: slashAtResource },
  'a slash at both': { resource: slashAtResource, metadata: slash },
  'a path': { path: '/tenant' },
  'a path and a slash at the issuer': { path: '/tenant', metadata: slash },
  'a path and a slash where the server names it': { path: '/tenant', resource: slashAtResource },
  'a slash at the issuer, as in the answer': { metadata: slash, iss: ({ issuer }) => `${issuer}/` },
  'metadata of OpenID': { metadataAt: '/.well-known/openid-configuration' },
  'metadata of OpenID behind the path': { path: '/tenant', metadataAt: '/tenant/.well-known/openid-configuration' },
  'metadata behind the path': { path: '/tenant', metadataAt: '/tenant/.well-known/oauth-authorization-server' },
  'metadata of a path at the root': { path: '/tenant', metadataAt: '/.well-known/oauth-authorization-server' },
  'members that are null or empty': { metadata: () => NULLS, resource: () => NULLS },
  'no response types': { metadata: () => ({ response_types_supported: null, issuer: '' }) },
  'no metadata of the resource': { resource: 404 },
  'a page in place of the metadata of the resource': { resource: '<html>app</html>' },
  'an empty list of authorization servers': { resource: () => ({ authorization_servers: [] }) },
  'no metadata at all': { resource: 404, metadata: 404 },
  'another issuer of a server that signs in itself': {
    resource: 404,
    metadata: () => ({ issuer: 'https://login.example' }),
  },
  'a slash at the resource': { resource: ({ base }) => ({ resource: `${base}/mcp/` }) },
  'the origin as the resource': { resource: ({ base }) => ({ resource: base }) },
  'an address of metadata that has none': { challenge: (origin) => `Bearer resource_metadata="${origin}/nothing"` },
  'several challenges': {
    challenge: (origin) =>
      `Basic realm="a, Bearer x", bearer error="invalid_token", resource_metadata=${origin}/.well-known/oauth-protected-resource/mcp`,
  },
  'a registration with null and "" for absent members': {
    registered: {
      client_secret: null,
      client_secret_expires_at: null,
      client_uri: '',
      logo_uri: '',
      jwks_uri: null,
      contacts: null,
      redirect_uris: null,
    },
  },
  'a registration with nothing but an id, which is a number': { registered: '{"client_id":17}' },
  'tokens with a lifetime as a text': { tokens: { expires_in: '3600' } },
  'tokens with a lifetime that is empty': { tokens: { expires_in: '' } },
  'tokens without a type': { tokens: { token_type: null } },
  'tokens with a scope that is null': { tokens: { scope: null } },
  'tokens with a scope that is a list': { tokens: { scope: ['a', 'b'] } },
  'tokens with "" for absent members': { tokens: { refresh_token: '', id_token: '', error: '', scope: '' } },
  'tokens as a form': { tokens: 'access_token=t1&token_type=bearer&scope=' },
};

for (const [what, ways] of Object.entries(WORKING)) {
  test(`a sign-in works with ${what}`, async (t) => {
    const { failure } = await signedIn(t, ways);
    assert.equal(failure?.message, undefined);
  });
}

test('a sign-in stores usable members alone', async (t) => {
  const { stored } = await signedIn(t, { tokens: { refresh_token: '', scope: ['a', 'b'], expires_in: null } });
  assert.deepEqual(
    [stored?.tokens?.refresh_token, stored?.tokens?.scope, stored?.expiresAt],
    [undefined, 'a b', undefined],
  );
});

test('the resource is sent as the server writes it', async (t) => {
  const { forms, origin } = await signedIn(t, { resource: ({ base }) => ({ resource: base }) });
  assert.deepEqual(
    forms.map((form) => form.get('resource')),
    [origin],
  );
});

const REFUSED: readonly (readonly [ways: Ways, why: RegExp])[] = [
  [
    { metadata: () => ({ issuer: 'https://other.example' }) },
    /\/\.well-known\/oauth-protected-resource\/mcp names the authorization server http\S+, whose metadata name the issuer https:\/\/other\.example; its operator/,
  ],
  [
    { metadata: () => ({ token_endpoint: null }) },
    /\/\.well-known\/oauth-authorization-server has no usable token_endpoint/,
  ],
  [
    { metadata: () => ({ registration_endpoint: '' }) },
    /the authorization server http\S+ registers no clients by itself; register .*oauth\.client_id/,
  ],
  [{ metadata: () => ({ code_challenge_methods_supported: ['plain'] }) }, /^http\S+: .*code challenge method S256/],
  [{ registered: 403 }, /no client could be registered: http\S+\/register replied HTTP 403.*oauth\.client_id/],
  [
    { registered: '{"error":"invalid_redirect_uri"}' },
    /\/register sent a reply that has no usable client_id; .*oauth\.client_id/,
  ],
  [{ tokens: 502 }, /the token endpoint http\S+\/token replied HTTP 502 Bad Gateway: no such page/],
  [{ tokens: 307 }, /\/token redirects \(HTTP 307\) to nowhere, where no code and no secret is sent; its operator/],
  [{ registered: 302 }, /\/register redirects \(HTTP 302\) to nowhere/],
  [{ tokens: '<html>x</html>' }, /the token endpoint http\S+\/token replied with no JSON document/],
  [{ tokens: { access_token: '' } }, /the reply of the token endpoint http\S+\/token has no usable access_token/],
  [{ tokens: '{"error":"invalid_scope","error_description":null}' }, /invalid_scope/],
  [
    { resource: () => ({ resource: 'https://other.example/mcp' }) },
    /names the resource https:\/\/other\.example\/mcp, which does not match/,
  ],
  [{ iss: () => 'https://other.example' }, /issuer/i],
  [{ iss: ({ issuer }) => `${issuer}/` }, /issuer/i],
];

test('a sign-in refuses an unusable document with its address and the reason', async (t) => {
  for (const [ways, why] of REFUSED) {
    const { failure } = await signedIn(t, ways);
    assert.match(String(failure?.message), why);
    assert.doesNotMatch(String(failure?.message), /[{[]"|invalid_type|\n/);
  }
});

test('a challenge is found among others, and read with and without quotes', () => {
  const of = (header: string) => {
    const { scope, resourceMetadataUrl } = challengeOf(new Response(null, { headers: { 'www-authenticate': header } }));
    return [scope, resourceMetadataUrl?.href];
  };
  assert.deepEqual(of('Bearer scope="a b", resource_metadata="https://x.example/m"'), ['a b', 'https://x.example/m']);
  assert.deepEqual(of('Basic realm="Bearer scope=z", BEARER scope=a'), ['a', undefined]);
  assert.deepEqual(of('Bearer realm="x \\"y\\", z", scope="a", Digest scope="b"'), ['a', undefined]);
  assert.deepEqual(of('Bearer'), [undefined, undefined]);
  assert.deepEqual(of('Bearer resource_metadata="not an address"'), [undefined, undefined]);
  assert.deepEqual(of('Basic scope="a"'), [undefined, undefined]);
});

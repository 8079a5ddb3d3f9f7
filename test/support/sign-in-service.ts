/**
 * An MCP server over HTTP that asks for a sign-in, and its authorization server: small, strict, without a library, and
 * recording its requests. For the tests of sign-ins.
 *
 * Refresh tokens rotate: the previous one is refused, as the specification demands for public clients.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

/** A request as received. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

export interface ServiceOptions {
  /** Seconds that an access token is good for. Default 3,600. */
  lifetime?: number;
  /** Runs before a token request is answered, e.g. to be slow. */
  beforeTokens?: (grant: string) => Promise<void> | void;
  /** Members of the metadata, over those it has. */
  resourceMetadata?: object;
  serverMetadata?: object;
  /** The secret of clients that register for one. */
  secret?: string;
  /** Members of the address that the browser is sent back to. */
  callback?: Readonly<Record<string, string>>;
  /** Members of a reply with tokens, over those it has. */
  tokenMembers?: object;
  /** The scope that calling a tool needs. */
  toolScope?: string;
  /** Takes over a request of the MCP server. */
  intercept?: (request: IncomingMessage, response: ServerResponse, body: string) => boolean;
}

interface Client {
  readonly redirect_uris: readonly string[];
  readonly client_secret?: string;
  /** The only way that it proves itself by. */
  readonly token_endpoint_auth_method?: string;
}

export interface Service {
  /** Address of the MCP server. */
  readonly url: string;
  readonly issuer: string;
  readonly options: ServiceOptions;
  /** Requests of the authorization server, and of the MCP server. */
  readonly seen: Seen[];
  readonly seenByMcp: Seen[];
  /** Access tokens that are good, with their scopes. */
  readonly good: Map<string, string>;
  /** Clients by id. */
  readonly clients: Map<string, Client>;
  /** Renewals so far. */
  renewals: () => number;
  /** Makes every access token expire; with `all`, the refresh tokens too. */
  expire: (what?: 'access' | 'all') => void;
  /** Makes the MCP server forget its sessions. */
  forgetSessions: () => void;
  close: () => void;
}

/** Starts both, each on a separate port of this machine. */
export async function signInService(t: TestContext, options: ServiceOptions = {}): Promise<Service> {
  const seen: Seen[] = [];
  const seenByMcp: Seen[] = [];
  const clients: Service['clients'] = new Map();
  const codes = new Map<string, URLSearchParams>();
  const good: Service['good'] = new Map();
  const refreshTokens = new Map<string, string>();
  let renewals = 0;
  let session = randomUUID();

  const tokens = (scope: string): object => {
    const access = `access-${randomUUID()}`;
    const refresh = `refresh-${randomUUID()}`;
    good.set(access, scope);
    refreshTokens.set(refresh, scope);
    const { lifetime = 3_600 } = options;
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: lifetime,
      refresh_token: refresh,
      scope,
      ...options.tokenMembers,
    };
  };

  const authority = await listening(t, seen, async (request, response, body) => {
    const url = new URL(request.url ?? '', issuer);
    const form = new URLSearchParams(body);
    const refuse = (error: string): void => reply(response, 400, { error });
    switch (url.pathname) {
      case '/.well-known/oauth-authorization-server':
        return reply(response, 200, {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          registration_endpoint: `${issuer}/register`,
          revocation_endpoint: `${issuer}/revoke`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
          authorization_response_iss_parameter_supported: true,
          ...options.serverMetadata,
        });
      case '/register': {
        const asked = JSON.parse(body);
        const { token_endpoint_auth_methods_supported: methods = ['none'] } = { ...options.serverMetadata } as {
          readonly token_endpoint_auth_methods_supported?: readonly string[];
        };
        // RFC 7591: a client that names no method gets this one.
        const { token_endpoint_auth_method: method = 'client_secret_basic' } = asked;
        if (!methods.includes(method)) return refuse('invalid_client_metadata');
        const { secret = randomUUID() } = options;
        const client = {
          ...asked,
          token_endpoint_auth_method: method,
          client_id: `client-${randomUUID()}`,
          client_id_issued_at: 0,
          ...(method !== 'none' && { client_secret: secret, client_secret_expires_at: 0 }),
        };
        clients.set(client.client_id, client);
        return reply(response, 201, client);
      }
      case '/authorize': {
        const { searchParams } = url;
        const back = new URL(searchParams.get('redirect_uri') ?? '');
        const client = clients.get(searchParams.get('client_id') ?? '');
        if (client?.redirect_uris.includes(back.href) !== true) return refuse('invalid_client');
        const code = randomUUID();
        codes.set(code, searchParams);
        const members = { code, state: searchParams.get('state') ?? '', iss: issuer, ...options.callback };
        for (const [name, value] of Object.entries(members)) back.searchParams.set(name, value);
        return void response.writeHead(302, { location: back.href }).end();
      }
      case '/token': {
        const grant = form.get('grant_type') ?? '';
        await options.beforeTokens?.(grant);
        if (provenClient(request, form, clients) === undefined)
          return reply(response, 401, { error: 'invalid_client' });
        if (form.get('resource') !== mcpUrl) return refuse('invalid_target');
        if (grant === 'client_credentials') return reply(response, 200, tokens(form.get('scope') ?? ''));
        if (grant === 'refresh_token') {
          const token = form.get('refresh_token') ?? '';
          const scope = refreshTokens.get(token);
          if (scope === undefined) return refuse('invalid_grant');
          refreshTokens.delete(token);
          renewals += 1;
          return reply(response, 200, tokens(scope));
        }
        const code = form.get('code') ?? '';
        const asked = codes.get(code);
        codes.delete(code);
        const challenge = createHash('sha256')
          .update(form.get('code_verifier') ?? '')
          .digest('base64url');
        const isSame = asked?.get('code_challenge') === challenge && asked.get('resource') === mcpUrl;
        if (!isSame || asked.get('redirect_uri') !== form.get('redirect_uri')) return refuse('invalid_grant');
        return reply(response, 200, tokens(asked.get('scope') ?? ''));
      }
      case '/revoke':
        if (provenClient(request, form, clients) === undefined)
          return reply(response, 401, { error: 'invalid_client' });
        refreshTokens.delete(form.get('token') ?? '');
        return void response.writeHead(200).end();
      default:
        return void response.writeHead(404).end();
    }
  });
  const issuer = authority.origin;

  const mcp = await listening(t, seenByMcp, async (request, response, body) => {
    if (options.intercept?.(request, response, body) === true) return;
    const { method, url, headers } = request;
    if (url === '/.well-known/oauth-protected-resource/mcp') {
      return reply(response, 200, { resource: mcpUrl, authorization_servers: [issuer], ...options.resourceMetadata });
    }
    if (url !== '/mcp') return void response.writeHead(404).end();
    const metadata = `resource_metadata="${mcp.origin}/.well-known/oauth-protected-resource/mcp"`;
    const scope = good.get((headers.authorization ?? '').replace('Bearer ', ''));
    if (scope === undefined) {
      return void response.writeHead(401, { 'www-authenticate': `Bearer ${metadata}, scope="basic"` }).end();
    }
    if (method !== 'POST') return void response.writeHead(method === 'DELETE' ? 200 : 405).end();
    const message = JSON.parse(body);
    const answer = (result: object): void =>
      reply(response, 200, { jsonrpc: '2.0', id: message.id, result }, { 'mcp-session-id': session });
    if (message.method === 'initialize') {
      const { protocolVersion } = message.params;
      return answer({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'guarded', version: '1' } });
    }
    if (headers['mcp-session-id'] !== session) return void response.writeHead(404).end();
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === 'tools/list') {
      return answer({ tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] });
    }
    const { toolScope } = options;
    if (toolScope !== undefined && !scope.split(' ').includes(toolScope)) {
      const challenge = `Bearer error="insufficient_scope", scope="${toolScope}", ${metadata}`;
      return void response.writeHead(403, { 'www-authenticate': challenge }).end();
    }
    answer({ content: [{ type: 'text', text: `signed in for ${scope}` }] });
  });
  const mcpUrl = `${mcp.origin}/mcp`;

  return {
    url: mcpUrl,
    issuer,
    options,
    seen,
    seenByMcp,
    good,
    clients,
    renewals: () => renewals,
    expire: (what = 'access') => {
      good.clear();
      if (what === 'all') refreshTokens.clear();
    },
    forgetSessions: () => {
      session = randomUUID();
    },
    close: () => {
      authority.close();
      mcp.close();
    },
  };
}

/** Returns the client of a request, which may authenticate only by its own method (RFC 6749, section 2.3.1). */
function provenClient(
  request: IncomingMessage,
  form: URLSearchParams,
  clients: Service['clients'],
): Client | undefined {
  const [, basic] = /^Basic (.+)$/.exec(request.headers.authorization ?? '') ?? [];
  const words = basic === undefined ? [] : Buffer.from(basic, 'base64').toString().split(':');
  const decoded = words.map((word) => decodeURIComponent(word.replaceAll('+', ' ')));
  const [id, secret] = basic === undefined ? [form.get('client_id'), form.get('client_secret')] : decoded;
  const inForm = form.get('client_secret') === null ? 'none' : 'client_secret_post';
  const method = basic === undefined ? inForm : 'client_secret_basic';
  const client = clients.get(id ?? '');
  const isRight = (client?.client_secret ?? null) === (secret ?? null);
  return isRight && method === (client?.token_endpoint_auth_method ?? method) ? client : undefined;
}

/** Acts like a person with a browser: opens the address, and follows the redirect. Returns the final address. */
export async function visit(address: string): Promise<{ url: URL; text: string }> {
  const first = await fetch(address, { redirect: 'manual' });
  const url = new URL(first.headers.get('location') ?? address);
  return { url, text: await (await fetch(url)).text() };
}

/** Returns the address that a browser would be sent back to. */
export async function redirectOf(address: string): Promise<string> {
  const { headers } = await fetch(address, { redirect: 'manual' });
  return headers.get('location') ?? '';
}

/** Starts a server on a separate port. */
export async function listening(
  t: TestContext,
  seen: Seen[],
  handle: (request: IncomingMessage, response: ServerResponse, body: string) => Promise<void> | void,
): Promise<{ origin: string; close: () => void }> {
  const listener: RequestListener = async (request, response) => {
    const body = await new Response(request as never).text();
    const { method = '', url = '', headers } = request;
    seen.push({ method, path: url, authorization: headers.authorization, body });
    await handle(request, response, body);
  };
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  t.after(close);
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

const reply = (response: ServerResponse, status: number, value: object, headers: object = {}): void =>
  void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));

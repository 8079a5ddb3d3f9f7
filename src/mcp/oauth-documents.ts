/**
 * Reads the documents of a sign-in for the official client: metadata of a server and of its authorization server, the
 * reply to a registration, tokens. Authorization servers write `null` and `""` for absent members, numbers as texts,
 * scopes as lists, and some reply with a page to every address. The client gets a document without members that do not
 * fit; a document without a member that it needs fails with its address and the name of the member.
 *
 * Every request of a sign-in passes through it.
 */
import { fail } from '../wire/errors.ts';
import { isObject, type JsonObject, membersOf } from '../wire/json.ts';
import type { CheckedFetch } from './checked-fetch.ts';
import { lineOf } from './http-problem.ts';
import { flag, listOf, objectOf, otherwise, type Reader, text } from './lenient.ts';

/** An absolute address; `checked-fetch.ts` decides which addresses a request may go to. */
const address: Reader = (value) =>
  typeof value === 'string' && URL.canParse(value) && !/^(?:javascript|data|vbscript):/i.test(new URL(value).protocol)
    ? value
    : undefined;
const full: Reader = (value) => (value === '' ? undefined : text(value));
const words: Reader = (value) => (typeof value === 'string' ? value.split(/\s+/).filter(Boolean) : listOf(text)(value));
const scope: Reader = (value) => (Array.isArray(value) ? value.filter((each) => text(each)).join(' ') : full(value));
const count: Reader = (value) => {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined;
};

/** Readers for members by the endings of their names, as the registries of OAuth name them. */
function byName(document: JsonObject): Readonly<Record<string, Reader>> {
  const readerOf = (name: string): Reader => {
    if (/_(?:supported|required|tokens)$/.test(name) && typeof document[name] === 'boolean') return flag;
    if (/_(?:parameter|document)_supported$|_required$|_registration$/.test(name)) return flag;
    if (name.endsWith('_supported')) return words;
    if (/_(?:endpoint|uri|documentation)$/.test(name)) return address;
    return (value) => value ?? undefined;
  };
  return Object.fromEntries(Object.keys(document).map((name) => [name, readerOf(name)]));
}

const WELL_KNOWN = /\/\.well-known\/(?:oauth-authorization-server|openid-configuration)/;

const metadataOf = (at: URL, document: JsonObject): unknown => {
  const base = `${at.origin}${at.pathname.replace(WELL_KNOWN, '')}`;
  const { authorization_endpoint: page } = document;
  return objectOf(byName(document), {
    issuer: otherwise(full, base.replace(/\/$/, '')),
    authorization_endpoint: address,
    token_endpoint: address,
    response_types_supported: otherwise(words, ['code']),
    // Only documents of OpenID need these members, and the sign-in uses none of them.
    ...(at.pathname.includes('openid') && {
      jwks_uri: otherwise(address, page),
      subject_types_supported: otherwise(words, ['public']),
      id_token_signing_alg_values_supported: otherwise(words, []),
    }),
  })(document);
};

const resourceOf = (server: string, document: JsonObject): unknown =>
  objectOf(
    { ...byName(document), authorization_servers: listOf(address) },
    { resource: otherwise(address, server) },
  )(document);

const registrationOf = (asked: JsonObject, document: JsonObject): unknown => {
  const { client_id, client_secret, client_id_issued_at, client_secret_expires_at, token_endpoint_auth_method } =
    document;
  const id: Reader = (value) => (typeof value === 'number' ? String(value) : full(value));
  return objectOf(
    {
      client_secret: full,
      client_id_issued_at: count,
      client_secret_expires_at: count,
      token_endpoint_auth_method: full,
    },
    { client_id: id },
  )({
    redirect_uris: asked.redirect_uris,
    client_id,
    client_secret,
    client_id_issued_at,
    client_secret_expires_at,
    token_endpoint_auth_method,
  });
};

const tokens = objectOf(
  { expires_in: count, scope, refresh_token: full, id_token: full },
  { access_token: full, token_type: otherwise(full, 'Bearer') },
);

const NEEDS = {
  metadata: ['authorization_endpoint', 'token_endpoint'],
  registration: ['client_id'],
  tokens: ['access_token'],
} as const;
const MAX_NOTES = 8;
/** Advice for an authorization server that registers no clients by itself. */
export const REGISTER_BY_HAND =
  'register a client there by hand, and name it in oauth.client_id of the server in handfast.yaml';

/** The requests of one sign-in. */
export class OAuthDocuments {
  /** Addresses that lack a document, each with the reason. */
  readonly #notes: string[] = [];
  /** The address and the lack of the first metadata that cannot be used. */
  broken: string | undefined;
  /** The address that had the metadata of the server. */
  resourceAt = '';
  readonly #server: string;
  readonly #fetch: CheckedFetch;
  /** Address of the metadata of the server, where it named one. */
  readonly #named: string | undefined;

  constructor(server: string, fetch: CheckedFetch, named?: string) {
    this.#server = server;
    this.#fetch = fetch;
    this.#named = named;
  }

  /** Fetches a document and reads it. Rejects as the requests do, and with `login_failed`, `unreachable`. */
  readonly fetch: CheckedFetch = async (to, init = {}) => {
    const at = new URL(to);
    const response = await this.#fetch(at, init);
    if (response.status >= 300 && response.status < 400) return redirected(at, response, init.method);
    const body = await response.text();
    if (init.method === undefined || init.method === 'GET') return this.#found(at, response, body);
    const form = String(init.body ?? '');
    return /(?:^|&)grant_type=/.test(form)
      ? this.#tokens(at, response, body)
      : this.#registered(at, response, body, membersOf(jsonOf(form)));
  };

  /** Returns the metadata, or status 404: another address may have them. */
  #found(at: URL, response: Response, body: string): Response {
    const document = jsonOf(body);
    const isOfResource = at.href === this.#named || at.pathname.includes('oauth-protected-resource');
    if (!response.ok) return this.#without(at, `replied ${lineOf(response.status, response.statusText, '')}`);
    if (document === undefined) return this.#without(at, 'is not a JSON document');
    const read = isOfResource ? resourceOf(this.#server, document) : metadataOf(at, document);
    if (read === undefined) {
      const lack = lackOf('metadata', document);
      this.broken ??= `${at.href} ${lack}`;
      return this.#without(at, lack);
    }
    if (isOfResource) this.resourceAt = at.href;
    return replyOf(200, read);
  }

  #without(at: URL, why: string): Response {
    if (this.#notes.length < MAX_NOTES) this.#notes.push(`${at.href} ${why}`);
    return new Response('', { status: 404 });
  }

  #tokens(at: URL, response: Response, body: string): Response {
    const document = jsonOf(body) ?? formOf(body);
    // The official client acts on these codes.
    if (typeof document?.error === 'string' && document.error !== '' && document.access_token === undefined) {
      const { error, error_description: why } = document;
      const known = { error, ...(typeof why === 'string' && why !== '' && { error_description: why }) };
      return replyOf(response.ok ? 400 : response.status, known);
    }
    if (!response.ok) {
      const said = `the token endpoint ${at.href} replied ${lineOf(response.status, response.statusText, body)}`;
      throw fail(response.status >= 500 ? 'unreachable' : 'login_failed', said);
    }
    if (document === undefined)
      throw fail('login_failed', `the token endpoint ${at.href} replied with no JSON document`);
    const read = tokens(document);
    if (read !== undefined) return replyOf(200, read);
    throw fail('login_failed', `the reply of the token endpoint ${at.href} ${lackOf('tokens', document)}`);
  }

  #registered(at: URL, response: Response, body: string, asked: JsonObject): Response {
    const tried = this.#notes.length === 0 ? '' : ` (${this.#notes.join('; ')})`;
    const document = jsonOf(body);
    const read = response.ok && document !== undefined ? registrationOf(asked, document) : undefined;
    if (read !== undefined) return replyOf(201, read);
    const why = response.ok
      ? document === undefined
        ? 'replied with no JSON document'
        : `sent a reply that ${lackOf('registration', document)}`
      : `replied ${lineOf(response.status, response.statusText, body)}`;
    throw fail('login_failed', `no client could be registered: ${at.href} ${why}${tried}; ${REGISTER_BY_HAND}`);
  }
}

/**
 * Returns a redirect that the official client follows. Throws `login_failed` for another redirect of a POST, which has
 * a code or a secret.
 */
function redirected(at: URL, response: Response, method = 'GET'): Response {
  const location = response.headers.get('location');
  const target = location === null ? null : URL.parse(location, at.href);
  const keepsMethod = response.status === 307 || response.status === 308;
  if (method === 'GET' || (keepsMethod && target?.host === at.host)) return response;
  const where = target === null ? 'nowhere' : target.origin + target.pathname;
  throw fail(
    'login_failed',
    `${at.href} redirects (HTTP ${response.status}) to ${where}, where no code and no secret is sent; its operator has to name that address in the metadata`,
  );
}

function lackOf(kind: keyof typeof NEEDS, document: JsonObject): string {
  const lacking = NEEDS[kind].filter((name) => (kind === 'metadata' ? address : full)(document[name]) === undefined);
  return `has no usable ${lacking.join(' and no usable ')}`;
}

const replyOf = (status: number, document: unknown): Response =>
  new Response(JSON.stringify(document), { status, headers: { 'content-type': 'application/json' } });

function jsonOf(body: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Parses a form: some authorization servers reply with one in place of JSON. */
function formOf(body: string): JsonObject | undefined {
  const form = Object.fromEntries(new URLSearchParams(body));
  return form.access_token === undefined && form.error === undefined ? undefined : form;
}

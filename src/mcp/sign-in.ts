/**
 * Sign-in to an MCP server, which a person does in a browser: finds the authorization server, registers this program
 * there if need be, sends the person to it, and stores the returned tokens. Also sign-out.
 *
 * The official client makes the protocol's own checks (PKCE, state, issuer, resource).
 * @see docs/mcp.md#sign-in
 */
import { type Arrival, openCallback } from '../base/http/sign-in-callback.ts';
import { orAborted } from '../base/race.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { McpAuthorization } from './authorization.ts';
import { type CheckedFetch, checkedFetch, checkedPage } from './checked-fetch.ts';
import { methodToRegister, proveClient } from './client-authentication.ts';
import { connectMcp } from './connection.ts';
import { type Discovery, discovered, isSameIssuer, issuerOf, resourceOf } from './discovery.ts';
import { clientProblem, issuesOf } from './http-problem.ts';
import { OAuthDocuments, REGISTER_BY_HAND } from './oauth-documents.ts';
import { clientOf, type OAuthSettings } from './oauth-settings.ts';
import { loadMcpClient, type McpSdk } from './sdk.ts';
import { granted, type SignInFile, type StoredSignIn } from './sign-in-file.ts';

export interface SignInOptions {
  readonly signal: AbortSignal;
  /** Shows the person where to go. */
  readonly show: (address: string) => void;
  /** The address the browser was sent back to, for a browser that is not on this machine. */
  readonly pasted?: Promise<string> | undefined;
  /** Returns epoch milliseconds. */
  readonly now?: () => number;
}

type Provider = NonNullable<Parameters<McpSdk['auth']>[0]>;
const CALLBACK_PATH = '/callback';
/** Time limit for learning the server's demand. */
const PROBE_MS = 30_000;
/** Time for a person. */
const PERSON_MS = 15 * 60_000;
/** Longest wait for the file of the sign-in, after a sign-in that failed. */
const FORGET_MS = 5_000;

/**
 * Signs in. Rejects with `login_failed`, `not_configured` without the official client, and with the reason of the signal.
 */
export async function signIn(authorization: McpAuthorization, options: SignInOptions): Promise<void> {
  const { signal, now = Date.now } = options;
  const { url, file, name, settings } = authorization;
  if (settings.clientCredentials === true) {
    throw fail('login_failed', `${name} needs no person: it has the credentials of the configuration`);
  }
  const sdk = await loadMcpClient();
  let issuer: string | undefined;
  let shown: StoredSignIn['client'];
  try {
    const before = await asked(authorization, signal);
    const fetch = checkedFetch(url, signal);
    const discovery = await discovered(sdk, authorization, before, fetch);
    issuer = issuerOf(discovery);
    const known =
      before.issuer !== undefined && isSameIssuer(before.issuer, issuer)
        ? before
        : { server: url, ...(before.challenge && { challenge: before.challenge }) };
    const show = (address: string): void => {
      shown = known.client;
      options.show(address);
    };
    const result = await throughBrowser(sdk, authorization, known, discovery, { ...options, show });
    await file.change(signal, async () => ({
      server: url,
      issuer,
      ...result,
      ...granted(result.tokens, now()),
      discovery: { ...discovery },
    }));
  } catch (thrown) {
    if (shown !== undefined) await forgetClient(file, shown).catch(() => {});
    signal.throwIfAborted();
    throw loginFailure(thrown, url, issuer);
  }
}

/**
 * Removes a registration after which the browser did not return: an authorization server that has lost it shows the
 * person an error and redirects no browser, so the next sign-in registers again. A registration that renews tokens
 * stays; the renewal shows whether the server knows it.
 */
async function forgetClient(file: SignInFile, { client_id: id }: NonNullable<StoredSignIn['client']>): Promise<void> {
  await file.change(AbortSignal.timeout(FORGET_MS), async (stored) => {
    const { client, redirectUri: _, ...rest } = stored;
    return client?.client_id !== id || stored.tokens?.refresh_token !== undefined ? stored : rest;
  });
}

/** Removes a sign-in, after revoking its tokens if the authorization server supports that. False: none existed. */
export async function signOut(authorization: McpAuthorization, signal: AbortSignal): Promise<boolean> {
  let wasThere = false;
  await authorization.file.change(signal, async (stored) => {
    wasThere = stored.tokens !== undefined;
    // Tokens that cannot be revoked expire.
    if (wasThere) await revoke(authorization, stored, checkedFetch(authorization.url, signal)).catch(() => {});
    return undefined;
  });
  return wasThere;
}

/** Returns the stored sign-in, with the server's demand: a request asks for it if it is not stored yet. */
async function asked({ name, url, file, settings }: McpAuthorization, signal: AbortSignal): Promise<StoredSignIn> {
  const stored = await file.read();
  if (stored.challenge !== undefined) return stored;
  const probe = new McpAuthorization({ name, url, file, settings });
  const bound = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  const options = { cwd: '/', signal: bound, authorization: probe };
  const connecting = connectMcp({ http: { url } }, options).then((connection) => connection.end());
  // The server refuses, which is stored; one that does not refuse yet may still have a sign-in.
  await connecting.catch((thrown: unknown) => {
    signal.throwIfAborted();
    if (asError(thrown).code !== 'unauthorized') throw thrown;
  });
  return file.read();
}

type Result = Pick<StoredSignIn, 'client' | 'redirectUri'> & { readonly tokens: NonNullable<StoredSignIn['tokens']> };

async function throughBrowser(
  sdk: McpSdk,
  authorization: McpAuthorization,
  known: StoredSignIn,
  discovery: Discovery,
  { signal, show, pasted, now = Date.now }: SignInOptions,
): Promise<Result> {
  const { url, settings } = authorization;
  const issuer = issuerOf(discovery);
  const resource = resourceOf(discovery);
  const ports = [settings.callbackPort, portOf(known.redirectUri)].filter((port) => port !== undefined);
  const callback = await openCallback(CALLBACK_PATH, ports);
  try {
    const { redirectUri } = callback;
    if (settings.callbackPort !== undefined && portOf(redirectUri) !== settings.callbackPort) {
      throw fail('login_failed', `port ${settings.callbackPort}, which the sign-in comes back to, is in use`);
    }
    const state = crypto.randomUUID();
    let page: URL | undefined;
    let verifier = '';
    let client = usableClient(known, redirectUri, issuer, authorization, now());
    if (client === undefined) mustRegister(discovery, settings, issuer);
    const metadata = discovery.authorizationServerMetadata;
    const method = methodToRegister(metadata?.token_endpoint_auth_methods_supported);
    const scopes = sdk.computeScopeUnion(settings.scope, known.tokens?.scope, known.challenge?.scope);
    const provider: Provider = {
      redirectUrl: redirectUri,
      clientMetadata: {
        client_name: 'Handfast',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        ...(method !== undefined && { token_endpoint_auth_method: method }),
        ...(settings.scope && { scope: settings.scope }),
      },
      ...(settings.clientMetadataUrl && { clientMetadataUrl: settings.clientMetadataUrl }),
      state: () => state,
      clientInformation: () => client as never,
      saveClientInformation: (saved) => {
        client = { ...saved };
      },
      // A sign-in is a new one: tokens of before are not renewed by it.
      tokens: () => undefined,
      saveTokens: () => {},
      redirectToAuthorization: (address) => {
        page = checkedPage(address, url);
      },
      saveCodeVerifier: (saved) => {
        verifier = saved;
      },
      codeVerifier: () => verifier,
      // `discovered` has compared it with the address of the server; requests have the spelling of the server.
      validateResourceURL: async () => resource as never,
      discoveryState: () => discovery as never,
      saveDiscoveryState: () => {},
      addClientAuthentication: (headers, params) =>
        proveClient(client ?? {}, metadata?.token_endpoint_auth_methods_supported, headers, params),
    };
    const { fetch } = new OAuthDocuments(url, checkedFetch(url, signal));
    const fetchFn = fetch as never;
    await sdk.auth(provider, { serverUrl: url, fetchFn, ...(scopes && { scope: scopes }) });
    if (page === undefined) throw fail('login_failed', 'the authorization server named no page to sign in at');
    const late = AbortSignal.any([signal, AbortSignal.timeout(PERSON_MS)]);
    const arriving = callback.arrival(state, late);
    show(page.href);
    const arrival = await Promise.race([
      arriving,
      ...(pasted ? [orAborted(pasted, late).then((text) => pastedArrival(text, state))] : []),
    ]);
    arriving.catch(() => {});
    let tokens: Result['tokens'];
    try {
      const { searchParams } = arrival.url;
      // RFC 9207 compares it as it is written.
      const iss = searchParams.get('iss');
      const authorizationCode = searchParams.get('code') ?? '';
      // A code is sent once: the whole sign-in of the official client would send a refused one again.
      tokens = (await sdk.fetchToken(provider, discovery.authorizationServerUrl, {
        authorizationCode,
        fetchFn,
        ...(metadata && { metadata }),
        ...(iss !== null && { iss }),
        ...(resource !== undefined && { resource: resource as never }),
      })) as Result['tokens'];
      arrival.show({ ok: true, message: 'You are signed in. You can close this window.' });
    } catch (thrown) {
      arrival.show({ ok: false, message: 'Signing in has failed. You can close this window.' });
      throw thrown;
    }
    const { client_secret: _, ...withoutSecret } = client ?? {};
    return { client: settings.clientId === undefined ? (client ?? {}) : withoutSecret, redirectUri, tokens };
  } finally {
    callback.close();
  }
}

/** Throws `login_failed` for an authorization server that neither registers clients nor reads a document about one. */
function mustRegister({ authorizationServerMetadata: metadata }: Discovery, settings: OAuthSettings, issuer: string) {
  if (metadata === undefined || metadata.registration_endpoint !== undefined) return;
  const hasDocument =
    settings.clientMetadataUrl !== undefined && metadata.client_id_metadata_document_supported === true;
  if (hasDocument) return;
  throw fail('login_failed', `the authorization server ${issuer} registers no clients by itself; ${REGISTER_BY_HAND}`);
}

const portOf = (address: string | undefined): number | undefined =>
  address === undefined ? undefined : Number(new URL(address).port);

const configuredClient = ({ settings }: McpAuthorization, issuer: string): Record<string, unknown> | undefined =>
  settings.clientId === undefined ? undefined : clientOf({ issuer }, settings);

/** Returns the client of the configuration, else the one that was registered before, if it is still usable. */
function usableClient(
  { client, redirectUri }: StoredSignIn,
  wanted: string,
  issuer: string,
  authorization: McpAuthorization,
  now: number,
): Record<string, unknown> | undefined {
  const { settings } = authorization;
  if (settings.clientId !== undefined) return configuredClient(authorization, issuer);
  if (client === undefined || redirectUri !== wanted) return undefined;
  const { client_secret_expires_at: expiresAt = 0, client_id: id } = client;
  const isExpired = typeof expiresAt === 'number' && expiresAt !== 0 && expiresAt * 1_000 <= now;
  // A client that the configuration now describes by a document is not the registered one.
  const isOther = settings.clientMetadataUrl !== undefined && id !== settings.clientMetadataUrl;
  return isExpired || isOther ? undefined : { ...client };
}

/** Returns the arrival of a browser on another machine. Throws `login_failed` for an address that is not of this sign-in. */
function pastedArrival(text: string, state: string): Arrival {
  const url = URL.parse(text.trim());
  if (url === null)
    throw fail('login_failed', 'that is not an address: paste all of what the browser shows as its address');
  if (url.searchParams.get('state') !== state)
    throw fail('login_failed', 'that address does not belong to this sign-in');
  const error = url.searchParams.get('error');
  if (error !== null) {
    const why = (url.searchParams.get('error_description') ?? error).slice(0, 300);
    throw fail('login_failed', `sign-in was refused: ${why}`);
  }
  return { url, show: () => {} };
}

/** Revokes the refresh token (RFC 7009), which ends the other tokens. */
async function revoke(authorization: McpAuthorization, stored: StoredSignIn, fetch: CheckedFetch): Promise<void> {
  const { tokens, client = {}, discovery = {} } = stored;
  const metadata = discovery.authorizationServerMetadata as RevocationMetadata | undefined;
  const endpoint = metadata?.revocation_endpoint;
  if (tokens === undefined || endpoint === undefined) return;
  const isRefresh = tokens.refresh_token !== undefined;
  const body = new URLSearchParams({
    token: tokens.refresh_token ?? tokens.access_token,
    token_type_hint: isRefresh ? 'refresh_token' : 'access_token',
  });
  const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' });
  const methods =
    metadata?.revocation_endpoint_auth_methods_supported ?? metadata?.token_endpoint_auth_methods_supported;
  proveClient(clientOf(client, authorization.settings), methods, headers, body);
  await fetch(endpoint, { method: 'POST', headers, body });
}

interface RevocationMetadata {
  readonly revocation_endpoint?: string;
  readonly revocation_endpoint_auth_methods_supported?: readonly string[];
  readonly token_endpoint_auth_methods_supported?: readonly string[];
}

/** Failures of the official client, with the address of the server that caused them. No message has a code or a token. */
function loginFailure(thrown: unknown, url: string, issuer: string | undefined): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const problem = clientProblem(thrown);
  if (problem !== undefined) return fail('login_failed', `${url}: ${problem.message}`, {}, thrown);
  const { message, code, cause } = thrown as {
    readonly message?: unknown;
    readonly code?: unknown;
    readonly cause?: unknown;
  };
  // `fetch failed` alone has too little information.
  const more = cause instanceof Error ? `: ${cause.message}` : '';
  const why = issuesOf(`${String(message)}${more}`);
  const known = typeof code === 'string' && !why.includes(code) ? `${code}: ` : '';
  return fail('login_failed', `${issuer ?? url}: ${known}${why}`, {}, thrown);
}

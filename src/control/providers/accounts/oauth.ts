/**
 * Signing in with OAuth 2: authorization code with PKCE, refresh, revocation. The protocol's checks (state, PKCE, issuer,
 * audience and times of the ID token) are the certified library's; this file configures it and turns its failures into errors
 * of the table.
 *
 * Adapter file of `openid-client`, which is loaded with the first sign-in.
 */
import { headerProblem } from '../../../base/secret-text.ts';
import { MAX_VALUES, moreValues } from '../../../wire/depth.ts';
import { asError, fail, HandfastError } from '../../../wire/errors.ts';
import { isLoopback } from '../http/endpoints.ts';
import { type Fetch, readBody } from '../http/http-json.ts';

/** A sign-in service and the client registered there. */
export interface OAuthService {
  readonly issuer: string;
  readonly clientId: string;
  /** Installed applications of Google have one; it is not treated as a secret there. */
  readonly clientSecret?: string;
  readonly scope: string;
  /** Paths below the issuer; undefined = the paths of its discovery document. */
  readonly paths?: { readonly authorize: string; readonly token: string; readonly revoke: string };
  /** Added to the address the user is sent to. */
  readonly authorizeParameters?: Readonly<Record<string, string>>;
}

/** Result of a sign-in or a refresh. */
export interface Tokens {
  readonly accessToken: string;
  readonly refreshToken?: string;
  /** Undefined = the service did not state it. */
  readonly expiresInSeconds?: number;
  /** Claims of the ID token; empty without one. */
  readonly claims: Readonly<Record<string, unknown>>;
}

export interface OAuthOptions {
  readonly fetch: Fetch;
  /** Ends every request of the client; the requests reject with its reason. */
  readonly signal: AbortSignal;
}

/** Longest answer of a sign-in service. */
const MAX_ANSWER_BYTES = 1024 * 1024;
const REQUEST_TIMEOUT_SECONDS = 30;

type OpenId = typeof import('openid-client');
type TokenReply = Awaited<ReturnType<OpenId['refreshTokenGrant']>>;

/** A started sign-in in a browser. */
export interface BrowserAttempt {
  /** Address that the user has to open. */
  readonly url: string;
  /** The `state` that the callback must carry. */
  readonly state: string;
  /** Ends it with the address the browser came back to. */
  finish(callback: URL): Promise<Tokens>;
}

/** Makes a client; reads the service's discovery document where its paths are not known. Fails with `login_failed`. */
export async function oauthClient(service: OAuthService, { fetch, signal }: OAuthOptions): Promise<OAuthClient> {
  const { issuer } = service;
  if (!issuer.startsWith('https:') && !isLoopback(issuer)) {
    throw fail('login_failed', `${new URL(issuer).host}: sign-in needs https`);
  }
  const openid = await library();
  const configured = () => configuration(openid, service, boundedFetch(fetch, signal));
  const config = await guarded(issuer, signal, configured);
  return new OAuthClient(openid, config, service, signal);
}

/** One client of one service. Every method fails with `login_failed`, or with the reason of the signal. */
export class OAuthClient {
  readonly #openid: OpenId;
  readonly #config: InstanceType<OpenId['Configuration']>;
  readonly #service: OAuthService;
  readonly #signal: AbortSignal;

  constructor(
    openid: OpenId,
    config: InstanceType<OpenId['Configuration']>,
    service: OAuthService,
    signal: AbortSignal,
  ) {
    this.#openid = openid;
    this.#config = config;
    this.#service = service;
    this.#signal = signal;
  }

  /** Starts a sign-in in a browser that comes back to `redirectUri`. */
  async start(redirectUri: string): Promise<BrowserAttempt> {
    const { scope, authorizeParameters } = this.#service;
    const codeVerifier = this.#openid.randomPKCECodeVerifier();
    const state = this.#openid.randomState();
    const url = this.#openid.buildAuthorizationUrl(this.#config, {
      redirect_uri: redirectUri,
      scope,
      state,
      code_challenge: await this.#openid.calculatePKCECodeChallenge(codeVerifier),
      code_challenge_method: 'S256',
      ...authorizeParameters,
    });
    const checks = { pkceCodeVerifier: codeVerifier, expectedState: state, idTokenExpected: true };
    const finish = (callback: URL) =>
      this.#tokens(() => this.#openid.authorizationCodeGrant(this.#config, callback, checks));
    return { url: url.href, state, finish };
  }

  /** Exchanges a code that came by another way than a callback. */
  exchange(redirectUri: string, code: string, codeVerifier: string): Promise<Tokens> {
    // The library reads a code from the address it came with; the device flow's code came in a body.
    const callback = new URL(redirectUri);
    callback.searchParams.set('code', code);
    const checks = { pkceCodeVerifier: codeVerifier, idTokenExpected: true };
    return this.#tokens(() => this.#openid.authorizationCodeGrant(this.#config, callback, checks));
  }

  refresh(refreshToken: string): Promise<Tokens> {
    return this.#tokens(() => this.#openid.refreshTokenGrant(this.#config, refreshToken));
  }

  /** Revokes a token; does nothing where the service has no revocation. */
  async revoke(token: string): Promise<void> {
    if (this.#config.serverMetadata().revocation_endpoint === undefined) return;
    const revoke = () => this.#openid.tokenRevocation(this.#config, token);
    await guarded(this.#service.issuer, this.#signal, revoke);
  }

  async #tokens(request: () => Promise<TokenReply>): Promise<Tokens> {
    const reply = await guarded(this.#service.issuer, this.#signal, request);
    const problem = headerProblem(`${reply.access_token}${reply.refresh_token ?? ''}`);
    if (problem !== undefined) {
      throw fail(
        'login_failed',
        `${new URL(this.#service.issuer).host} sent a token with ${problem}; nothing was stored`,
      );
    }
    return {
      accessToken: reply.access_token,
      refreshToken: reply.refresh_token,
      expiresInSeconds: reply.expires_in,
      claims: { ...reply.claims() },
    };
  }
}

type BoundedFetch = (url: string, init: object) => Promise<Response>;

/** Makes a fetch whose requests end with the signal and whose replies are read within a size limit. */
function boundedFetch(fetch: Fetch, signal: AbortSignal): BoundedFetch {
  return async (url, init) => {
    const given = init as RequestInit;
    const signals = given.signal ? [signal, given.signal] : [signal];
    const response = await fetch(url, { ...given, signal: AbortSignal.any(signals) });
    const text = await readBody(response, MAX_ANSWER_BYTES);
    if (text === undefined) throw fail('login_failed', `${new URL(url).host} sent too long a response`);
    if (moreValues(text, MAX_VALUES))
      throw fail('login_failed', `${new URL(url).host} sent a response of more than ${MAX_VALUES} values`);
    // Statuses without a body must be made without one.
    const body = response.status === 204 || response.status === 304 ? null : text;
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

/** Returns the library's view of a service: from the known paths, else from its discovery document. */
async function configuration(openid: OpenId, service: OAuthService, fetch: BoundedFetch) {
  const { issuer, clientId, clientSecret, paths } = service;
  const authentication = clientSecret === undefined ? openid.None() : openid.ClientSecretPost(clientSecret);
  const insecure = isLoopback(issuer) ? [openid.allowInsecureRequests] : [];
  if (paths === undefined) {
    return openid.discovery(new URL(issuer), clientId, clientSecret, authentication, {
      execute: insecure,
      timeout: REQUEST_TIMEOUT_SECONDS,
      [openid.customFetch]: fetch,
    });
  }
  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}${paths.authorize}`,
    token_endpoint: `${issuer}${paths.token}`,
    revocation_endpoint: `${issuer}${paths.revoke}`,
  };
  const made = new openid.Configuration(metadata, clientId, clientSecret, authentication);
  for (const allow of insecure) allow(made);
  made.timeout = REQUEST_TIMEOUT_SECONDS;
  made[openid.customFetch] = fetch;
  return made;
}

/** Runs one exchange with the service; its failure becomes an error of the table. */
async function guarded<T>(issuer: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await work();
  } catch (thrown) {
    if (signal.aborted) throw asError(signal.reason, 'cancelled');
    throw loginFailure(thrown, new URL(issuer).host);
  }
}

/** Loads the library; an installation without it cannot sign in, but can do everything else. */
async function library(): Promise<typeof import('openid-client')> {
  try {
    return await import('openid-client');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const install = 'npm install openid-client@6';
    throw fail('not_configured', `signing in needs the package openid-client; run: ${install}`, { install }, cause);
  }
}

/** Returns a failure of the library, in the words of the service where it had some. Tokens and codes are in none of them. */
function loginFailure(thrown: unknown, host: string): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const { error, error_description, code, message } = thrown as Record<string, unknown>;
  const said = [error, error_description].filter((part) => typeof part === 'string').join(': ');
  const why = said === '' ? String(message) : said.slice(0, 300);
  return fail(
    'login_failed',
    `${host}: ${why}`,
    { host, ...(typeof error === 'string' ? { error } : { code }) },
    thrown,
  );
}

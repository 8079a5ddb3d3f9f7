/**
 * Signing in with OAuth 2: authorization code with PKCE, refresh, revocation. The protocol's checks (state, PKCE, issuer,
 * audience and times of the ID token) are the certified library's; this file configures it and turns its failures into ours.
 *
 * Adapter file of `openid-client`, which is loaded with the first sign-in.
 */
import { asError, fail, HandfastError } from '../../../wire/errors.ts';
import { isLoopback } from '../http/endpoints.ts';
import { type Fetch, readBody } from '../http/http-json.ts';

/** A sign-in service and our client there. */
export interface OAuthService {
  readonly issuer: string;
  readonly clientId: string;
  /** Installed applications of Google have one; it is not treated as a secret there. */
  readonly clientSecret?: string;
  readonly scope: string;
  /** Paths below the issuer; undefined = those of its discovery document. */
  readonly paths?: { readonly authorize: string; readonly token: string; readonly revoke: string };
  /** Added to the address the user is sent to. */
  readonly authorizeParameters?: Readonly<Record<string, string>>;
}

/** What a sign-in or a refresh brought. */
export interface Tokens {
  readonly accessToken: string;
  readonly refreshToken?: string;
  /** Undefined = the service did not state it. */
  readonly expiresInSeconds?: number;
  /** Of the ID token; empty when there was none. */
  readonly claims: Readonly<Record<string, unknown>>;
}

export interface OAuthOptions {
  readonly fetch: Fetch;
  /** Ends every request of the client; its reason is what they reject with. */
  readonly signal: AbortSignal;
}

/** One client of one service. Every method fails with `login_failed`, or with the reason of the signal. */
export interface OAuthClient {
  /** Begins a sign-in in a browser that comes back to `redirectUri`. */
  begin(redirectUri: string): Promise<{
    /** Where the user has to go. */
    readonly url: string;
    /** What the callback must carry. */
    readonly state: string;
    /** Ends it with the address the browser came back to. */
    finish(callback: URL): Promise<Tokens>;
  }>;
  /** Exchanges a code that came by another way than a callback. */
  exchange(redirectUri: string, code: string, codeVerifier: string): Promise<Tokens>;
  refresh(refreshToken: string): Promise<Tokens>;
  /** Revokes a token; does nothing where the service has no revocation. */
  revoke(token: string): Promise<void>;
}

/** Longest answer of a sign-in service. */
const MAX_ANSWER_BYTES = 1024 * 1024;
const REQUEST_TIMEOUT_SECONDS = 30;

/** Makes a client; asks the service for its discovery document where its paths are not known. Fails with `login_failed`. */
export async function oauthClient(service: OAuthService, options: OAuthOptions): Promise<OAuthClient> {
  const { issuer, clientId, clientSecret, scope, paths } = service;
  const { signal } = options;
  if (!issuer.startsWith('https:') && !isLoopback(issuer)) {
    throw fail('login_failed', `${new URL(issuer).host}: sign-in needs https`);
  }
  const openid = await library();

  /** Every request ends with our signal, and no answer is read without a bound. */
  const boundedFetch = async (url: string, init: object): Promise<Response> => {
    const given = init as RequestInit;
    const signals = given.signal ? [signal, given.signal] : [signal];
    const response = await options.fetch(url, { ...given, signal: AbortSignal.any(signals) });
    const text = await readBody(response, MAX_ANSWER_BYTES);
    if (text === undefined) throw fail('login_failed', `${new URL(url).host} answered with too much`);
    // Statuses without a body must be made without one.
    const body = response.status === 204 || response.status === 304 ? null : text;
    return new Response(body, { status: response.status, headers: response.headers });
  };

  /** Runs one exchange with the service; its failure becomes one of ours. */
  async function asking<T>(work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (thrown) {
      if (signal.aborted) throw asError(signal.reason, 'cancelled');
      throw loginFailure(thrown, new URL(issuer).host);
    }
  }

  const authentication = clientSecret === undefined ? openid.None() : openid.ClientSecretPost(clientSecret);
  const config = await asking(async () => {
    const insecure = isLoopback(issuer) ? [openid.allowInsecureRequests] : [];
    if (paths === undefined) {
      return openid.discovery(new URL(issuer), clientId, clientSecret, authentication, {
        execute: insecure,
        timeout: REQUEST_TIMEOUT_SECONDS,
        [openid.customFetch]: boundedFetch,
      });
    }
    const made = new openid.Configuration(
      {
        issuer,
        authorization_endpoint: `${issuer}${paths.authorize}`,
        token_endpoint: `${issuer}${paths.token}`,
        revocation_endpoint: `${issuer}${paths.revoke}`,
      },
      clientId,
      clientSecret,
      authentication,
    );
    for (const allow of insecure) allow(made);
    made.timeout = REQUEST_TIMEOUT_SECONDS;
    made[openid.customFetch] = boundedFetch;
    return made;
  });

  type Answer = Awaited<ReturnType<typeof openid.refreshTokenGrant>>;
  const tokensOf = (answer: Answer): Tokens => ({
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token,
    expiresInSeconds: answer.expires_in,
    claims: { ...answer.claims() },
  });

  return {
    async begin(redirectUri) {
      const codeVerifier = openid.randomPKCECodeVerifier();
      const state = openid.randomState();
      const url = openid.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope,
        state,
        code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
        ...service.authorizeParameters,
      });
      const checks = { pkceCodeVerifier: codeVerifier, expectedState: state, idTokenExpected: true };
      return {
        url: url.href,
        state,
        finish: (callback) =>
          asking(async () => tokensOf(await openid.authorizationCodeGrant(config, callback, checks))),
      };
    },
    exchange: (redirectUri, code, codeVerifier) =>
      asking(async () => {
        // The library takes a code from the address it came with; the device flow's code came in a body.
        const callback = new URL(redirectUri);
        callback.searchParams.set('code', code);
        const checks = { pkceCodeVerifier: codeVerifier, idTokenExpected: true };
        return tokensOf(await openid.authorizationCodeGrant(config, callback, checks));
      }),
    refresh: (refreshToken) => asking(async () => tokensOf(await openid.refreshTokenGrant(config, refreshToken))),
    async revoke(token) {
      if (config.serverMetadata().revocation_endpoint === undefined) return;
      await asking(() => openid.tokenRevocation(config, token));
    },
  };
}

/** The library; an installation without it cannot sign in, but can do everything else. */
async function library(): Promise<typeof import('openid-client')> {
  try {
    return await import('openid-client');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const install = 'npm install openid-client@6';
    throw fail('not_configured', `signing in needs the package openid-client; run: ${install}`, { install }, cause);
  }
}

/** A failure of the library, in the words of the service where it had some. Tokens and codes are in none of them. */
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

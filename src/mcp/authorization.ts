/**
 * The tokens of one MCP server over HTTP: read from the file of its sign-in, renewed before they expire and when the
 * server refuses them, once for all processes of the user. `sign-in.ts` handles the steps that need a person.
 *
 * `server.ts` reports `needs_auth`.
 */
import { orAborted } from '../base/race.ts';
import type { Clock } from '../base/timer-queue.ts';
import { fail, HandfastError } from '../wire/errors.ts';
import { checkedFetch } from './checked-fetch.ts';
import { proveClient } from './client-authentication.ts';
import { tokensOfClient } from './client-credentials.ts';
import { issuesOf } from './http-problem.ts';
import { OAuthDocuments } from './oauth-documents.ts';
import { clientOf, type OAuthSettings } from './oauth-settings.ts';
import { loadMcpClient } from './sdk.ts';
import { granted, type SignInFile, type StoredSignIn } from './sign-in-file.ts';

export interface McpAuthorizationOptions {
  /** Name of the server. */
  readonly name: string;
  readonly url: string;
  readonly file: SignInFile;
  readonly settings?: OAuthSettings | undefined;
  /** Returns epoch milliseconds. */
  readonly now?: () => number;
  readonly monotonic?: Clock['monotonic'];
}

/** The demand of a server that refuses a request. */
export interface Challenge {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: URL | undefined;
}

/** Renewed this long before its end: a request takes its time. */
const EARLY_S = 30;
/** Longest renewal, with the wait for that of another process. */
const RENEW_MS = 60_000;
/** Interval after which tokens that other processes store are seen. */
const READ_EVERY_MS = 1_000;

export class McpAuthorization {
  readonly name: string;
  readonly url: string;
  readonly file: SignInFile;
  readonly settings: OAuthSettings;
  readonly #now: () => number;
  readonly #monotonic: () => number;
  #stored: StoredSignIn | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  /** The server refused it, and it cannot be renewed. */
  #refused: string | undefined;
  #renewing: Promise<void> | undefined;

  constructor({
    name,
    url,
    file,
    settings = {},
    now = Date.now,
    monotonic = () => performance.now(),
  }: McpAuthorizationOptions) {
    this.name = name;
    this.url = url;
    this.file = file;
    this.settings = settings;
    this.#now = now;
    this.#monotonic = monotonic;
  }

  /**
   * Returns the token for a request; undefined without a sign-in. Rejects with `unauthorized` if it has expired and
   * cannot be renewed.
   */
  async token(signal: AbortSignal): Promise<string | undefined> {
    const { tokens, expiresAt } = await this.#current();
    if (tokens === undefined) return undefined;
    const canRenew = tokens.refresh_token !== undefined || this.#isAlone;
    const { expires_in: lifetime } = tokens;
    // A token that lives shorter than that is used for half of its life.
    const early = typeof lifetime === 'number' ? Math.min(EARLY_S, lifetime / 2) : EARLY_S;
    if (expiresAt !== undefined && expiresAt - early <= this.#now() / 1_000 && canRenew) {
      await this.#renewOnce(tokens.access_token, signal);
    }
    return this.#stored?.tokens?.access_token;
  }

  /**
   * Handles the server's refusal of `token`: resolves when another token exists. Rejects with `unauthorized` when a
   * person has to sign in, and with `unreachable` when the authorization server does not respond.
   */
  async refused(token: string | undefined, challenge: Challenge, signal: AbortSignal): Promise<void> {
    this.#readAt = Number.NEGATIVE_INFINITY;
    const { tokens } = await this.#current();
    if (tokens !== undefined && tokens.access_token !== token) return;
    if (tokens?.refresh_token === undefined && !this.#isAlone) throw await this.needed(challenge);
    await this.#renewOnce(tokens?.access_token, signal, challenge);
  }

  /** True if no person signs in. */
  get #isAlone(): boolean {
    return this.settings.clientCredentials === true;
  }

  /** Returns the error that a person has to sign in; stores the server's demand for the sign-in. Never rejects. */
  async needed({ scope, resourceMetadataUrl }: Challenge): Promise<HandfastError> {
    const token = this.#stored?.tokens?.access_token;
    this.#refused = token;
    const asked = {
      ...(scope && { scope }),
      ...(resourceMetadataUrl && { resourceMetadataUrl: resourceMetadataUrl.href }),
    };
    const noted = async (stored: StoredSignIn): Promise<StoredSignIn> =>
      JSON.stringify(stored.challenge ?? {}) === JSON.stringify(asked) ? stored : { ...stored, challenge: asked };
    // Without it a sign-in asks the server again.
    await this.file.change(AbortSignal.timeout(RENEW_MS), noted).catch(() => {});
    // The next request must see the result of a sign-in.
    this.#readAt = Number.NEGATIVE_INFINITY;
    return this.#needsSignIn(scope === undefined || token === undefined ? '' : ` for ${scope.slice(0, 100)}`);
  }

  /** Resolves with true if a token exists that was not refused. Never rejects. */
  async hasToken(): Promise<boolean> {
    this.#readAt = Number.NEGATIVE_INFINITY;
    const { tokens } = await this.#current().catch((): StoredSignIn => ({ server: this.url }));
    return tokens !== undefined && tokens.access_token !== this.#refused;
  }

  async #current(): Promise<StoredSignIn> {
    if (this.#stored !== undefined && this.#monotonic() - this.#readAt < READ_EVERY_MS) return this.#stored;
    this.#stored = await this.file.read();
    this.#readAt = this.#monotonic();
    return this.#stored;
  }

  /** Runs one renewal in this process; the lock of the file excludes other processes. */
  async #renewOnce(token: string | undefined, signal: AbortSignal, challenge: Challenge = {}): Promise<void> {
    // The renewal is not the caller's alone, so the caller's end does not end it.
    const bound = AbortSignal.timeout(RENEW_MS);
    this.#renewing ??= (
      this.#isAlone ? this.#ask(token, challenge, bound) : this.#renew(token as string, bound)
    ).finally(() => {
      this.#renewing = undefined;
    });
    try {
      await orAborted(this.#renewing, signal);
    } catch (error) {
      if ((error as HandfastError).code === 'unauthorized') {
        const needed = await this.needed(challenge);
        throw this.#isAlone ? error : needed;
      }
      throw error;
    }
  }

  /** Gets a token by the credentials of the client. */
  async #ask(token: string | undefined, challenge: Challenge, signal: AbortSignal): Promise<void> {
    const sdk = await loadMcpClient();
    this.#stored = await this.file.change(signal, async (stored) => {
      // Another process has got one meanwhile.
      if (stored.tokens !== undefined && stored.tokens.access_token !== token) return stored;
      return { ...(await tokensOfClient(sdk, this, stored, challenge, checkedFetch(this.url, signal), this.#now())) };
    });
    this.#readAt = this.#monotonic();
  }

  async #renew(token: string, signal: AbortSignal): Promise<void> {
    const sdk = await loadMcpClient();
    let failure: HandfastError | undefined;
    this.#stored = await this.file.change(signal, async (stored) => {
      const { expiresAt: _, ...unexpired } = stored;
      const { tokens, client, discovery, ...rest } = unexpired;
      // Another process has renewed it meanwhile.
      if (tokens === undefined || tokens.access_token !== token) return stored;
      const { refresh_token: refreshToken } = tokens;
      if (refreshToken === undefined || client === undefined || discovery === undefined) {
        failure = this.#needsSignIn();
        return stored;
      }
      const { authorizationServerUrl, authorizationServerMetadata, resourceMetadata } = discovery as {
        readonly authorizationServerUrl: string;
        readonly authorizationServerMetadata?: { readonly token_endpoint_auth_methods_supported?: readonly string[] };
        readonly resourceMetadata?: { readonly resource: string };
      };
      try {
        const renewed = await sdk.refreshAuthorization(authorizationServerUrl, {
          ...(authorizationServerMetadata && { metadata: authorizationServerMetadata as never }),
          clientInformation: clientOf(client, this.settings) as never,
          addClientAuthentication: (headers, params) =>
            proveClient(
              clientOf(client, this.settings),
              authorizationServerMetadata?.token_endpoint_auth_methods_supported,
              headers,
              params,
            ),
          refreshToken,
          ...(resourceMetadata && { resource: resourceMetadata.resource as never }),
          fetchFn: new OAuthDocuments(this.url, checkedFetch(this.url, signal)).fetch as never,
        });
        // A reply without a lifetime ends that of before.
        return { ...unexpired, ...granted({ scope: tokens.scope, ...renewed }, this.#now()) };
      } catch (thrown) {
        const { code, message } = thrown as { readonly code?: unknown; readonly message: string };
        if (code === 'invalid_grant') {
          failure = this.#needsSignIn();
          return { ...rest, client, discovery };
        }
        if (code === 'invalid_client' || code === 'unauthorized_client') {
          failure = this.#needsSignIn();
          return { ...rest, discovery };
        }
        if (thrown instanceof HandfastError && thrown.code !== 'login_failed') throw thrown;
        throw fail('unreachable', `the sign-in cannot be renewed now: ${issuesOf(message)}`, {}, thrown);
      }
    });
    this.#readAt = this.#monotonic();
    if (failure !== undefined) throw failure;
    if (this.#stored.tokens === undefined) throw this.#needsSignIn();
  }

  #needsSignIn(what = ''): HandfastError {
    if (this.#isAlone) return fail('unauthorized', `it refuses the credentials of the configuration${what}`);
    return fail('unauthorized', `it asks for a sign-in${what}: handfast mcp login ${this.name}`);
  }
}

/**
 * The providers that can be used, and their credential: the stored one, else the key in the environment. Renews the tokens of
 * sign-ins before they end.
 */
import type { Log } from '../../../base/log.ts';
import { orAborted } from '../../../base/race.ts';
import { headerProblem } from '../../../base/secret-text.ts';
import { type CredentialSource, PROVIDERS, type Provider } from '../../../protocol/session-types.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import type { Endpoints, LoginProvider } from '../http/endpoints.ts';
import type { Fetch } from '../http/http-json.ts';
import type { Credential, CredentialStore, SignIn } from './credentials.ts';
import { loginService } from './login-service.ts';
import { oauthClient } from './oauth.ts';
import { accountOf, expiryOf } from './token-claims.ts';

/** A token that ends sooner than this is renewed first, so that it does not end while a request is sent. */
const RENEW_BEFORE_MS = 60_000;
/** Longest time a revocation may take. */
const REVOKE_TIMEOUT_MS = 5_000;

export interface AccountOptions {
  readonly endpoints: Endpoints;
  readonly credentials: CredentialStore;
  readonly fetch: Fetch;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
}

/** The protocol's message for a chosen model without a credential. */
const NO_CREDENTIAL: Readonly<Record<Provider, string>> = {
  openai: 'openai model selected, but no chatgpt oauth token is available',
  openrouter: 'openrouter model selected, but no openrouter api key is available',
  antigravity: 'antigravity model selected, but no antigravity oauth token is available',
  anthropic: 'anthropic model selected, but no anthropic api key is available',
  google: 'google model selected, but no google api key is available',
  compatible: 'compatible model selected, but no address is configured for it',
};

const absent = (provider: Provider): Error => fail('not_configured', NO_CREDENTIAL[provider], { provider });

export class Accounts {
  readonly #options: AccountOptions;
  /** Running renewals: every request that needs the token waits for the same one. */
  readonly #renewals = new Map<Provider, Promise<SignIn>>();

  constructor(options: AccountOptions) {
    this.#options = options;
  }

  /** Returns the credential in force: the stored one, else the environment's key. */
  credential(provider: Provider): Credential | undefined {
    const { credentials, endpoints } = this.#options;
    const stored = credentials.get(provider);
    if (stored !== undefined || provider === 'antigravity') return stored;
    const { key, baseUrl } = endpoints.api[provider];
    // A user's private server often needs no key; its address alone enables it.
    if (provider === 'compatible') return baseUrl === undefined ? undefined : { kind: 'api_key', key: key ?? '' };
    return key === undefined ? undefined : { kind: 'api_key', key };
  }

  /**
   * Returns the credential source that enables a provider, and the variable that holds its key; undefined = it is not enabled.
   */
  source(provider: Provider): { readonly kind: CredentialSource; readonly variable?: string } | undefined {
    const { credentials, endpoints } = this.#options;
    const stored = credentials.get(provider);
    if (stored !== undefined) return { kind: stored.kind === 'oauth' ? 'sign_in' : 'stored_key' };
    if (provider === 'antigravity' || !this.isEnabled(provider)) return undefined;
    const { keyEnv: variable } = endpoints.api[provider];
    return variable === undefined ? { kind: 'address' } : { kind: 'environment', variable };
  }

  /** Returns the variables that a key is read from, the one that holds it first. */
  variables(provider: Provider): readonly string[] {
    if (provider === 'antigravity') return [];
    const { keyEnv, keyEnvs } = this.#options.endpoints.api[provider];
    return keyEnv === undefined ? keyEnvs : [keyEnv, ...keyEnvs.filter((name) => name !== keyEnv)];
  }

  isEnabled(provider: Provider): boolean {
    return this.credential(provider) !== undefined;
  }

  /** Returns the enabled providers, in the protocol's order. */
  enabled(): readonly Provider[] {
    return PROVIDERS.filter((provider) => this.isEnabled(provider));
  }

  /** True while a sign-in (not a key) is stored. */
  isSignedIn(provider: LoginProvider): boolean {
    return this.#options.credentials.get(provider)?.kind === 'oauth';
  }

  /**
   * Address and credential of a provider; renews a token that is about to end. Fails with `not_configured` or
   * `login_failed`.
   */
  async access(provider: Provider, signal?: AbortSignal): Promise<ProviderAccess> {
    const credential = this.credential(provider);
    if (credential === undefined) throw absent(provider);
    const baseUrl = this.baseUrl(provider, credential);
    if (credential.kind === 'api_key') {
      this.#mustBeSendable(provider, credential.key);
      return { baseUrl, token: credential.key, kind: 'api_key', headers: {} };
    }
    const { accessToken, accountId, project } = await this.#valid(provider as LoginProvider, credential, signal);
    const headers: Record<string, string> = {};
    if (provider === 'openai' && accountId !== undefined) headers['chatgpt-account-id'] = accountId;
    return { baseUrl, token: accessToken, kind: 'oauth', headers, project };
  }

  /**
   * Fails with `login_failed` for a key that cannot be sent: a key of the environment, or one that was stored elsewhere, was
   * not checked before.
   */
  #mustBeSendable(provider: Provider, key: string): void {
    const problem = headerProblem(key);
    if (problem === undefined) return;
    const { variable } = this.source(provider) ?? {};
    const where = variable === undefined ? `the key of ${provider}` : `the key of ${provider} in ${variable}`;
    throw fail('login_failed', `${where} has ${problem}; set the key alone`, { provider });
  }

  /** Returns the address of a provider with this credential. Fails with `not_configured` without an address. */
  baseUrl(provider: Provider, credential: Credential | undefined): string {
    const { endpoints } = this.#options;
    if (provider === 'antigravity') return endpoints.antigravity.cloudCodeUrl;
    if (provider === 'openai' && credential?.kind === 'oauth') return `${endpoints.openai.chatgptUrl}/codex`;
    const given = credential?.kind === 'api_key' ? credential.baseUrl : undefined;
    const address = given ?? endpoints.api[provider].baseUrl;
    if (address === undefined) throw absent(provider);
    return address;
  }

  /** Revokes the tokens of a sign-in at its service. Bounded, never rejects. */
  async revoke(provider: Provider, credential: Credential): Promise<void> {
    if (credential.kind !== 'oauth') return;
    const { endpoints, fetch, log, stopping } = this.#options;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(REVOKE_TIMEOUT_MS)]);
    try {
      const client = await oauthClient(loginService(provider as LoginProvider, endpoints), { fetch, signal });
      await client.revoke(credential.refreshToken ?? credential.accessToken);
    } catch (thrown) {
      log.info('a sign-in could not be revoked at its service', { provider, reason: (thrown as Error).message });
    }
  }

  /** Returns the sign-in with a token that is valid now. */
  async #valid(provider: LoginProvider, signIn: SignIn, signal: AbortSignal | undefined): Promise<SignIn> {
    const { credentials, log, now } = this.#options;
    if (signIn.expiresAt - now() > RENEW_BEFORE_MS) return signIn;
    const ended = `the sign-in to ${provider} has ended; sign in again`;
    if (signIn.refreshToken === undefined) throw fail('login_failed', ended, { provider });
    try {
      // A caller that cancels stops waiting; the renewal continues for the others.
      return await orAborted(this.#renew(provider, signIn), signal);
    } catch (thrown) {
      const error = asError(thrown, 'login_failed');
      if (error.code !== 'login_failed') throw error;
      if (credentials.get(provider) !== signIn) return this.#replacement(provider, signIn);
      log.warn('a sign-in could not be renewed', { provider, reason: error.message });
      if (error.detail.error !== 'invalid_grant') throw error;
      throw fail('login_failed', ended, { provider }, error);
    }
  }

  /** Returns the renewed sign-in, stored. One request at a time per provider. */
  #renew(provider: LoginProvider, signIn: SignIn): Promise<SignIn> {
    const running = this.#renewals.get(provider);
    if (running !== undefined) return running;
    const renewal = this.#renewed(provider, signIn).finally(() => this.#renewals.delete(provider));
    this.#renewals.set(provider, renewal);
    return renewal;
  }

  async #renewed(provider: LoginProvider, signIn: SignIn): Promise<SignIn> {
    const { endpoints, credentials, fetch, now, stopping } = this.#options;
    const client = await oauthClient(loginService(provider, endpoints), { fetch, signal: stopping });
    const tokens = await client.refresh(signIn.refreshToken!);
    const renewed: SignIn = {
      ...signIn,
      accessToken: tokens.accessToken,
      // Services that rotate refresh tokens send the next one; with others the old one stays valid.
      refreshToken: tokens.refreshToken ?? signIn.refreshToken,
      expiresAt: expiryOf(tokens, now()),
      accountId: signIn.accountId ?? accountOf(tokens),
    };
    if (await credentials.set(provider, renewed, signIn)) return renewed;
    // A sign-out while this ran wins: its credential must not come back, here or at the service.
    await this.revoke(provider, renewed);
    return this.#replacement(provider, signIn);
  }

  /** Returns the sign-in that replaced another one. Fails with `not_configured` when none did. */
  #replacement(provider: LoginProvider, replaced: SignIn): SignIn {
    const current = this.#options.credentials.get(provider);
    if (current?.kind !== 'oauth' || current === replaced) throw absent(provider);
    return current;
  }
}

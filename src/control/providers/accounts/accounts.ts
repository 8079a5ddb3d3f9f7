/**
 * Which providers can be used, and with what: the stored credential, else the key in the environment. Renews the tokens
 * of sign-ins before they end.
 *
 * Used by everything in this folder that asks a provider something, and by the model backend through `Providers`.
 */

import type { Log } from '../../../base/log.ts';
import { orAborted } from '../../../base/race.ts';
import { PROVIDERS, type Provider } from '../../../protocol/session-types.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import type { Endpoints, LoginProvider } from '../http/endpoints.ts';
import type { Fetch } from '../http/http-json.ts';
import type { Credential, CredentialStore, SignIn } from './credentials.ts';
import { type OAuthService, oauthClient } from './oauth.ts';
import { accountOf, expiryOf } from './token-claims.ts';

/** A token that ends sooner than this is renewed first: a request must not outlive it on its way. */
const RENEW_BEFORE_MS = 60_000;
/** How long telling a service that a token is no longer wanted may take. */
const REVOKE_TIMEOUT_MS = 5_000;

export interface Accounts {
  /** The credential in force: the stored one, else the environment's key. */
  credential(provider: Provider): Credential | undefined;
  isEnabled(provider: Provider): boolean;
  /** In the protocol's order. */
  enabled(): readonly Provider[];
  /** True while a sign-in (not a key) is there. */
  isSignedIn(provider: LoginProvider): boolean;
  /** Where and with what a provider is asked; renews a token that is about to end. Fails with `not_configured` or `login_failed`. */
  access(provider: Provider, signal?: AbortSignal): Promise<ProviderAccess>;
  /** Address of a provider with this credential. Fails with `not_configured` when there is none. */
  baseUrl(provider: Provider, credential: Credential | undefined): string;
  /** Tells the service of a sign-in that its tokens are no longer wanted. Bounded, never rejects. */
  revoke(provider: Provider, credential: Credential): Promise<void>;
}

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

/** Our client at a provider's sign-in service. Fails with `not_configured` where the operator has to bring one. */
export function loginService(provider: LoginProvider, endpoints: Endpoints, originator = 'handfast'): OAuthService {
  if (provider === 'openai') {
    const { issuer, clientId } = endpoints.openai;
    return {
      issuer,
      clientId,
      scope: 'openid profile email offline_access',
      paths: { authorize: '/oauth/authorize', token: '/oauth/token', revoke: '/oauth/revoke' },
      authorizeParameters: { id_token_add_organizations: 'true', codex_cli_simplified_flow: 'true', originator },
    };
  }
  const { issuer, clientId, clientSecret } = endpoints.antigravity;
  if (clientId === undefined) {
    throw fail(
      'not_configured',
      'signing in to antigravity needs an OAuth client of the type "desktop": set providers.antigravity.client_id ' +
        'or HANDFAST_GOOGLE_CLIENT_ID',
      { provider },
    );
  }
  return {
    issuer,
    clientId,
    clientSecret,
    scope: 'openid email profile https://www.googleapis.com/auth/cloud-platform',
    // Without both Google hands out a refresh token only the first time.
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  };
}

/** What the protocol says when a chosen model has no credential. */
const NO_CREDENTIAL: Readonly<Record<Provider, string>> = {
  openai: 'openai model selected, but no chatgpt oauth token is available',
  openrouter: 'openrouter model selected, but no openrouter api key is available',
  antigravity: 'antigravity model selected, but no antigravity oauth token is available',
  anthropic: 'anthropic model selected, but no anthropic api key is available',
  google: 'google model selected, but no google api key is available',
  compatible: 'compatible model selected, but no address is configured for it',
};

const absent = (provider: Provider): Error => fail('not_configured', NO_CREDENTIAL[provider], { provider });

export function createAccounts(options: AccountOptions): Accounts {
  const { endpoints, credentials, fetch, log, now, stopping } = options;
  /** Renewals under way: everybody who needs the token waits for the same one. */
  const renewals = new Map<Provider, Promise<SignIn>>();

  function credential(provider: Provider): Credential | undefined {
    const stored = credentials.get(provider);
    if (stored !== undefined || provider === 'antigravity') return stored;
    const { key, baseUrl } = endpoints.api[provider];
    // A server of one's own often needs no key; its address alone enables it.
    if (provider === 'compatible') return baseUrl === undefined ? undefined : { kind: 'api_key', key: key ?? '' };
    return key === undefined ? undefined : { kind: 'api_key', key };
  }

  function baseUrl(provider: Provider, held: Credential | undefined): string {
    if (provider === 'antigravity') return endpoints.antigravity.cloudCodeUrl;
    if (provider === 'openai' && held?.kind === 'oauth') return `${endpoints.openai.chatgptUrl}/codex`;
    const address = (held?.kind === 'api_key' ? held.baseUrl : undefined) ?? endpoints.api[provider].baseUrl;
    if (address === undefined) throw absent(provider);
    return address;
  }

  async function revoke(provider: Provider, held: Credential): Promise<void> {
    if (held.kind !== 'oauth') return;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(REVOKE_TIMEOUT_MS)]);
    try {
      const client = await oauthClient(loginService(provider as LoginProvider, endpoints), { fetch, signal });
      await client.revoke(held.refreshToken ?? held.accessToken);
    } catch (thrown) {
      log.info('a sign-in could not be revoked at its service', { provider, reason: (thrown as Error).message });
    }
  }

  /** The sign-in that stands in the place of one that is gone. Fails with `not_configured` when there is none. */
  function replacement(provider: LoginProvider, gone: SignIn): SignIn {
    const current = credentials.get(provider);
    if (current?.kind !== 'oauth' || current === gone) throw absent(provider);
    return current;
  }

  /** The renewed sign-in, stored. One request at a time per provider, whoever asks. */
  function renew(provider: LoginProvider, held: SignIn): Promise<SignIn> {
    const running = renewals.get(provider);
    if (running !== undefined) return running;
    const renewal = (async () => {
      const client = await oauthClient(loginService(provider, endpoints), { fetch, signal: stopping });
      const tokens = await client.refresh(held.refreshToken!);
      const renewed: SignIn = {
        ...held,
        accessToken: tokens.accessToken,
        // Services that rotate refresh tokens send the next one; others mean the old one to go on.
        refreshToken: tokens.refreshToken ?? held.refreshToken,
        expiresAt: expiryOf(tokens, now()),
        accountId: held.accountId ?? accountOf(tokens),
      };
      if (!(await credentials.set(provider, renewed, held))) {
        // A sign-out while this ran wins: its credential must not come back, here or at the service.
        await revoke(provider, renewed);
        return replacement(provider, held);
      }
      return renewed;
    })().finally(() => renewals.delete(provider));
    renewals.set(provider, renewal);
    return renewal;
  }

  /** The sign-in with a token that is valid now. */
  async function valid(provider: LoginProvider, held: SignIn, signal: AbortSignal | undefined): Promise<SignIn> {
    if (held.expiresAt - now() > RENEW_BEFORE_MS) return held;
    const ended = `the sign-in to ${provider} has ended; sign in again`;
    if (held.refreshToken === undefined) throw fail('login_failed', ended, { provider });
    try {
      // Who gives up stops waiting; the renewal goes on for the others.
      return await orAborted(renew(provider, held), signal);
    } catch (thrown) {
      const error = asError(thrown, 'login_failed');
      if (error.code !== 'login_failed') throw error;
      if (credentials.get(provider) !== held) return replacement(provider, held);
      log.warn('a sign-in could not be renewed', { provider, reason: error.message });
      if (error.detail.error !== 'invalid_grant') throw error;
      throw fail('login_failed', ended, { provider }, error);
    }
  }

  return {
    credential,
    baseUrl,
    isEnabled: (provider) => credential(provider) !== undefined,
    enabled: () => PROVIDERS.filter((provider) => credential(provider) !== undefined),
    isSignedIn: (provider) => credentials.get(provider)?.kind === 'oauth',
    async access(provider, signal) {
      const held = credential(provider);
      if (held === undefined) throw absent(provider);
      const address = baseUrl(provider, held);
      if (held.kind === 'api_key') return { baseUrl: address, token: held.key, kind: 'api_key', headers: {} };
      const { accessToken, accountId, project } = await valid(provider as LoginProvider, held, signal);
      const headers: Record<string, string> = {};
      if (provider === 'openai' && accountId !== undefined) headers['chatgpt-account-id'] = accountId;
      return { baseUrl: address, token: accessToken, kind: 'oauth', headers, project };
    },
    revoke,
  };
}

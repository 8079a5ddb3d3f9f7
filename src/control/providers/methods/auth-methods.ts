/**
 * The methods of session RPC about credentials: signing in and out, keys, and the set-up.
 *
 * A method that changes something emits `state.changed` before it replies. The profile of a provider's account goes only to
 * calls of its owner, never into `state.changed`, which reaches every client.
 *
 * @see docs/protocol/session-rpc.md#auth
 */
import { headerProblem } from '../../../base/secret-text.ts';
import {
  type AuthStatus,
  authCancel,
  authLogout,
  authSetKey,
  authStatus,
  connectAntigravity,
  connectOpenai,
  onboardingComplete,
  onboardingStatus,
  setExaKey,
  setOpenrouterKey,
} from '../../../protocol/session-rpc.ts';
import { type AntigravityProfile, PROVIDERS, type Provider } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { may } from '../../../session/rights.ts';
import { fail, HandfastError } from '../../../wire/errors.ts';
import type { ServerEvents } from '../../contract/events.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { ApiKey, CredentialStore } from '../accounts/credentials.ts';
import { checkedUrl, type KeyProvider, type LoginProvider } from '../http/endpoints.ts';
import type { Fetch } from '../http/http-json.ts';
import type { Catalogue, RowSource } from '../models/catalogue.ts';
import { verifyKey } from '../models/model-sources.ts';
import type { ChoiceStore } from '../models/stored-choices.ts';
import { thinkingFor } from '../models/thinking.ts';
import type { Connected } from '../sign-in/login.ts';
import type { LoginFlows } from '../sign-in/login-flows.ts';
import { LOGIN_MODES, type LoginMode } from '../sign-in/openai-login.ts';

export interface AuthDeps {
  readonly accounts: Accounts;
  readonly credentials: CredentialStore;
  readonly choices: ChoiceStore;
  readonly catalogue: Catalogue;
  readonly flows: LoginFlows;
  readonly serverEvents: ServerEvents;
  readonly fetch: Fetch;
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
  /** Emits `state.changed`. */
  stateChanged(reason: string): void;
}

/** Returns the account of an Antigravity sign-in, for the principal that signed in and for administrators; null for others. */
export function profileFor(credentials: CredentialStore, viewer: Principal | undefined): AntigravityProfile | null {
  const signIn = credentials.get('antigravity');
  if (signIn?.kind !== 'oauth' || viewer === undefined) return null;
  return may(viewer, 'administer') || viewer.name === signIn.connectedBy ? (signIn.profile ?? null) : null;
}

/** `auth.*` and `onboarding.*`. */
export function authHandlers(deps: AuthDeps): readonly Handled[] {
  return [...signInHandlers(deps), ...keyHandlers(deps), ...onboardingHandlers(deps)];
}

function signInHandlers(deps: AuthDeps): readonly Handled[] {
  const { accounts, credentials, flows, serverEvents, stateChanged } = deps;
  return [
    handles(
      authStatus,
      (_params, { caller }): AuthStatus => ({
        enabled_providers: accounts.enabled(),
        has_openai_token: accounts.isSignedIn('openai'),
        has_openrouter_key: accounts.isEnabled('openrouter'),
        has_antigravity_token: accounts.isSignedIn('antigravity'),
        antigravity_profile: profileFor(credentials, caller.principal),
      }),
    ),

    handles(connectOpenai, ({ mode = 'auto', originator }, call) => {
      if (!LOGIN_MODES.includes(mode as LoginMode)) {
        throw fail('schema_violation', `mode must be one of: ${LOGIN_MODES.join(', ')}`, { field: 'mode' });
      }
      return flows.openai(mode as LoginMode, originator, call, async (done) => {
        await storeSignIn('openai', done, deps);
        const account_id = done.signIn.accountId ?? null;
        const result = { provider: 'openai', login_method: done.method, account_id } as const;
        serverEvents.emit('auth.flow.completed', result, call.caller.principal.name);
        stateChanged('auth_openai_connected');
        return result;
      });
    }),

    handles(connectAntigravity, (_params, call) =>
      flows.antigravity(call, async (done) => {
        await storeSignIn('antigravity', done, deps);
        const completed = { provider: 'antigravity', profile: null } as const;
        serverEvents.emit('auth.flow.completed', completed, call.caller.principal.name);
        stateChanged('auth_antigravity_connected');
        return { provider: 'antigravity', profile: done.signIn.profile ?? null } as const;
      }),
    ),

    handles(authCancel, ({ provider }, { caller }) => {
      if (provider !== undefined) requireProvider(provider);
      return { cancelled: flows.cancel(provider as LoginProvider | undefined, caller.principal) };
    }),

    handles(authLogout, async ({ provider: given }, { caller }) => {
      const provider = requireProvider(given);
      flows.cancel(provider as LoginProvider, caller.principal);
      const credential = credentials.get(provider);
      if (credential === undefined) return { provider, removed: false };
      await credentials.set(provider, undefined);
      stateChanged('auth_logged_out');
      await accounts.revoke(provider, credential);
      return { provider, removed: true };
    }),
  ];
}

function keyHandlers(deps: AuthDeps): readonly Handled[] {
  const { accounts, credentials, stateChanged } = deps;
  return [
    handles(setOpenrouterKey, async ({ api_key: key }, call) => {
      requireSendable(key);
      return {
        configured: true,
        ...(await storeKey('openrouter', { kind: 'api_key', key }, 'openrouter_key_updated', call, deps)),
      };
    }),

    handles(setExaKey, async ({ api_key: key }) => {
      requireSendable(key);
      const skipped = key.toLowerCase() === 'skip';
      await credentials.set('exa', skipped ? undefined : { kind: 'api_key', key });
      stateChanged(skipped ? 'exa_key_skipped' : 'exa_key_updated');
      return { configured: !skipped, skipped };
    }),

    handles(authSetKey, async ({ provider: given, api_key: key, base_url: address }, call) => {
      const provider = requireProvider(given);
      requireSendable(key);
      if (provider === 'antigravity') {
        throw fail('schema_violation', 'antigravity takes no key; sign in with auth.connect.antigravity', {
          field: 'provider',
        });
      }
      const baseUrl = address === undefined ? undefined : addressOf(address);
      if (provider === 'compatible' && (baseUrl ?? accounts.credential(provider)) === undefined) {
        throw fail('schema_violation', 'base_url is required for provider compatible', { field: 'base_url' });
      }
      const reason = provider === 'openrouter' ? 'openrouter_key_updated' : 'api_key_updated';
      const { source: _, ...rest } = await storeKey(provider, { kind: 'api_key', key, baseUrl }, reason, call, deps);
      return { provider, configured: true as const, ...rest };
    }),
  ];
}

/** Fails with `schema_violation` for a key that cannot go into a header. */
function requireSendable(key: string): void {
  const problem = headerProblem(key);
  if (problem !== undefined)
    throw fail('schema_violation', `api_key has ${problem}; send the key alone`, { field: 'api_key' });
}

function onboardingHandlers({ choices, stateChanged }: AuthDeps): readonly Handled[] {
  return [
    handles(onboardingStatus, () => ({ completed: choices.current.onboarded })),

    handles(onboardingComplete, async () => {
      await choices.update((now) => ({ ...now, onboarded: true }));
      stateChanged('onboarding_complete');
      return { completed: true } as const;
    }),
  ];
}

/** Stores a sign-in, and selects a model where none is selected, so that the user can send a prompt at once. */
async function storeSignIn(
  provider: LoginProvider,
  { signIn }: Connected,
  { accounts, credentials, choices, catalogue, stopping }: AuthDeps,
): Promise<void> {
  await credentials.set(provider, signIn);
  await catalogue.refresh(provider, await accounts.access(provider), stopping);
  const first = catalogue.models(provider)[0];
  if (first === undefined || choices.current.selected !== undefined) return;
  await choices.update((now) => {
    const thinking = thinkingFor(first, first.defaultThinkingLevel ?? '');
    return { ...now, selected: now.selected ?? { model: first.id, provider, thinking, openRouterProvider: 'any' } };
  });
}

/** Stores a key, then verifies it with its provider: a key that cannot be verified now may still be valid. */
async function storeKey(
  provider: KeyProvider,
  credential: ApiKey,
  reason: string,
  call: RpcCall,
  { accounts, credentials, catalogue, fetch, stopping, stateChanged }: AuthDeps,
): Promise<{ model_count: number; source: RowSource; verified: boolean | null; message?: string }> {
  const baseUrl = accounts.baseUrl(provider, credential);
  const access = { baseUrl, token: credential.key, kind: 'api_key' as const, headers: {} };
  await credentials.set(provider, credential);
  const signal = AbortSignal.any([call.signal, stopping]);
  try {
    const [verdict, list] = await Promise.all([
      verifyKey(provider, access, { fetch, signal }),
      catalogue.refresh(provider, access, signal),
    ]);
    const refused = list.failure instanceof HandfastError && [401, 403].includes(Number(list.failure.detail.status));
    const verified = verdict.verified ?? (refused ? false : null);
    const message = verified === true ? undefined : (verdict.message ?? list.failure?.message);
    return { model_count: list.count, source: list.source, verified, ...(message === undefined ? {} : { message }) };
  } finally {
    // Also when the caller cancelled meanwhile: the key is stored.
    stateChanged(reason);
  }
}

/** Fails with `schema_violation`, in the protocol's words, for an unknown provider. */
export function requireProvider(name: string): Provider {
  if (PROVIDERS.includes(name as Provider)) return name as Provider;
  throw fail('schema_violation', 'provider must be one of: openai, openrouter, antigravity', { field: 'provider' });
}

function addressOf(address: string): string {
  try {
    return checkedUrl(address, 'base_url');
  } catch (cause) {
    throw fail('schema_violation', (cause as Error).message, { field: 'base_url' }, cause);
  }
}

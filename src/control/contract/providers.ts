/**
 * The interface of the settings for the model backend: the model, its credentials, its address. `settings.ts` implements it.
 */
import type { ModelOption, Provider, SessionSettings, Thinking } from '../../protocol/session-types.ts';

/** The model a turn uses. */
export interface ModelChoice {
  readonly provider: Provider;
  readonly model: string;
  readonly thinking: Thinking;
  /** `any`, or the name of a provider on OpenRouter. */
  readonly openRouterProvider: string;
  /** Known facts of the model; undefined = not in the catalogue. */
  readonly option: ModelOption | undefined;
}

/** Access to a provider. Never logged, journaled or sent. */
export interface ProviderAccess {
  /** Without a final slash. */
  readonly baseUrl: string;
  /** An API key, or an OAuth access token that is valid now. */
  readonly token: string;
  readonly kind: 'api_key' | 'oauth';
  /** Extra headers of every request, e.g. the account of a ChatGPT login. */
  readonly headers: Readonly<Record<string, string>>;
  /** `antigravity`: the Cloud project its requests run in, where the account has one. */
  readonly project?: string;
}

export interface Providers {
  /** Returns the session's choice, else the server's; undefined = none made. */
  choose(settings: SessionSettings): ModelChoice | undefined;
  /**
   * Looks whether a choice could be used, without the network. Throws `not_configured` with the protocol's words: no model
   * chosen, provider not enabled, no credential.
   */
  check(choice: ModelChoice | undefined): asserts choice is ModelChoice;
  /** Address and credential; refreshes an OAuth token that is about to end. Fails with `not_configured` or `login_failed`. */
  access(provider: Provider, signal?: AbortSignal): Promise<ProviderAccess>;
  /** True when some provider can be used at all. */
  readonly configured: boolean;
}

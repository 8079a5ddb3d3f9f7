/**
 * Settings of the control edge: credentials, sign-ins, the chosen model, the models to choose from, limits. One data directory,
 * one server: everything below `home` is this process's alone until `stop`.
 *
 * It gives the rpc part its handlers and the model backend its `Providers`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../base/log.ts';
import { ensurePrivateFolder } from '../../base/private-file.ts';
import type { ShareUsage } from '../../base/share-usage.ts';
import { SharedSlots, type SlotLimits } from '../../base/shared-slots.ts';
import { handfastDefaults } from '../../config/defaults.generated.ts';
import { limitsGet } from '../../protocol/session-rpc.ts';
import type { Provider, SessionSettings, Snapshot } from '../../protocol/session-types.ts';
import type { Principal } from '../../session/principal.ts';
import { asError, fail } from '../../wire/errors.ts';
import type { ServerEvents } from '../contract/events.ts';
import { type Handled, handles } from '../contract/handlers.ts';
import type { ModelChoice, ProviderAccess, Providers } from '../contract/providers.ts';
import { Accounts } from './accounts/accounts.ts';
import { CredentialStore } from './accounts/credentials.ts';
import { chosenKeyring, type Keyring } from './accounts/keyring.ts';
import { acquireDataLock } from './data-lock.ts';
import { type Endpoints, type Environment, type ProvidersConfig, resolveEndpoints } from './http/endpoints.ts';
import type { Fetch } from './http/http-json.ts';
import { authHandlers, profileFor } from './methods/auth-methods.ts';
import { readLimits } from './methods/limits.ts';
import { checkChoice, decideModel } from './methods/model-choice.ts';
import { type ModelDeps, modelHandlers } from './methods/model-methods.ts';
import { Catalogue } from './models/catalogue.ts';
import { type ChoiceStore, openChoices } from './models/stored-choices.ts';
import { FIRST_THINKING } from './models/thinking.ts';
import { LoginFlows } from './sign-in/login-flows.ts';

export interface SettingsOptions {
  /** The data directory; made if need be. Usually `handfastHome(env)`. */
  readonly home: string;
  readonly env: Environment;
  /** The `providers` section of the configuration. */
  readonly config?: ProvidersConfig;
  /** `control.model` of the configuration: `ID` or `PROVIDER/ID`. Wins over the stored choice. */
  readonly model?: string | undefined;
  readonly serverEvents: ServerEvents;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  readonly fetch?: Fetch;
  /** Null = none. Default: the operating system's, unless the configuration or `HANDFAST_KEYRING=off` disables it. */
  readonly keyring?: Keyring | null;
  readonly platform?: NodeJS.Platform;
  /** Concurrency limit of sign-ins. Default: that of a configuration without `limits`. */
  readonly signIns?: Omit<SlotLimits, 'queuePerOwner'>;
  /** Waits; rejects with the reason of the signal. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** The part of the rest of the server that the methods of the settings need. */
export type SettingsHandlerDeps = Pick<
  ModelDeps,
  'backendOf' | 'backends' | 'checkSession' | 'compress' | 'configure' | 'stateChanged'
>;

/** The parts that settings are made of. */
interface Parts {
  readonly endpoints: Endpoints;
  readonly credentials: CredentialStore;
  readonly choices: ChoiceStore;
  readonly catalogue: Catalogue;
  readonly accounts: Accounts;
  readonly flows: LoginFlows;
  readonly signIns: SharedSlots;
  readonly serverEvents: ServerEvents;
  readonly fetch: Fetch;
  readonly configured: string | undefined;
}

const { maxSignIns, maxSignInsPerPrincipal } = handfastDefaults.limits;
const DEFAULT_SIGN_INS = { total: maxSignIns, perOwner: maxSignInsPerPrincipal };

const LOGIN_PROVIDERS = ['openai', 'antigravity'] as const;

/**
 * Opens the settings of a data directory. Fails with `journal_locked` when another process has it, with `config_invalid`
 * when the directory or the configuration cannot be used.
 */
export async function createSettings(options: SettingsOptions): Promise<Settings> {
  const { home, env, config = {}, serverEvents, log } = options;
  const { now = Date.now, fetch = globalThis.fetch, platform = process.platform, wait = waitFor } = options;
  const endpoints = resolveEndpoints(config, env);
  await ensurePrivateFolder(home);
  const unlock = acquireDataLock(home);
  try {
    const stop = new AbortController();
    const stopping = stop.signal;
    const keyring = options.keyring === undefined ? chosenKeyring(config.keyring, env) : (options.keyring ?? undefined);
    const credentials = await CredentialStore.open({ home, keyring, log });
    const choices = await openChoices(home, log);
    const { compatibleModels } = endpoints;
    const catalogue = await Catalogue.open({ home, fetch, log, now, compatibleModels });
    const accounts = new Accounts({ endpoints, credentials, fetch, log, now, stopping });
    // No sign-in is queued: a user who is shown a code wants it now.
    const signIns = new SharedSlots('sign_ins', { ...(options.signIns ?? DEFAULT_SIGN_INS), queuePerOwner: 0 });
    const deps = { endpoints, serverEvents, fetch, log, env, platform, now, wait, stopping };
    const flows = new LoginFlows({ ...deps, slots: signIns });
    const started = refreshOldLists(accounts, catalogue, stopping, log);
    const parts = {
      endpoints,
      credentials,
      choices,
      catalogue,
      accounts,
      flows,
      signIns,
      serverEvents,
      fetch,
      configured: options.model,
    };
    return new Settings(parts, started, stop, unlock);
  } catch (thrown) {
    unlock();
    throw thrown;
  }
}

export class Settings implements Providers {
  /** Resolves once the lists that were old at the start have been read, or could not be. */
  readonly started: Promise<void>;
  readonly #parts: Parts;
  readonly #stop: AbortController;
  readonly #unlock: () => void;
  #stopped: Promise<void> | undefined;

  constructor(parts: Parts, started: Promise<void>, stop: AbortController, unlock: () => void) {
    this.#parts = parts;
    this.started = started;
    this.#stop = stop;
    this.#unlock = unlock;
  }

  /** Sign-ins that run, by principal. */
  get signIns(): ShareUsage {
    return this.#parts.signIns.usage;
  }

  /** `auth.*`, `onboarding.*`, `model.*`, `limits.get`. */
  handlers(deps: SettingsHandlerDeps): readonly Handled[] {
    const { accounts, endpoints, fetch } = this.#parts;
    const stopping = this.#stop.signal;
    const shared = { ...this.#parts, ...deps, stopping, listed: this.started };
    return [
      ...authHandlers(shared),
      ...modelHandlers(shared),
      handles(limitsGet, (_params, { signal }) =>
        readLimits(accounts, endpoints, fetch, AbortSignal.any([signal, stopping])),
      ),
    ];
  }

  /**
   * Returns this part's share of a snapshot. The account's profile is in it only for `viewer`, and only if it is theirs:
   * without one, as for `state.changed`, it is null.
   */
  snapshotParts(viewer?: Principal): Pick<Snapshot, 'auth' | 'onboarding' | 'model'> {
    const { accounts, credentials, choices } = this.#parts;
    const { selected, onboarded } = choices.current;
    return {
      auth: {
        enabledProviders: accounts.enabled(),
        hasOpenAiToken: accounts.isSignedIn('openai'),
        hasOpenRouterKey: accounts.isEnabled('openrouter'),
        hasAntigravityToken: accounts.isSignedIn('antigravity'),
        antigravityProfile: profileFor(credentials, viewer),
      },
      onboarding: { completed: onboarded },
      model: {
        selectedModel: selected?.model ?? '',
        selectedThinking: selected?.thinking ?? FIRST_THINKING,
        selectedOpenRouterProvider: selected?.openRouterProvider ?? 'any',
        selectedProvider: selected?.provider ?? null,
      },
    };
  }

  choose(settings: SessionSettings): ModelChoice | undefined {
    return decideModel(settings, this.#parts);
  }

  check(choice: ModelChoice | undefined): asserts choice is ModelChoice {
    checkChoice(choice, this.#parts.accounts);
  }

  access(provider: Provider, signal?: AbortSignal): Promise<ProviderAccess> {
    return this.#parts.accounts.access(provider, signal);
  }

  get configured(): boolean {
    return this.#parts.accounts.enabled().length > 0;
  }

  /** Returns key of the search service; undefined = none. */
  exaKey(): string | undefined {
    const credential = this.#parts.credentials.get('exa');
    return credential?.kind === 'api_key' ? credential.key : undefined;
  }

  /**
   * Deletes settings, credentials and the model lists, ends the running sign-ins, and revokes their tokens at the services.
   * Emits nothing.
   */
  async forgetEverything(): Promise<void> {
    const { flows, credentials, choices, catalogue, accounts } = this.#parts;
    flows.cancel(undefined, { name: '', admin: true });
    await flows.idle();
    const signIns = LOGIN_PROVIDERS.map((provider) => [provider, credentials.get(provider)] as const);
    await credentials.clear();
    await choices.clear();
    await catalogue.clear();
    await Promise.all(signIns.map(([provider, signIn]) => signIn && accounts.revoke(provider, signIn)));
  }

  /** Ends sign-ins and requests at once and releases the data directory. Bounded, never rejects. */
  stop(): Promise<void> {
    this.#stopped ??= this.#close();
    return this.#stopped;
  }

  async #close(): Promise<void> {
    const { flows, credentials, choices } = this.#parts;
    this.#stop.abort(fail('interrupted', 'the server is shutting down'));
    await Promise.allSettled([this.started, flows.idle()]);
    await Promise.allSettled([credentials.idle(), choices.idle()]);
    this.#unlock();
  }
}

/** Reads the lists that are missing or old, of the providers that can be asked. Never rejects. */
async function refreshOldLists(accounts: Accounts, catalogue: Catalogue, signal: AbortSignal, log: Log): Promise<void> {
  const reading = accounts.enabled().map(async (provider) => {
    if (catalogue.isFresh(provider, accounts.baseUrl(provider, accounts.credential(provider)))) return;
    const { failure } = await catalogue.refresh(provider, await accounts.access(provider, signal), signal);
    if (failure !== undefined) throw failure;
  });
  for (const result of await Promise.allSettled(reading)) {
    if (result.status === 'rejected' && !signal.aborted) {
      log.info('a model list could not be read', { reason: asError(result.reason).message });
    }
  }
}

/** Waits without keeping the process alive; rejects with the reason of the signal. */
async function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal, ref: false });
  } catch {
    throw asError(signal.reason, 'cancelled');
  }
}

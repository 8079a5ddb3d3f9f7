/**
 * The providers and models that a server in a data directory could use, without starting one: for `handfast doctor`. Reads
 * credentials, choices and stored lists as they are; asks no network and takes no lock.
 */
import type { Log } from '../../base/log.ts';
import type { ResultOf } from '../../protocol/rpc-reader.ts';
import type { modelStatus } from '../../protocol/session-rpc.ts';
import { Accounts } from './accounts/accounts.ts';
import { CredentialStore } from './accounts/credentials.ts';
import { chosenKeyring } from './accounts/keyring.ts';
import { type Environment, type ProvidersConfig, resolveEndpoints } from './http/endpoints.ts';
import { decideModel, shownChoice } from './methods/model-choice.ts';
import { type ProviderStatus, providerStatus } from './methods/provider-status.ts';
import { Catalogue } from './models/catalogue.ts';
import { storedChoices } from './models/stored-choices.ts';

export interface OverviewOptions {
  /** The data directory; need not exist. */
  readonly home: string;
  readonly env: Environment;
  readonly config?: ProvidersConfig | undefined;
  /** See `SettingsOptions.model`. */
  readonly model?: string | undefined;
  readonly log: Log;
}

export interface ModelOverview {
  /** The model that a session without its own choice would use; null = none. */
  readonly choice: ResultOf<typeof modelStatus>['choice'];
  readonly providers: readonly ProviderStatus[];
}

/** Fails with `config_invalid` for an address that is not valid, and for files that belong to another user. */
export async function modelOverview({
  home,
  env,
  config = {},
  model: configured,
  log,
}: OverviewOptions): Promise<ModelOverview> {
  const endpoints = resolveEndpoints(config, env);
  const credentials = await CredentialStore.open({ home, keyring: chosenKeyring(config.keyring, env), log });
  const { compatibleModels } = endpoints;
  const { fetch } = globalThis;
  const catalogue = await Catalogue.open({ home, fetch, log, now: Date.now, compatibleModels });
  const stopping = new AbortController().signal;
  const accounts = new Accounts({ endpoints, credentials, fetch, log, now: Date.now, stopping });
  const choices = { current: await storedChoices(home, log) };
  return {
    choice: shownChoice(decideModel({}, { accounts, catalogue, choices, configured }), accounts),
    providers: providerStatus({ accounts, catalogue }),
  };
}

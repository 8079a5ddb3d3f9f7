/**
 * The providers that can be used, and the credential of each: for `model.status`, and for `handfast doctor`, which asks no
 * server. Names variables, never a key.
 */
import type { ResultOf } from '../../../protocol/rpc-reader.ts';
import type { modelStatus } from '../../../protocol/session-rpc.ts';
import { PROVIDERS } from '../../../protocol/session-types.ts';
import { AUDIO_OF_PROVIDERS } from '../../../protocol/session-words.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Catalogue } from '../models/catalogue.ts';

/** A provider as `model.status` shows it, without the member that depends on the caller. */
export type ProviderStatus = Omit<ResultOf<typeof modelStatus>['providers'][number], 'allowed'>;

/** Returns the status of every provider, in the protocol's order. */
export function providerStatus({
  accounts,
  catalogue,
}: {
  readonly accounts: Accounts;
  readonly catalogue: Catalogue;
}): readonly ProviderStatus[] {
  return PROVIDERS.map((provider) => {
    const source = accounts.source(provider);
    const models = source === undefined ? [] : catalogue.models(provider);
    return {
      provider,
      usable: source !== undefined,
      credential: source?.kind ?? null,
      variables: accounts.variables(provider),
      signs_in: provider === 'openai' || provider === 'antigravity',
      default_model: source === undefined ? null : (catalogue.defaultModel(provider)?.id ?? null),
      model_count: models.length,
      audio: Object.hasOwn(AUDIO_OF_PROVIDERS, provider),
    };
  });
}

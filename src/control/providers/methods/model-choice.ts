/**
 * The model that a session uses: its own choice, else the configuration's, else the stored one, else the default of a provider
 * that has a credential, so that a key alone is enough.
 *
 * Decided for each turn. Uses no network.
 * @see docs/models.md
 */
import type { ResultOf } from '../../../protocol/rpc-reader.ts';
import type { modelStatus } from '../../../protocol/session-rpc.ts';
import { type ChoiceSource, PROVIDERS, type Provider, type SessionSettings } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { ModelChoice } from '../../contract/providers.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Catalogue } from '../models/catalogue.ts';
import { factsOf } from '../models/known-models.ts';
import type { ChoiceStore } from '../models/stored-choices.ts';
import { FIRST_THINKING, thinkingFor } from '../models/thinking.ts';

export interface ChoiceDeps {
  readonly accounts: Accounts;
  readonly choices: Pick<ChoiceStore, 'current'>;
  readonly catalogue: Catalogue;
  /** `control.model` of the configuration: `ID` or `PROVIDER/ID`. */
  readonly configured: string | undefined;
}

/** A choice and the setting that decided it. */
export interface DecidedModel extends ModelChoice {
  readonly source: ChoiceSource;
}

/** A model as a user names it. */
interface NamedModel {
  readonly model: string;
  /** Undefined: no provider is known to have it. */
  readonly provider: Provider | undefined;
}

/**
 * Decides the model of a session with these settings; undefined = none was chosen, and no provider that is enabled has a
 * default.
 */
export function decideModel(settings: SessionSettings, deps: ChoiceDeps): DecidedModel | undefined {
  const { choices, catalogue, configured } = deps;
  const { selected } = choices.current;
  const own = settings.model === undefined ? undefined : namedModel(settings.model, settings.provider, deps);
  const inFile = configured === undefined ? undefined : namedModel(configured, undefined, deps);
  const shared = inFile ?? selected;
  const provider = own?.provider ?? settings.provider ?? shared?.provider ?? defaultProvider(deps);
  if (provider === undefined) return undefined;
  const followed = shared?.provider === undefined || shared.provider === provider ? shared : undefined;
  const model = own?.model ?? followed?.model ?? catalogue.defaultModel(provider)?.id;
  if (model === undefined) return undefined;
  const option = catalogue.find(provider, model);
  const routed = selected?.provider === provider && selected.model === model ? selected : undefined;
  return {
    provider,
    model,
    thinking: thinkingFor(option, settings.thinking ?? selected?.thinking ?? FIRST_THINKING),
    openRouterProvider: settings.openRouterProvider ?? routed?.openRouterProvider ?? 'any',
    option,
    source:
      own !== undefined || settings.provider !== undefined
        ? 'session'
        : inFile !== undefined
          ? 'file'
          : selected !== undefined
            ? 'stored'
            : 'credential',
  };
}

/** Returns a choice as `model.status` shows it; null = none. */
export function shownChoice(
  decided: DecidedModel | undefined,
  accounts: Accounts,
): ResultOf<typeof modelStatus>['choice'] {
  if (decided === undefined) return null;
  const { provider, model, thinking, source } = decided;
  return { provider, model, thinking, source, usable: accounts.isEnabled(provider) };
}

/**
 * Returns the provider of sessions that nothing was chosen for: one that was signed in to here, else one with a key outside.
 */
function defaultProvider({ accounts }: ChoiceDeps): Provider | undefined {
  const enabled = accounts.enabled();
  const stored = enabled.find((name) => ['sign_in', 'stored_key'].includes(accounts.source(name)?.kind ?? ''));
  return stored ?? enabled[0];
}

/** Reads `ID` or `PROVIDER/ID`. Ids may hold a slash: `openai/gpt-5.2` is an id of OpenRouter too. */
function namedModel(text: string, provider: Provider | undefined, deps: ChoiceDeps): NamedModel {
  if (provider !== undefined) return { model: text, provider };
  const { accounts, catalogue, choices } = deps;
  const { selected } = choices.current;
  const candidates = [...(selected === undefined ? [] : [selected.provider]), ...accounts.enabled()];
  const slash = text.indexOf('/');
  const prefix = PROVIDERS.find((name) => name === text.slice(0, slash));
  const rest = text.slice(slash + 1);
  if (prefix !== undefined && accounts.isEnabled(prefix) && catalogue.find(prefix, rest)) {
    return { model: rest, provider: prefix };
  }
  const listing = candidates.find((name) => catalogue.find(name, text) !== undefined);
  if (listing !== undefined) return { model: text, provider: listing };
  if (prefix !== undefined && rest !== '') return { model: rest, provider: prefix };
  // A list that is not read yet may lack it; the family that its name shows decides then.
  return { model: text, provider: candidates.find((name) => factsOf(name, text) !== undefined) };
}

/** Fails with `not_configured`, in the protocol's words, unless a choice could be used. Asks no network. */
export function checkChoice(choice: ModelChoice | undefined, accounts: Accounts): asserts choice is ModelChoice {
  if (choice === undefined) throw fail('not_configured', 'select a model from an enabled provider first');
  if (!accounts.isEnabled(choice.provider)) {
    throw fail('not_configured', `provider ${choice.provider} is not enabled`, { provider: choice.provider });
  }
}

/**
 * The methods of session RPC about models, and which model a session uses.
 *
 * `model.select` chooses for every session that has not chosen for itself, and from those who may not change that default
 * for the session it names; a session does so with `session.configure`.
 * @see docs/protocol/session-rpc.md#models
 */
import { type ModelListResult, modelList, modelSelect, openrouterProviders } from '../../../protocol/session-rpc.ts';
import type { ModelOption, Provider, SessionSettings } from '../../../protocol/session-types.ts';
import { may, must, refusal } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import type { Compaction } from '../../contract/backend.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import type { ModelChoice } from '../../contract/providers.ts';
import type { Accounts } from '../accounts/accounts.ts';
import { type Catalogue, requireModel } from '../models/catalogue.ts';
import type { ChoiceStore, SelectedModel } from '../models/stored-choices.ts';
import { FIRST_THINKING, thinkingFor, thinkingOf } from '../models/thinking.ts';
import { requireProvider } from './auth-methods.ts';

export interface ModelDeps {
  readonly accounts: Accounts;
  readonly choices: ChoiceStore;
  readonly catalogue: Catalogue;
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
  /** Fails with `session_not_found` unless the caller may use this session. */
  checkSession(sessionId: string, call: RpcCall): void | Promise<void>;
  /** Compresses a session for the model it is about to get. */
  compress(sessionId: string, choice: ModelChoice, call: RpcCall): Promise<Compaction>;
  /** Emits `state.changed`. */
  stateChanged(reason: string): void;
  /** Chooses the model of one session. */
  configure(sessionId: string, model: SelectedModel, call: RpcCall): void | Promise<void>;
}

/** Order of `models` in `model.list`. */
const LIST_ORDER: readonly Provider[] = ['openai', 'antigravity', 'openrouter', 'anthropic', 'google', 'compatible'];

export function modelHandlers(parts: ModelDeps): readonly Handled[] {
  const { accounts, choices, catalogue, stopping, stateChanged } = parts;

  return [
    handles(modelList, ({ provider }): ModelListResult => {
      const providers = provider === undefined ? accounts.enabled() : [requireProvider(provider)];
      const { selected } = choices.current;
      return {
        providers,
        models: LIST_ORDER.filter((name) => providers.includes(name)).flatMap((name) => catalogue.models(name)),
        selected_model: selected?.model ?? '',
        selected_thinking: selected?.thinking ?? FIRST_THINKING,
        selected_provider: selected?.provider ?? null,
        selected_openrouter_provider: selected?.openRouterProvider ?? 'any',
      };
    }),

    // Everything is checked before anything is changed, so a refused call leaves no trace.
    handles(modelSelect, async (params, call) => {
      const { model_id: model, provider, thinking_level: asked, session_id: sessionId } = params;
      const { principal } = call.caller;
      // Without the right to change the default of the server, the choice is one of the session's own.
      const forAll = may(principal, 'settings');
      if (!forAll) {
        if (sessionId === undefined) throw refusal(principal, 'settings');
        must(principal, 'provider', provider);
        await parts.checkSession(sessionId, call);
      }
      const option = requireModel(catalogue, provider, model);
      const routing = provider === 'openrouter' ? params.openrouter_provider?.toLowerCase() : undefined;
      const selected: SelectedModel = {
        model,
        provider,
        thinking: thinkingFor(option, asked),
        openRouterProvider: routing ?? 'any',
      };
      let compression: Readonly<Record<string, unknown>> | undefined;
      if (params.compress_immediately) {
        if (sessionId === undefined) {
          throw fail('runtime_error', 'session_id is required when compress_immediately is true');
        }
        await parts.checkSession(sessionId, call);
        compression = compressionOf(await parts.compress(sessionId, { ...selected, option }, call));
      }
      if (forAll) {
        await choices.update((now) => ({ ...now, selected }));
        stateChanged('model_selected');
      } else await parts.configure(sessionId as string, selected, call);
      return {
        selected_model: model,
        selected_provider: provider,
        selected_thinking: selected.thinking,
        selected_openrouter_provider: selected.openRouterProvider,
        ...(compression === undefined ? {} : { compression }),
        ...(thinkingOf(asked) === selected.thinking ? {} : { replaced_thinking: asked }),
      };
    }),

    handles(openrouterProviders, async ({ model_id: id }, { signal }) => {
      if (!accounts.isEnabled('openrouter')) throw fail('not_configured', 'openrouter api key is not configured');
      const access = await accounts.access('openrouter', signal);
      return {
        model_id: id,
        providers: await catalogue.routingProviders(id, access, AbortSignal.any([signal, stopping])),
      };
    }),
  ];
}

/** A compaction as `model.select` reports it: requested because of a model, never by hand. */
function compressionOf({ compressed, reason, ...numbers }: Compaction): Readonly<Record<string, unknown>> {
  const why = reason === 'provider_switch' ? reason : 'auto';
  return { requested: true, applied: compressed, reason: compressed ? why : 'none', ...numbers };
}

/** The session's own choice, else the server's; undefined = neither made one. */
export function chooseModel(
  settings: SessionSettings,
  { accounts, choices, catalogue }: Pick<ModelDeps, 'accounts' | 'choices' | 'catalogue'>,
): ModelChoice | undefined {
  const { selected } = choices.current;
  const provider = settings.provider ?? providerOf(settings.model) ?? selected?.provider;
  if (provider === undefined) return undefined;
  const followed = selected?.provider === provider ? selected : undefined;
  const model = settings.model ?? followed?.model ?? catalogue.models(provider)[0]?.id;
  if (model === undefined) return undefined;
  const option: ModelOption | undefined = catalogue.find(provider, model);
  return {
    provider,
    model,
    thinking: thinkingFor(option, settings.thinking ?? selected?.thinking ?? FIRST_THINKING),
    openRouterProvider:
      settings.openRouterProvider ?? (followed?.model === model ? followed.openRouterProvider : undefined) ?? 'any',
    option,
  };

  /** Who serves a model that was named without its provider: the chosen provider, if it can, else the first that does. */
  function providerOf(id: string | undefined): Provider | undefined {
    if (id === undefined) return undefined;
    const chosen = selected === undefined ? [] : [selected.provider];
    return [...chosen, ...accounts.enabled()].find((name) => catalogue.find(name, id) !== undefined);
  }
}

/** Fails with `not_configured`, in the protocol's words, unless a choice could be used. Asks no network. */
export function checkChoice(choice: ModelChoice | undefined, accounts: Accounts): asserts choice is ModelChoice {
  if (choice === undefined) throw fail('not_configured', 'select a model from an enabled provider first');
  if (!accounts.isEnabled(choice.provider)) {
    throw fail('not_configured', `provider ${choice.provider} is not enabled`, { provider: choice.provider });
  }
}

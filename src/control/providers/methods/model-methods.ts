/**
 * The methods of session RPC about models: the models that can be chosen, the chosen one, and the one that a turn would use.
 *
 * `model.select` chooses for every session that has not chosen for itself; from a caller who may not change that default, it
 * chooses for the session it names. A session chooses for itself with `session.configure`.
 * @see docs/protocol/session-rpc.md#models
 */
import { orAborted, within } from '../../../base/race.ts';
import {
  type ModelListResult,
  modelList,
  modelSelect,
  modelStatus,
  openrouterProviders,
} from '../../../protocol/session-rpc.ts';
import type { Provider, SessionSettings } from '../../../protocol/session-types.ts';
import { may, must, refusal } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import type { Compaction } from '../../contract/backend.ts';
import { type Handled, handles, type RpcCall } from '../../contract/handlers.ts';
import type { ModelChoice } from '../../contract/providers.ts';
import type { CredentialStore } from '../accounts/credentials.ts';
import { requireModel } from '../models/catalogue.ts';
import type { ChoiceStore, SelectedModel } from '../models/stored-choices.ts';
import { FIRST_THINKING, thinkingFor, thinkingOf } from '../models/thinking.ts';
import { requireProvider } from './auth-methods.ts';
import { type ChoiceDeps, decideModel, shownChoice } from './model-choice.ts';
import { providerStatus } from './provider-status.ts';

/** The backend that runs a session, or would run a new one. */
export interface SessionBackend {
  readonly name: string;
  readonly settings: SessionSettings;
}

export interface ModelDeps extends ChoiceDeps {
  readonly choices: ChoiceStore;
  readonly credentials: Pick<CredentialStore, 'protection'>;
  /** Resolves when the lists that were old at the start have been read, or could not be. */
  readonly listed: Promise<void>;
  /** All backends. */
  readonly backends: readonly { readonly name: string; readonly label: string }[];
  /**
   * Returns the backend of a session the caller may read, without a session id the backend of new sessions. Fails with
   * `session_not_found`.
   */
  backendOf(sessionId: string | undefined, call: RpcCall): SessionBackend;
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

/** Longest wait for lists that are being read: a network that drops packets must not hold up methods that need no list. */
const LISTS_TIMEOUT_MS = 2_000;

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

    handles(modelStatus, async ({ session_id }, call) => {
      const { principal } = call.caller;
      const { name: backend, settings } = parts.backendOf(session_id, call);
      await orAborted(within(parts.listed, LISTS_TIMEOUT_MS), call.signal);
      return {
        backend,
        choice: shownChoice(decideModel(settings, parts), accounts),
        providers: providerStatus(parts).map((row) => ({ ...row, allowed: may(principal, 'provider', row.provider) })),
        backends: parts.backends.map((row) => ({ ...row, allowed: may(principal, 'backend', row.name) })),
        stored_in: parts.credentials.protection,
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

/** Returns a compaction as `model.select` reports it: requested because of a model, never by hand. */
function compressionOf({ compressed, reason, ...numbers }: Compaction): Readonly<Record<string, unknown>> {
  const why = reason === 'provider_switch' ? reason : 'auto';
  return { requested: true, applied: compressed, reason: compressed ? why : 'none', ...numbers };
}

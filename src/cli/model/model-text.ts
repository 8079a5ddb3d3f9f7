/**
 * Texts of the command line about models and providers: the one that a new session uses and why, and the command to run where
 * none can be used. Their data is the reply of `model.status`; no key is ever in it.
 */
import type { ControlClient } from '../../control-client/control.ts';
import type { ResultOf } from '../../protocol/rpc-reader.ts';
import { modelStatus } from '../../protocol/session-rpc.ts';
import { fail } from '../../wire/errors.ts';

export type ModelStatus = ResultOf<typeof modelStatus>;
type Provider = Pick<ModelStatus['providers'][number], 'provider' | 'usable' | 'credential' | 'variables'>;

/** Data of the line about a model. */
interface KnownModels {
  readonly backend: string;
  readonly choice: ModelStatus['choice'];
  readonly providers: readonly Provider[];
}

/** The variables that a first-time user most likely has, in messages that list some. */
const USUAL_VARIABLES = 'ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY';

/** The commands that make a model usable. */
export const ENABLE_A_PROVIDER = `store a key: handfast auth login anthropic (or openai, google, openrouter), or set ${USUAL_VARIABLES}`;

/** Names the credential that enables a provider, in a few words; '' = it is not enabled. */
export function enabledBy({ credential, variables }: Provider): string {
  switch (credential) {
    case 'sign_in':
      return 'signed in';
    case 'stored_key':
      return 'stored key';
    case 'environment':
      return variables[0] ?? 'environment';
    case 'address':
      return 'configured address';
    default:
      return '';
  }
}

/**
 * Returns the line about the model that a session uses, with the next command.
 * @param env of the command: a key in it does not reach a server that was started without it
 */
export function modelLine(
  { backend, choice, providers }: KnownModels,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const usable = providers.some((provider) => provider.usable);
  if (backend === 'rehearsal' && !usable) {
    return `no model can be used; ${nextStep(providers, env)}; the rehearsal backend follows simple directives until then`;
  }
  if (backend !== 'model') return `backend ${backend}`;
  if (choice === null) {
    return usable
      ? 'no model is chosen; run: handfast model use ID'
      : `no model can be used; ${nextStep(providers, env)}`;
  }
  const name = `model ${choice.provider}/${choice.model}`;
  if (!choice.usable) {
    return `${name} was chosen, but ${choice.provider} has no key; run: handfast auth login ${choice.provider}, or choose another: handfast model use ID`;
  }
  return `${name} (${reasonOf(choice, providers)})`;
}

/** Returns the way to enable a provider, for a user who has none. */
function nextStep(providers: readonly Provider[], env: Readonly<Record<string, string | undefined>>): string {
  for (const { provider, variables } of providers) {
    const set = variables.find((name) => (env[name] ?? '').trim() !== '');
    if (set === undefined) continue;
    return `${set} is set here, but not where the server runs: start it again with it, or store the key: handfast auth login ${provider}`;
  }
  return ENABLE_A_PROVIDER;
}

function reasonOf(
  { source, provider }: Pick<NonNullable<ModelStatus['choice']>, 'source' | 'provider'>,
  providers: readonly Provider[],
): string {
  if (source === 'session') return 'chosen for this session';
  if (source === 'file') return 'control.model of the configuration';
  if (source === 'stored') return 'the stored choice; another: handfast model use ID';
  const by = providers.find((row) => row.provider === provider);
  return `the default of ${provider}, by ${by === undefined ? 'its key' : enabledBy(by)}; another: handfast model use ID`;
}

/** Returns the status of a session, or of new ones; undefined from a server that has no `model.status`. */
export async function statusOf(control: ControlClient, sessionId?: string): Promise<ModelStatus | undefined> {
  if (!control.server.methods.includes(modelStatus.name)) return undefined;
  return control.rpc.modelStatus({ session_id: sessionId });
}

/**
 * Refuses a model that was named where no provider can be used: the rehearsal backend would answer in its place. Fails with
 * `not_configured`.
 */
export async function mustServe(
  control: ControlClient,
  { model, backend }: { readonly model?: string | undefined; readonly backend?: string | undefined },
): Promise<void> {
  if (model === undefined || backend !== undefined) return;
  const status = await statusOf(control);
  if (status?.backend !== 'rehearsal') return;
  const usable = status.providers.some((provider) => provider.usable);
  const next = usable ? 'choose the backend with it: --backend model' : nextStep(status.providers, process.env);
  throw fail('not_configured', `the model ${model} cannot be used: ${next}`);
}

/**
 * Makes a model usable for the user of an editor: by a sign-in to a provider in the browser, or with a key.
 *
 * It takes effect at once, for all sessions of the server: the stored keys and sign-ins belong to the server.
 */
import type { AcpSdk, AuthenticateRequest, AuthMethod } from '../../acp/sdk.ts';
import type { ControlClient } from '../../control-client/control.ts';
import type { ResultOf } from '../../protocol/rpc-reader.ts';
import { modelStatus } from '../../protocol/session-rpc.ts';
import { asError, fail } from '../../wire/errors.ts';

type Status = ResultOf<typeof modelStatus>;
type Provider = Status['providers'][number];

/** The providers that are signed in to in a browser. */
const SIGN_INS: readonly string[] = ['openai', 'antigravity'];
const KEY = 'key';
const TOKEN = 'token';
const SIGN_IN = 'sign-in-';

/** Advice for a user who has no browser sign-in. */
const ADVICE =
  'start a server (handfast up), or close this editor, then store a key in a terminal: handfast auth login anthropic (or openai, google, openrouter)';

/** Returns the server's status of providers; undefined from a server without that method. */
async function statusOf({ server, rpc }: ControlClient, session_id?: string): Promise<Status | undefined> {
  return server.methods.includes(modelStatus.name) ? rpc.modelStatus({ session_id }) : undefined;
}

/**
 * Returns the ways to make a model usable; none at a server that does not report the status of models.
 * @param control undefined if the server refused the token: a token is then the first way
 */
export function authMethodsOf(control: ControlClient | undefined): AuthMethod[] {
  if (control !== undefined && !control.server.methods.includes(modelStatus.name)) return [];
  const token = {
    id: TOKEN,
    name: 'Token of the Handfast server',
    description: 'Connects again, with the token that --token-file or HANDFAST_TOKEN names now',
  };
  return [
    ...(control === undefined ? [token] : []),
    ...SIGN_INS.map((provider) => ({
      id: `${SIGN_IN}${provider}`,
      name: `Sign in to ${provider}`,
      description: 'Opens the browser of the machine where the server runs',
    })),
    { id: KEY, name: 'Key of a model provider', description: `Checks that there is one; if not, ${ADVICE}` },
  ];
}

/**
 * Carries out a method. Fails with `schema_violation` for an unknown one, `login_failed`, and with the protocol's
 * `auth_required` while no provider is usable.
 *
 * A client that has asked for a key itself passes it as `_meta: { provider, api_key, base_url? }` of the method `key`.
 * @param note receives the address of the sign-in
 */
export async function authenticate(
  sdk: AcpSdk,
  control: ControlClient,
  { methodId, _meta }: AuthenticateRequest,
  { note, signal }: { readonly note: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  // The client is connected by now.
  if (methodId === TOKEN) return;
  if (methodId === KEY) {
    const { provider, api_key, base_url } = (_meta ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof provider === 'string' && typeof api_key === 'string') {
      await storeKey(control, { provider, api_key, base_url: typeof base_url === 'string' ? base_url : undefined });
    }
    const status = await statusOf(control);
    if (status?.providers.some(({ usable }) => usable)) return;
    throw sdk.RequestError.authRequired({ methodId }, `no model provider has a key: ${ADVICE}`);
  }
  const provider = methodId.startsWith(SIGN_IN) ? methodId.slice(SIGN_IN.length) : '';
  if (!SIGN_INS.includes(provider))
    throw fail('schema_violation', `there is no method ${methodId}`, { field: 'methodId' });
  await signIn(control, provider, note, signal);
}

/** Stores a key. A key that the provider does not accept is removed again: a stored key wins over one in the environment. */
async function storeKey(
  { rpc }: ControlClient,
  key: { readonly provider: string; readonly api_key: string; readonly base_url: string | undefined },
): Promise<void> {
  const { verified, message = 'no reason given' } = await rpc.authSetKey(key);
  if (verified !== false) return;
  await rpc.authLogout({ provider: key.provider });
  throw fail('login_failed', `${key.provider} did not accept the key (${message}); nothing is stored`);
}

async function signIn(
  control: ControlClient,
  provider: string,
  note: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const events = control.events({ signal });
  const shown = (async () => {
    for await (const event of events) {
      if (event.type === 'auth.flow.url') note(`open this address to sign in: ${event.payload.url}`);
    }
  })().catch(() => {});
  const cancel = (): void => void control.rpc.authCancel({ provider }).catch(() => {});
  signal.addEventListener('abort', cancel, { once: true });
  try {
    // The user may take as long as the provider lets them.
    if (provider === 'antigravity') await control.rpc.connectAntigravity({}, { timeoutMs: 0, signal });
    else await control.rpc.connectOpenai({ mode: 'auto' }, { timeoutMs: 0, signal });
  } finally {
    signal.removeEventListener('abort', cancel);
    await events.return();
    await shown;
  }
}

/** Removes every stored key and sign-in. Those of the environment and of the configuration stay; they are returned. */
export async function logout(control: ControlClient): Promise<readonly string[]> {
  const status = await statusOf(control);
  const isStored = ({ credential }: Provider): boolean => credential === 'sign_in' || credential === 'stored_key';
  for (const { provider } of (status?.providers ?? []).filter(isStored)) await control.rpc.authLogout({ provider });
  const left = await statusOf(control);
  return (left?.providers ?? []).filter(({ usable }) => usable).map(({ provider }) => provider);
}

/**
 * Resolves with true if new sessions may be given audio: by their model, if a usable provider has models that take
 * audio, or by another agent, which refuses unsupported input. Never rejects.
 */
export async function takesAudio(
  control: ControlClient,
  { backend }: { readonly backend?: string } = {},
): Promise<boolean> {
  const status = await statusOf(control).catch(() => undefined);
  if (status === undefined) return false;
  const used = backend ?? status.backend;
  if (used === 'rehearsal') return false;
  return used !== 'model' || status.providers.some(({ usable, audio }) => usable && audio === true);
}

/** Resolves with true if a session failed because it has no key, or because the provider refused it. Never rejects. */
export async function wantsAuth(control: ControlClient, thrown: unknown, sessionId?: string): Promise<boolean> {
  const { code, detail } = asError(thrown);
  if (code === 'provider_error') return detail.reason === 'auth';
  return code === 'not_configured' && (await isWithoutKey(control, sessionId));
}

/** Resolves with true if a session, or a new one, uses a model without a key. Never rejects. */
export async function isWithoutKey(control: ControlClient, sessionId?: string): Promise<boolean> {
  const status = await statusOf(control, sessionId).catch(() => undefined);
  if (status === undefined || status.backend !== 'model') return false;
  return !status.providers.some(({ usable }) => usable) || status.choice?.usable === false;
}

/**
 * `handfast auth …`: stores the key of a provider or signs in to it, removes that again, and lists the providers that can be
 * used, with their credentials. A key comes from the terminal or from a pipe, never as an argument: other users of the machine
 * see those.
 */
import { text as textOfStream } from 'node:stream/consumers';
import { counted } from '../../base/counted.ts';
import { headerProblem } from '../../base/secret-text.ts';
import type { LoginProvider } from '../../control/providers/http/endpoints.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { PROVIDERS, type Provider } from '../../protocol/session-types.ts';
import { fail } from '../../wire/errors.ts';
import type { ControlFlags } from '../connect/open-control.ts';
import { withServer } from '../connect/reach-server.ts';
import { ENABLE_A_PROVIDER, enabledBy, modelLine, statusOf } from '../model/model-text.ts';
import type { Terminal, TerminalOutput } from '../output/terminal.ts';
import { readSecret } from '../read-secret.ts';

export interface AuthFlags extends ControlFlags {
  readonly config?: string;
}

export interface LoginFlags extends AuthFlags {
  readonly baseUrl?: string;
  /** A key in the place of a sign-in. */
  readonly key?: boolean;
  /** A code to enter on another device in the place of a browser here. */
  readonly device?: boolean;
}

export async function authList(flags: AuthFlags, terminal: Terminal): Promise<void> {
  await withServer(flags, terminal, async ({ control }) => {
    const status = await statusOf(control);
    if (status === undefined) throw fail('unknown_type', 'this server has no model.status; update it');
    if (terminal.json) return terminal.document({ providers: status.providers, stored_in: status.stored_in });
    terminal.table(
      ['PROVIDER', 'BY', 'DEFAULT MODEL', 'MODELS', 'KEY FROM'],
      status.providers.map((row) => [
        row.provider,
        row.usable ? enabledBy(row) : '-',
        row.default_model ?? '',
        row.usable ? String(row.model_count) : '',
        row.variables.join(', ') || 'sign-in only',
      ]),
    );
    if (!status.providers.some(({ usable }) => usable)) terminal.note(ENABLE_A_PROVIDER);
  });
}

/**
 * Stores a key or signs in. Fails with `usage`, with `login_failed` for a key or sign-in that the provider does not accept, and
 * as the server does.
 */
export async function authLogin(name: string, flags: LoginFlags, terminal: Terminal): Promise<void> {
  const provider = providerNamed(name);
  const isSignIn =
    provider === 'antigravity' ||
    (provider === 'openai' && !flags.key && (flags.device === true || process.stdin.isTTY === true));
  const key = isSignIn ? '' : await keyOf(provider);
  await withServer(flags, terminal, async ({ control }, signal) => {
    if (isSignIn) await signIn(control, provider as LoginProvider, flags, terminal, signal);
    else await storeKey(control, provider, key, flags.baseUrl, terminal);
    const status = await statusOf(control);
    if (terminal.json) return terminal.document({ provider, choice: status?.choice ?? null });
    const line = status && modelLine(status, process.env);
    if (line !== undefined) terminal.note(line);
    terminal.note('next: handfast session send new hi');
  });
}

async function keyOf(provider: Provider): Promise<string> {
  const key = (
    process.stdin.isTTY === true ? await readSecret(`key of ${provider}: `) : await textOfStream(process.stdin)
  ).trim();
  const problem = headerProblem(key);
  if (problem !== undefined) throw fail('usage', `the key that was given has ${problem}; give the key alone`);
  if (key !== '') return key;
  throw fail('usage', `no key was given; type it at a terminal, or pipe it: handfast auth login ${provider} < key.txt`);
}

/** Stores a key. One that the provider does not accept is removed again, and the call fails with `login_failed`. */
export async function storeKey(
  control: ControlClient,
  provider: Provider,
  api_key: string,
  base_url: string | undefined,
  terminal: TerminalOutput,
): Promise<void> {
  const stored = await control.rpc.authSetKey({ provider, api_key, base_url });
  if (stored.verified === false) {
    // A stored key wins over one in the environment, so one that is of no use must not stay.
    await control.rpc.authLogout({ provider });
    throw fail(
      'login_failed',
      `${provider} did not accept the key (${stored.message ?? 'no reason given'}); nothing is stored`,
      { provider },
    );
  }
  const checked =
    stored.verified === true
      ? `${counted(stored.model_count, 'model')}`
      : `not checked: ${stored.message ?? 'no answer'}`;
  if (!terminal.json) terminal.note(`stored the key of ${provider} (${checked})`);
}

/** Shows where to sign in, and waits until that is done. Aborting the signal cancels it. */
export async function signIn(
  control: ControlClient,
  provider: LoginProvider,
  { device }: Pick<LoginFlags, 'device'>,
  terminal: TerminalOutput,
  signal: AbortSignal,
): Promise<void> {
  const events = control.events({ signal });
  const shown = (async () => {
    for await (const event of events) {
      if (event.type === 'auth.flow.url' && !device)
        terminal.note(`open this address to sign in: ${event.payload.url}`);
      if (event.type === 'auth.flow.device_code') {
        terminal.note(`open ${event.payload.verification_url} and enter the code ${event.payload.user_code}`);
      }
    }
  })().catch(() => {});
  const cancel = (): void => void control.rpc.authCancel({ provider }).catch(() => {});
  signal.addEventListener('abort', cancel, { once: true });
  try {
    // The user may take as long as the service lets them.
    if (provider === 'antigravity') await control.rpc.connectAntigravity({}, { timeoutMs: 0 });
    else await control.rpc.connectOpenai({ mode: device ? 'device_code' : 'auto' }, { timeoutMs: 0 });
    if (!terminal.json) terminal.note(`signed in to ${provider}`);
  } finally {
    await events.return();
    await shown;
  }
}

export async function authLogout(name: string, flags: AuthFlags, terminal: Terminal): Promise<void> {
  const provider = providerNamed(name);
  await withServer(flags, terminal, async ({ control }) => {
    const { removed } = await control.rpc.authLogout({ provider });
    const status = await statusOf(control);
    const left = status?.providers.find((row) => row.provider === provider);
    if (terminal.json) return terminal.document({ provider, removed, usable: left?.usable ?? false });
    terminal.note(removed ? `removed what was stored for ${provider}` : `nothing is stored for ${provider}`);
    if (left?.usable) terminal.note(`${provider} stays usable, by ${enabledBy(left)}`);
  });
}

function providerNamed(name: string): Provider {
  const provider = PROVIDERS.find((one) => one === name.toLowerCase());
  if (provider !== undefined) return provider;
  throw fail('usage', `there is no provider ${name}; known: ${PROVIDERS.join(', ')}`);
}

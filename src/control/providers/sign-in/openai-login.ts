/**
 * Signing in to OpenAI: in a browser on this machine, or by a code that the user types elsewhere.
 *
 * @see docs/protocol/session-rpc.md#login
 */
import { fail } from '../../../wire/errors.ts';
import { loginService } from '../accounts/login-service.ts';
import { type OAuthClient, oauthClient, type Tokens } from '../accounts/oauth.ts';
import { accountOf } from '../accounts/token-claims.ts';
import type { Environment } from '../http/endpoints.ts';
import { type DeviceOptions, pollForGrant, requestDeviceCode } from './device-code.ts';
import { type Connected, type LoginDeps, type RunningLogin, signInOf, throughBrowser } from './login.ts';

export const LOGIN_MODES = ['auto', 'browser', 'device_code'] as const;
export type LoginMode = (typeof LOGIN_MODES)[number];

/** Ports that OpenAI lets its public client come back to. */
const PORTS: readonly number[] = [1455, 1457];

/** Runs the sign-in. `auto` takes the code where the server has no screen and the issuer offers codes. */
export async function openaiLogin(
  deps: LoginDeps,
  login: RunningLogin,
  mode: LoginMode,
  originator: string | undefined,
): Promise<Connected> {
  const { endpoints, fetch, env, platform, now } = deps;
  const client = await oauthClient(loginService('openai', endpoints, originator), { fetch, signal: login.signal });
  const connected = (tokens: Tokens, method: Connected['method']): Connected => ({
    method,
    signIn: { ...signInOf(tokens, login, now()), accountId: accountOf(tokens) },
  });
  if (mode === 'device_code' || (mode === 'auto' && isHeadless(env, platform))) {
    const tokens = await byDeviceCode(deps, login, client);
    if (tokens !== undefined) return connected(tokens, 'device_code');
    if (mode === 'device_code') {
      throw fail('login_failed', `${new URL(endpoints.openai.issuer).host} has no sign-in by device code`);
    }
  }
  return connected(await throughBrowser(client, login, { path: '/auth/callback', ports: PORTS }), 'browser');
}

/**
 * True where the server has no screen its user could be looking at: `CI` or an `SSH_*` variable is set, or it is Linux
 * without a display.
 */
export function isHeadless(env: Environment, platform: NodeJS.Platform): boolean {
  if (env.CI) return true;
  if (Object.keys(env).some((name) => name.startsWith('SSH_') && env[name])) return true;
  return platform === 'linux' && !env.DISPLAY && !env.WAYLAND_DISPLAY;
}

/** Has the user type a code on another machine. Undefined = this issuer offers no codes. */
async function byDeviceCode(
  { endpoints, fetch, now, wait }: LoginDeps,
  { signal, emit }: RunningLogin,
  client: OAuthClient,
): Promise<Tokens | undefined> {
  const { issuer, clientId } = endpoints.openai;
  const device: DeviceOptions = { issuer, clientId, fetch, signal, now, wait };
  const code = await requestDeviceCode(device);
  if (code === undefined) return undefined;
  emit('auth.flow.url', { provider: 'openai', url: code.verificationUrl });
  emit('auth.flow.device_code', {
    provider: 'openai',
    verification_url: code.verificationUrl,
    user_code: code.userCode,
    interval_seconds: code.intervalSeconds,
    expires_in_seconds: code.expiresInSeconds,
  });
  const grant = await pollForGrant(code, device);
  return client.exchange(grant.redirectUri, grant.code, grant.codeVerifier);
}

/**
 * The parts of every sign-in: the running sign-in that a method receives, the credential it yields, and the way through a
 * browser, which both services have.
 *
 * Nothing here opens a browser: the client that shows the address to its user does.
 */

import { openCallback } from '../../../base/http/sign-in-callback.ts';
import type { Log } from '../../../base/log.ts';
import type { ServerEvents } from '../../contract/events.ts';
import type { SignIn } from '../accounts/credentials.ts';
import type { OAuthClient, Tokens } from '../accounts/oauth.ts';
import { expiryOf } from '../accounts/token-claims.ts';
import type { Endpoints, Environment, LoginProvider } from '../http/endpoints.ts';
import type { Fetch } from '../http/http-json.ts';
import type { DeviceOptions } from './device-code.ts';

/** A sign-in that has succeeded. */
export interface Connected {
  readonly method: 'browser' | 'device_code';
  readonly signIn: SignIn;
}

/** A sign-in while it runs. */
export interface RunningLogin {
  readonly provider: LoginProvider;
  /** Name of the principal that started it. */
  readonly principal: string;
  /** Aborts when it is cancelled, when its caller's connection is lost, and when the server stops. */
  readonly signal: AbortSignal;
  /** Emits an event to the principal alone: an address or a code of a sign-in lets its reader sign in. */
  readonly emit: ServerEvents['emit'];
}

/** The part of the server that sign-ins need. */
export interface LoginDeps {
  readonly endpoints: Endpoints;
  readonly fetch: Fetch;
  readonly log: Log;
  readonly env: Environment;
  readonly platform: NodeJS.Platform;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly wait: DeviceOptions['wait'];
}

/** Sends the user to a browser and waits for the browser to come back to `path` on this machine. */
export async function throughBrowser(
  client: OAuthClient,
  { provider, signal, emit }: RunningLogin,
  { path, ports }: { readonly path: string; readonly ports: readonly number[] },
): Promise<Tokens> {
  const callback = await openCallback(path, ports);
  try {
    const attempt = await client.start(callback.redirectUri);
    emit('auth.flow.url', { provider, url: attempt.url });
    const arrival = await callback.arrival(attempt.state, signal);
    try {
      const tokens = await attempt.finish(arrival.url);
      arrival.show({ ok: true, message: 'You are signed in. You can close this window.' });
      return tokens;
    } catch (thrown) {
      arrival.show({ ok: false, message: 'Signing in has failed. You can close this window.' });
      throw thrown;
    }
  } finally {
    callback.close();
  }
}

/** Returns the credential that a sign-in stores. */
export function signInOf(tokens: Tokens, { principal }: RunningLogin, now: number): SignIn {
  return {
    kind: 'oauth',
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    expiresAt: expiryOf(tokens, now),
    connectedBy: principal,
  };
}

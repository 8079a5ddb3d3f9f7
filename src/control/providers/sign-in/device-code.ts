/**
 * Signing in to OpenAI without a browser on this machine: the user types a short code into a page on any other one. The service
 * does not follow RFC 8628: polling yields an authorization code with its PKCE verifier.
 *
 * The last exchange is in `oauth.ts`.
 */
import { fail, HandfastError } from '../../../wire/errors.ts';
import { type Fetch, messageOf, record, requestJson, textOf } from '../http/http-json.ts';

/** The data that the user needs, and the data that polling needs. */
export interface DeviceCode {
  readonly verificationUrl: string;
  readonly userCode: string;
  readonly intervalSeconds: number;
  readonly expiresInSeconds: number;
  readonly deviceAuthId: string;
}

/** The service's reply once the user has agreed. */
export interface DeviceGrant {
  readonly code: string;
  readonly codeVerifier: string;
  readonly redirectUri: string;
}

export interface DeviceOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly fetch: Fetch;
  readonly signal: AbortSignal;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Waits; rejects with the reason of the signal. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

const DEFAULT_INTERVAL_SECONDS = 5;
const MAX_INTERVAL_SECONDS = 60;
const DEFAULT_EXPIRY_SECONDS = 15 * 60;

/** Asks for a code. Undefined = this issuer has no device sign-in. Fails with `login_failed` or `provider_error`. */
export async function requestDeviceCode(options: DeviceOptions): Promise<DeviceCode | undefined> {
  const { issuer, clientId, fetch, signal } = options;
  const url = `${issuer}/api/accounts/deviceauth/usercode`;
  const { status, body } = await requestJson(fetch, { url, body: { client_id: clientId }, signal });
  if (status === 404) return undefined;
  const { device_auth_id, user_code, usercode, interval, expires_in } = record(body);
  const deviceAuthId = textOf(device_auth_id);
  const userCode = textOf(user_code) ?? textOf(usercode);
  if (status !== 200 || deviceAuthId === undefined || userCode === undefined) {
    throw fail('login_failed', `no device code: ${messageOf(body) ?? `status ${status}`}`, { status });
  }
  return {
    verificationUrl: `${issuer}/codex/device`,
    userCode,
    intervalSeconds: Math.min(seconds(interval, DEFAULT_INTERVAL_SECONDS), MAX_INTERVAL_SECONDS),
    expiresInSeconds: Math.min(seconds(expires_in, DEFAULT_EXPIRY_SECONDS), DEFAULT_EXPIRY_SECONDS),
    deviceAuthId,
  };
}

/**
 * Asks at the agreed pace until the user has agreed. Fails with `login_failed` when the user refused or the code has
 * expired, or with the reason of the signal. A service that is out of reach for a while is asked again.
 */
export async function pollForGrant(device: DeviceCode, options: DeviceOptions): Promise<DeviceGrant> {
  const { issuer, fetch, signal, now, wait } = options;
  const endsAt = now() + device.expiresInSeconds * 1_000;
  let intervalMs = device.intervalSeconds * 1_000;
  for (;;) {
    await wait(Math.min(intervalMs, Math.max(0, endsAt - now())), signal);
    const { status, body } = await requestJson(fetch, {
      url: `${issuer}/api/accounts/deviceauth/token`,
      body: { device_auth_id: device.deviceAuthId, user_code: device.userCode },
      signal,
    }).catch((thrown: unknown) => {
      if (thrown instanceof HandfastError && thrown.code === 'provider_error') return { status: 503, body: undefined };
      throw thrown;
    });
    const { authorization_code, code_verifier } = record(body);
    const code = textOf(authorization_code);
    const codeVerifier = textOf(code_verifier);
    if (status === 200 && code !== undefined && codeVerifier !== undefined) {
      return { code, codeVerifier, redirectUri: `${issuer}/deviceauth/callback` };
    }
    const error = errorOf(body);
    if (error === 'access_denied') throw fail('login_failed', 'sign-in was refused: access_denied', { error });
    if (error === 'expired_token' || now() >= endsAt) {
      throw fail('login_failed', 'the device code has expired; start again', { error: 'expired_token' });
    }
    // 403 and 404 mean "not yet" here.
    const waits = status === 403 || status === 404 || status === 429 || status >= 500;
    if (!waits) throw fail('login_failed', `sign-in failed: ${messageOf(body) ?? `status ${status}`}`, { status });
    if (status === 429 || error === 'slow_down') intervalMs += 5_000;
  }
}

/** Returns the service's word for a failure: `error`, or its `code`. */
function errorOf(body: unknown): string | undefined {
  const { error } = record(body);
  return textOf(error) ?? textOf(record(error).code);
}

/** Returns whole seconds, at least one; numbers arrive as text as well. */
function seconds(value: unknown, otherwise: number): number {
  const number = typeof value === 'string' ? Number.parseInt(value, 10) : value;
  return typeof number === 'number' && number >= 1 ? Math.floor(number) : otherwise;
}

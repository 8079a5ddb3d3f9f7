/**
 * Sign-ins under way: one per provider, each told to its principal step by step in `auth.flow.*` events, and ended at once by
 * `auth.cancel`, by the request's own end (cancelled, or its connection gone), or by the server's.
 *
 * Nothing here opens a browser: that is for whoever shows the address to a user.
 * @see docs/protocol/session-rpc.md#login
 */
import type { Log } from '../../../base/log.ts';
import type { Principal } from '../../../session/principal.ts';
import { asError, fail } from '../../../wire/errors.ts';
import type { ServerEvents } from '../../contract/events.ts';
import type { RpcCall } from '../../contract/handlers.ts';
import { loginService } from '../accounts/accounts.ts';
import type { SignIn } from '../accounts/credentials.ts';
import { type OAuthClient, oauthClient, type Tokens } from '../accounts/oauth.ts';
import { accountOf, expiryOf, profileOf } from '../accounts/token-claims.ts';
import type { Endpoints, Environment, LoginProvider } from '../http/endpoints.ts';
import { type Fetch, record, requestJson, textOf } from '../http/http-json.ts';
import { openCallback } from './callback.ts';
import { type DeviceOptions, pollForGrant, requestDeviceCode } from './device-code.ts';

export type LoginMode = 'auto' | 'browser' | 'device_code';
export const LOGIN_MODES: readonly LoginMode[] = ['auto', 'browser', 'device_code'];

/** A sign-in that has succeeded. */
export interface Connected {
  readonly method: 'browser' | 'device_code';
  readonly signIn: SignIn;
}

export interface LoginFlows {
  /** Runs a sign-in; `done` stores it and tells of it before the sign-in counts as over. */
  openai<T>(mode: LoginMode, originator: string | undefined, call: RpcCall, done: Done<T>): Promise<T>;
  antigravity<T>(call: RpcCall, done: Done<T>): Promise<T>;
  /** Ends the sign-ins that `principal` began; of all, or of one provider. False = there was none. */
  cancel(provider: LoginProvider | undefined, principal: Principal): boolean;
  /** Waits until none is under way; they end by themselves once the server stops. */
  idle(): Promise<void>;
}

type Done<T> = (connected: Connected) => Promise<T>;

/** Tells of a sign-in those it concerns: whoever began it. An address or a code of it is an invitation to sign in. */
type Tell = ServerEvents['emit'];

export interface LoginFlowOptions {
  readonly endpoints: Endpoints;
  readonly serverEvents: ServerEvents;
  readonly fetch: Fetch;
  readonly log: Log;
  readonly env: Environment;
  readonly platform: NodeJS.Platform;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly wait: DeviceOptions['wait'];
  /** Aborts when the server stops. */
  readonly stopping: AbortSignal;
}

interface Flow {
  /** Name of the principal that began it. */
  readonly principal: string;
  readonly controller: AbortController;
  /** Set once the tokens are there and are being stored: from then on it can only succeed. */
  settled: boolean;
  /** Resolves with its last event. */
  readonly over: PromiseWithResolvers<void>;
}

/** Longest a user may take. */
const FLOW_TIMEOUT_MS = 15 * 60 * 1_000;
/** Ports that OpenAI lets its public client come back to. */
const OPENAI_PORTS: readonly number[] = [1455, 1457];

/**
 * True where the server has no screen its user could be looking at: `CI` or an `SSH_*` variable is set, or it is Linux
 * without a display.
 */
export function isHeadless(env: Environment, platform: NodeJS.Platform): boolean {
  if (env.CI) return true;
  if (Object.keys(env).some((name) => name.startsWith('SSH_') && env[name])) return true;
  return platform === 'linux' && !env.DISPLAY && !env.WAYLAND_DISPLAY;
}

export function createLoginFlows(options: LoginFlowOptions): LoginFlows {
  const { endpoints, serverEvents, fetch, log, env, platform, now, wait, stopping } = options;
  const running = new Map<LoginProvider, Flow>();

  /** Runs one sign-in from its first event to its last, whatever ends it. */
  async function run<T>(
    provider: LoginProvider,
    call: RpcCall,
    work: (signal: AbortSignal, tell: Tell) => Promise<Connected>,
    done: Done<T>,
  ): Promise<T> {
    if (running.has(provider)) {
      throw fail('login_failed', `a sign-in to ${provider} is already under way`, { provider });
    }
    const controller = new AbortController();
    const { name: principal } = call.caller.principal;
    const tell: Tell = (type, payload) => serverEvents.emit(type, payload, principal);
    const flow: Flow = { principal, controller, settled: false, over: Promise.withResolvers() };
    running.set(provider, flow);
    const timer = setTimeout(
      () => controller.abort(fail('login_failed', 'sign-in was not completed within 15 minutes', { provider })),
      FLOW_TIMEOUT_MS,
    ).unref();
    try {
      tell('auth.flow.started', { provider });
      const signal = AbortSignal.any([call.signal, controller.signal, stopping]);
      signal.throwIfAborted();
      const connected = await work(signal, tell);
      signal.throwIfAborted();
      flow.settled = true;
      return await done(connected);
    } catch (thrown) {
      const error = asError(thrown, 'login_failed');
      tell('auth.flow.failed', { provider, message: error.message });
      throw error;
    } finally {
      clearTimeout(timer);
      // Whatever still hangs on the sign-in ends with it.
      controller.abort(fail('cancelled', 'the sign-in is over'));
      running.delete(provider);
      flow.over.resolve();
    }
  }

  /** Sends the user to a browser and waits for it to come back. */
  async function inBrowser(
    provider: LoginProvider,
    client: OAuthClient,
    at: { readonly path: string; readonly ports: readonly number[] },
    signal: AbortSignal,
    tell: Tell,
  ): Promise<Tokens> {
    const callback = await openCallback(at.path, at.ports);
    try {
      const attempt = await client.begin(callback.redirectUri);
      tell('auth.flow.url', { provider, url: attempt.url });
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

  /** Has the user type a code elsewhere. Undefined = this issuer offers no such thing. */
  async function byDeviceCode(client: OAuthClient, signal: AbortSignal, tell: Tell): Promise<Tokens | undefined> {
    const { issuer, clientId } = endpoints.openai;
    const device: DeviceOptions = { issuer, clientId, fetch, signal, now, wait };
    const code = await requestDeviceCode(device);
    if (code === undefined) return undefined;
    tell('auth.flow.url', { provider: 'openai', url: code.verificationUrl });
    tell('auth.flow.device_code', {
      provider: 'openai',
      verification_url: code.verificationUrl,
      user_code: code.userCode,
      interval_seconds: code.intervalSeconds,
      expires_in_seconds: code.expiresInSeconds,
    });
    const grant = await pollForGrant(code, device);
    return client.exchange(grant.redirectUri, grant.code, grant.codeVerifier);
  }

  const signInOf = (tokens: Tokens, call: RpcCall): SignIn => ({
    kind: 'oauth',
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    expiresAt: expiryOf(tokens, now()),
    connectedBy: call.caller.principal.name,
  });

  /** The Cloud project of an account; undefined when it has none, or cannot be asked: then requests go without. */
  async function cloudProject(accessToken: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      const { body } = await requestJson(fetch, {
        url: `${endpoints.antigravity.cloudCodeUrl}/v1internal:loadCodeAssist`,
        headers: { authorization: `Bearer ${accessToken}` },
        body: { metadata: { ideType: 'IDE_UNSPECIFIED', platform: 'PLATFORM_UNSPECIFIED', pluginType: 'GEMINI' } },
        signal,
      });
      const { cloudaicompanionProject } = record(body);
      return textOf(cloudaicompanionProject) ?? textOf(record(cloudaicompanionProject).id);
    } catch (thrown) {
      signal.throwIfAborted();
      log.info('the Cloud project of the account could not be read', { reason: (thrown as Error).message });
      return undefined;
    }
  }

  return {
    openai: (mode, originator, call, done) =>
      run(
        'openai',
        call,
        async (signal, tell) => {
          const client = await oauthClient(loginService('openai', endpoints, originator), { fetch, signal });
          const connected = (tokens: Tokens, method: Connected['method']): Connected => ({
            method,
            signIn: { ...signInOf(tokens, call), accountId: accountOf(tokens) },
          });
          if (mode === 'device_code' || (mode === 'auto' && isHeadless(env, platform))) {
            const tokens = await byDeviceCode(client, signal, tell);
            if (tokens !== undefined) return connected(tokens, 'device_code');
            if (mode === 'device_code') {
              throw fail('login_failed', `${new URL(endpoints.openai.issuer).host} has no sign-in by device code`);
            }
          }
          const at = { path: '/auth/callback', ports: OPENAI_PORTS };
          return connected(await inBrowser('openai', client, at, signal, tell), 'browser');
        },
        done,
      ),
    antigravity: async (call, done) => {
      // Told before anything begins: it is the operator who has to act.
      const service = loginService('antigravity', endpoints);
      return run(
        'antigravity',
        call,
        async (signal, tell) => {
          const client = await oauthClient(service, { fetch, signal });
          const at = { path: '/oauth-callback', ports: [] };
          const tokens = await inBrowser('antigravity', client, at, signal, tell);
          const project = await cloudProject(tokens.accessToken, signal);
          return { method: 'browser', signIn: { ...signInOf(tokens, call), profile: profileOf(tokens), project } };
        },
        done,
      );
    },
    cancel(provider, principal) {
      const own = [...running].filter(
        ([name, flow]) =>
          !flow.settled &&
          (provider === undefined || name === provider) &&
          (principal.admin || flow.principal === principal.name),
      );
      for (const [name, { controller }] of own) {
        controller.abort(fail('cancelled', `the sign-in to ${name} was cancelled`, { provider: name }));
      }
      return own.length > 0;
    },
    async idle() {
      await Promise.all([...running.values()].map(({ over }) => over.promise));
    },
  };
}

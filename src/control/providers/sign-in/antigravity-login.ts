/**
 * Signing in to Antigravity with a Google account, in a browser on this machine.
 *
 * @see docs/protocol/session-rpc.md#login
 */
import { type OAuthService, oauthClient } from '../accounts/oauth.ts';
import { profileOf } from '../accounts/token-claims.ts';
import { record, requestJson, textOf } from '../http/http-json.ts';
import { type Connected, type LoginDeps, type RunningLogin, signInOf, throughBrowser } from './login.ts';

/** Runs the sign-in at `service`. */
export async function antigravityLogin(
  deps: LoginDeps,
  login: RunningLogin,
  service: OAuthService,
): Promise<Connected> {
  const client = await oauthClient(service, { fetch: deps.fetch, signal: login.signal });
  const tokens = await throughBrowser(client, login, { path: '/oauth-callback', ports: [] });
  const project = await cloudProject(deps, tokens.accessToken, login.signal);
  return {
    method: 'browser',
    signIn: { ...signInOf(tokens, login, deps.now()), profile: profileOf(tokens), project },
  };
}

/** Returns the Cloud project of an account; undefined when it has none or the service fails: then requests name no project. */
async function cloudProject(
  { endpoints, fetch, log }: LoginDeps,
  accessToken: string,
  signal: AbortSignal,
): Promise<string | undefined> {
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

/**
 * The sign-in services of the providers, and the OAuth client that this project is registered as at each.
 */
import { fail } from '../../../wire/errors.ts';
import type { Endpoints, LoginProvider } from '../http/endpoints.ts';
import type { OAuthService } from './oauth.ts';

/** Returns the client at a provider's sign-in service. Fails with `not_configured` where the operator has to bring one. */
export function loginService(provider: LoginProvider, endpoints: Endpoints, originator = 'handfast'): OAuthService {
  if (provider === 'openai') {
    const { issuer, clientId } = endpoints.openai;
    return {
      issuer,
      clientId,
      scope: 'openid profile email offline_access',
      paths: { authorize: '/oauth/authorize', token: '/oauth/token', revoke: '/oauth/revoke' },
      authorizeParameters: { id_token_add_organizations: 'true', codex_cli_simplified_flow: 'true', originator },
    };
  }
  const { issuer, clientId, clientSecret } = endpoints.antigravity;
  if (clientId === undefined) {
    throw fail(
      'not_configured',
      'signing in to antigravity needs an OAuth client of the type "desktop": set providers.antigravity.client_id ' +
        'or HANDFAST_GOOGLE_CLIENT_ID',
      { provider },
    );
  }
  return {
    issuer,
    clientId,
    clientSecret,
    scope: 'openid email profile https://www.googleapis.com/auth/cloud-platform',
    // Without both Google hands out a refresh token only the first time.
    authorizeParameters: { access_type: 'offline', prompt: 'consent' },
  };
}

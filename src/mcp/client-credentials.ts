/**
 * Tokens for an MCP server without a person: the client proves itself to the authorization server, with its secret or
 * with a token signed by its private key (extension `io.modelcontextprotocol/oauth-client-credentials`).
 *
 * It runs under the lock of the stored sign-in. @see docs/mcp.md#sign-in
 */
import { fail, HandfastError } from '../wire/errors.ts';
import type { CheckedFetch } from './checked-fetch.ts';
import { proveClient } from './client-authentication.ts';
import { discovered, issuerOf, resourceOf } from './discovery.ts';
import { issuesOf } from './http-problem.ts';
import { OAuthDocuments } from './oauth-documents.ts';
import type { OAuthSettings } from './oauth-settings.ts';
import type { McpSdk } from './sdk.ts';
import { granted, type StoredSignIn } from './sign-in-file.ts';

/** The demand of a server that refused a request. */
interface Refused {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: URL | undefined;
}

/**
 * Returns the stored sign-in with a new token. Rejects with `unauthorized` if the authorization server refuses the
 * client, with `login_failed` for addresses that are not allowed, and with `unreachable` if no response comes.
 * @param now epoch milliseconds
 */
export async function tokensOfClient(
  sdk: McpSdk,
  { url, settings }: { readonly url: string; readonly settings: OAuthSettings },
  stored: StoredSignIn,
  { scope, resourceMetadataUrl }: Refused,
  fetch: CheckedFetch,
  now: number,
): Promise<StoredSignIn> {
  const { clientId = '', clientSecret, privateKey, signingAlgorithm: alg = 'ES256' } = settings;
  const address = resourceMetadataUrl?.href ?? stored.challenge?.resourceMetadataUrl;
  const challenge = { ...(scope && { scope }), ...(address && { resourceMetadataUrl: address }) };
  try {
    const discovery = await discovered(sdk, { url, settings }, { ...stored, challenge }, fetch);
    const { authorizationServerUrl, authorizationServerMetadata: metadata } = discovery;
    const resource = resourceOf(discovery);
    const scopes = sdk.computeScopeUnion(settings.scope, scope);
    const provider = {
      redirectUrl: undefined,
      clientMetadata: { redirect_uris: [], grant_types: ['client_credentials'] },
      clientInformation: () => ({ client_id: clientId, ...(clientSecret && { client_secret: clientSecret }) }),
      prepareTokenRequest: (wanted?: string) =>
        new URLSearchParams({ grant_type: 'client_credentials', ...(wanted && { scope: wanted }) }),
      addClientAuthentication: privateKey
        ? sdk.createPrivateKeyJwtAuth({ issuer: clientId, subject: clientId, privateKey, alg })
        : (headers: Headers, params: URLSearchParams) =>
            proveClient(
              { client_id: clientId, client_secret: clientSecret },
              metadata?.token_endpoint_auth_methods_supported,
              headers,
              params,
            ),
    };
    const tokens = await sdk.fetchToken(provider as never, authorizationServerUrl, {
      ...(metadata && { metadata }),
      ...(resource !== undefined && { resource: resource as never }),
      ...(scopes && { scope: scopes }),
      fetchFn: new OAuthDocuments(url, fetch).fetch as never,
    });
    return { server: url, issuer: issuerOf(discovery), ...granted({ ...tokens }, now), challenge };
  } catch (thrown) {
    if (thrown instanceof HandfastError) throw thrown;
    const { code, message } = thrown as { readonly code?: unknown; readonly message: string };
    const why = issuesOf(message);
    // The authorization server reported this reason.
    if (typeof code === 'string' && /^[a-z_]+$/.test(code)) {
      throw fail('unauthorized', `the authorization server refuses the client: ${code}: ${why}`, {}, thrown);
    }
    throw fail('unreachable', `no token can be had now: ${why}`, {}, thrown);
  }
}

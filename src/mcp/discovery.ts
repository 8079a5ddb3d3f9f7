/**
 * Where to get tokens for an MCP server: found by the metadata of the server and of its authorization server.
 *
 * Used by `sign-in.ts`, where a person signs in, and by `client-credentials.ts`, where none does.
 */
import { fail } from '../wire/errors.ts';
import type { CheckedFetch } from './checked-fetch.ts';
import type { OAuthSettings } from './oauth-settings.ts';
import type { McpSdk } from './sdk.ts';
import type { StoredSignIn } from './sign-in-file.ts';

/** Of which server. */
interface Asked {
  readonly url: string;
  readonly settings: OAuthSettings;
}

export type Discovery = Awaited<ReturnType<McpSdk['discoverOAuthServerInfo']>> & { resourceMetadataUrl?: string };

/** The name of the authorization server. */
export const issuerOf = ({ authorizationServerMetadata, authorizationServerUrl }: Discovery): string =>
  authorizationServerMetadata?.issuer ?? authorizationServerUrl;

/**
 * What the server and its authorization server say of themselves. Rejects with `login_failed` for another authorization server than the one of the
 * configuration, or than the one that has the secret already.
 */
export async function discovered(
  sdk: McpSdk,
  { url, settings }: Asked,
  { issuer: before, challenge = {} }: StoredSignIn,
  fetchFn: CheckedFetch,
): Promise<Discovery> {
  const { resourceMetadataUrl } = challenge;
  let refusal: unknown;
  const discovering = sdk.discoverOAuthServerInfo(url, {
    ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    fetchFn: ((address: string | URL, init: object) =>
      fetchFn(address, init).catch((thrown: unknown) => {
        refusal ??= thrown;
        throw thrown;
      })) as never,
  });
  const found = await discovering.catch((thrown: unknown) => {
    throw refusal ?? thrown;
  });
  // The official client does without metadata that it could not get.
  if (refusal !== undefined) throw refusal;
  const issuer = issuerOf(found);
  const expected = settings.issuer ?? (settings.clientSecret === undefined ? undefined : before);
  if (expected !== undefined && expected !== issuer) {
    const advice = settings.issuer === undefined ? '; handfast mcp logout forgets the other one' : '';
    throw fail('login_failed', `the server names the authorization server ${issuer}, not ${expected}${advice}`);
  }
  return { ...found, ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl }) };
}

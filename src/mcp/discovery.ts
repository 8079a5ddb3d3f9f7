/**
 * Where to get tokens for an MCP server: found by the metadata of the server and of its authorization server.
 *
 * Used by `sign-in.ts`, where a person signs in, and by `client-credentials.ts`, where none does.
 */
import { fail } from '../wire/errors.ts';
import type { CheckedFetch } from './checked-fetch.ts';
import { OAuthDocuments } from './oauth-documents.ts';
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

/** Whether both name one authorization server: a slash at the end makes no difference. */
export const isSameIssuer = (one: string, other: string): boolean =>
  one.replace(/\/$/, '') === other.replace(/\/$/, '');

/**
 * Reads the metadata of the server and of its authorization server. Rejects with `login_failed` for another authorization server than the one of the
 * configuration, or than the one that has the secret already, and for documents that contradict each other.
 */
export async function discovered(
  sdk: McpSdk,
  { url, settings }: Asked,
  { issuer: before, challenge = {} }: StoredSignIn,
  fetchFn: CheckedFetch,
): Promise<Discovery> {
  let { resourceMetadataUrl } = challenge;
  let documents = new OAuthDocuments(url, fetchFn, resourceMetadataUrl);
  let found = await asked(sdk, url, documents, resourceMetadataUrl);
  if (found.resourceMetadata === undefined && resourceMetadataUrl !== undefined) {
    // The address that the server named has no metadata; the address of the standard may.
    resourceMetadataUrl = undefined;
    documents = new OAuthDocuments(url, fetchFn);
    found = await asked(sdk, url, documents, undefined);
  }
  const named = found.authorizationServerUrl;
  found.authorizationServerMetadata ??= await elsewhere(named, documents);
  if (found.authorizationServerMetadata === undefined && documents.broken !== undefined) {
    throw fail('login_failed', `the metadata at ${documents.broken}; the operator of that server has to correct them`);
  }
  const issuer = issuerOf(found);
  const isNamed = (found.resourceMetadata?.authorization_servers?.length ?? 0) > 0;
  // Revision 2025-03-26 has no metadata of the resource: those at the address of the server may name another issuer.
  const mayDiffer = !isNamed && settings.clientSecret === undefined && settings.issuer === undefined;
  if (!isSameIssuer(issuer, named) && !mayDiffer) {
    const who = isNamed ? `${documents.resourceAt} names the authorization server ${named}` : `the server is ${named}`;
    const why = `${who}, whose metadata name the issuer ${issuer}; its operator has to correct one of them`;
    throw fail('login_failed', why);
  }
  const expected = settings.issuer ?? (settings.clientSecret === undefined ? undefined : before);
  if (expected !== undefined && !isSameIssuer(expected, issuer)) {
    const advice = settings.issuer === undefined ? '; handfast mcp logout forgets the other one' : '';
    throw fail('login_failed', `the server names the authorization server ${issuer}, not ${expected}${advice}`);
  }
  mustBeOf(found, url, documents.resourceAt);
  return { ...found, ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl }) };
}

async function asked(
  sdk: McpSdk,
  url: string,
  documents: OAuthDocuments,
  resourceMetadataUrl: string | undefined,
): Promise<Discovery> {
  let refusal: unknown;
  const discovering = sdk.discoverOAuthServerInfo(url, {
    ...(resourceMetadataUrl !== undefined && { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    // `discovered` compares it, and ignores a slash at the end.
    skipIssuerMetadataValidation: true,
    fetchFn: ((address: string | URL, init: object) =>
      documents.fetch(address, init).catch((thrown: unknown) => {
        refusal ??= thrown;
        throw thrown;
      })) as never,
  });
  const found = await discovering.catch((thrown: unknown) => {
    throw refusal ?? thrown;
  });
  // The official client does without metadata that it could not get.
  if (refusal !== undefined) throw refusal;
  return { ...found };
}

/** Looks for the metadata of an authorization server with a path at two more addresses that servers use. */
async function elsewhere(named: string, documents: OAuthDocuments): Promise<Discovery['authorizationServerMetadata']> {
  const { origin, pathname } = new URL(named);
  const path = pathname.replace(/\/$/, '');
  if (path === '') return undefined;
  for (const place of [`${path}${WELL_KNOWN}`, WELL_KNOWN]) {
    const response = await documents.fetch(new URL(place, origin));
    if (!response.ok) continue;
    const metadata = (await response.json()) as NonNullable<Discovery['authorizationServerMetadata']>;
    if (isSameIssuer(metadata.issuer, named)) return metadata;
  }
  return undefined;
}

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

/** The resource that tokens are for, as the server writes it; undefined without metadata. */
export const resourceOf = ({ resourceMetadata }: Pick<Discovery, 'resourceMetadata'>): string | undefined =>
  resourceMetadata?.resource;

/** Throws `login_failed` unless the resource is the address of the server, or a folder above it. */
function mustBeOf(found: Discovery, url: string, at: string): void {
  const resource = resourceOf(found);
  if (resource === undefined) return;
  const [own, named] = [new URL(url), new URL(resource)];
  const folder = (path: string): string => (path.endsWith('/') ? path : `${path}/`);
  if (own.origin === named.origin && folder(own.pathname).startsWith(folder(named.pathname))) return;
  throw fail(
    'login_failed',
    `${at} names the resource ${resource}, which does not match the address of the server, ${url}; correct its url in handfast.yaml, or its operator corrects the document`,
  );
}

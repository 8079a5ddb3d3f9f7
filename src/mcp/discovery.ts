/**
 * The authorization server that issues tokens for an MCP server: found by the metadata of the server and of its
 * authorization server.
 *
 * It serves sign-ins by a person (`sign-in.ts`) and without one (`client-credentials.ts`).
 */
import { fail } from '../wire/errors.ts';
import type { CheckedFetch } from './checked-fetch.ts';
import { OAuthDocuments } from './oauth-documents.ts';
import type { OAuthSettings } from './oauth-settings.ts';
import type { McpSdk } from './sdk.ts';
import type { StoredSignIn } from './sign-in-file.ts';

/** Authorization servers that are tried, of those that a server lists. */
const MAX_SERVERS = 4;

/** Of which server. */
interface Asked {
  readonly url: string;
  readonly settings: OAuthSettings;
}

export type Discovery = Awaited<ReturnType<McpSdk['discoverOAuthServerInfo']>> & { resourceMetadataUrl?: string };

/** Returns the name of the authorization server. */
export const issuerOf = ({ authorizationServerMetadata, authorizationServerUrl }: Discovery): string =>
  authorizationServerMetadata?.issuer ?? authorizationServerUrl;

/** Returns true if both name one authorization server: a slash at the end makes no difference. */
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
  let resourceMetadata = await metadataOfResource(sdk, url, documents, resourceMetadataUrl);
  if (resourceMetadata === undefined && resourceMetadataUrl !== undefined) {
    // The address that the server named has no metadata; the address of the standard may.
    resourceMetadataUrl = undefined;
    documents = new OAuthDocuments(url, fetchFn);
    resourceMetadata = await metadataOfResource(sdk, url, documents, undefined);
  }
  const listed = resourceMetadata?.authorization_servers ?? [];
  const isNamed = listed.length > 0;
  const found: Discovery = {
    ...(await firstOf(
      sdk,
      inOrder(isNamed ? listed : [settings.issuer ?? new URL('/', url).href], settings.issuer, before),
      documents,
    )),
    ...(resourceMetadata && { resourceMetadata }),
  };
  const named = found.authorizationServerUrl;
  if (found.authorizationServerMetadata === undefined && documents.broken !== undefined) {
    throw fail('login_failed', `the metadata at ${documents.broken}; the operator of that server has to correct them`);
  }
  const issuer = issuerOf(found);
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

/** Returns the listed authorization servers: only the configured one if it is listed, else that of the last sign-in first. */
function inOrder(listed: readonly string[], only: string | undefined, before: string | undefined): readonly string[] {
  const [allowed] = listed.filter((each) => only !== undefined && isSameIssuer(each, only));
  if (allowed !== undefined) return [allowed];
  const isKnown = (each: string): boolean => before !== undefined && isSameIssuer(each, before);
  return [...listed.filter(isKnown), ...listed.filter((each) => !isKnown(each))].slice(0, MAX_SERVERS);
}

/**
 * Returns the first of the authorization servers that has metadata; else the first. Rejects as its requests do if none
 * has.
 */
async function firstOf(
  sdk: McpSdk,
  servers: readonly string[],
  documents: OAuthDocuments,
): Promise<Pick<Discovery, 'authorizationServerUrl' | 'authorizationServerMetadata'>> {
  let failure: unknown;
  for (const authorizationServerUrl of servers) {
    try {
      const authorizationServerMetadata =
        (await throughDocuments(documents, (fetchFn) =>
          // `discovered` compares the issuer, and ignores a slash at the end.
          sdk.discoverAuthorizationServerMetadata(authorizationServerUrl, { skipIssuerValidation: true, fetchFn }),
        )) ?? (await elsewhere(authorizationServerUrl, documents));
      if (authorizationServerMetadata !== undefined) return { authorizationServerUrl, authorizationServerMetadata };
    } catch (thrown) {
      failure ??= thrown;
    }
  }
  if (failure !== undefined) throw failure;
  return { authorizationServerUrl: servers[0]! };
}

const metadataOfResource = (
  sdk: McpSdk,
  url: string,
  documents: OAuthDocuments,
  at: string | undefined,
): Promise<Discovery['resourceMetadata']> =>
  throughDocuments(documents, (fetchFn) =>
    sdk
      .discoverOAuthProtectedResourceMetadata(url, at === undefined ? {} : { resourceMetadataUrl: at }, fetchFn)
      .catch(() => undefined),
  );

/** Runs a step of the official client, which does without documents that it could not get: their refusals are thrown. */
async function throughDocuments<T>(documents: OAuthDocuments, step: (fetchFn: typeof fetch) => Promise<T>): Promise<T> {
  let refusal: unknown;
  const fetchFn = (address: string | URL, init: object): Promise<Response> =>
    documents.fetch(address, init).catch((thrown: unknown) => {
      refusal ??= thrown;
      throw thrown;
    });
  const found = await step(fetchFn as never).catch((thrown: unknown) => {
    throw refusal ?? thrown;
  });
  if (refusal !== undefined) throw refusal;
  return found;
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

/** Returns the resource that tokens are for, as the server writes it; undefined without metadata. */
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

/**
 * This client at an authorization server, as the configuration describes it.
 */

/** This client at the authorization server, if it was registered by hand. */
export interface OAuthSettings {
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  /** Address of the document that describes this client, for authorization servers that read one. */
  readonly clientMetadataUrl?: string | undefined;
  /** The only authorization server that may be used. */
  readonly issuer?: string | undefined;
  readonly scope?: string | undefined;
  /** No person signs in: the client does by itself, with its secret or with a private key. */
  readonly clientCredentials?: boolean | undefined;
  /** The key in PKCS #8, as PEM. */
  readonly privateKey?: string | undefined;
  /** Its algorithm. Default ES256. */
  readonly signingAlgorithm?: string | undefined;
  /** Port of the address to which a browser returns, if it is registered. */
  readonly callbackPort?: number | undefined;
}

/** Returns the registration, with the secret of the configuration, which is not stored. */
export function clientOf(
  client: Readonly<Record<string, unknown>>,
  { clientId, clientSecret }: OAuthSettings,
): Readonly<Record<string, unknown>> {
  if (clientId === undefined) return client;
  return { ...client, client_id: clientId, ...(clientSecret !== undefined && { client_secret: clientSecret }) };
}

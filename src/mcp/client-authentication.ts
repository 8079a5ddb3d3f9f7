/**
 * Authenticates the client to token and revocation endpoints: by its secret in a header or in the form, or not at all (RFC 6749,
 * section 2.3.1). The official client does not encode the secret in the header. Pure.
 */

/** The methods of one client, the preferred one first. */
const METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const;

/** Returns the method that a new registration asks for: a program of a user has no secret to prove itself with. */
export const methodToRegister = (supported: readonly string[] | undefined): string | undefined =>
  ['none', ...METHODS].find((method) => supported?.includes(method));

/**
 * Adds the client's authentication to a request.
 * @param client as it was registered
 * @param supported the methods of the endpoint; none: not known
 */
export function proveClient(
  client: Readonly<Record<string, unknown>>,
  supported: readonly string[] = [],
  headers: Headers,
  params: URLSearchParams,
): void {
  const id = String(client.client_id ?? '');
  const secret = typeof client.client_secret === 'string' ? client.client_secret : undefined;
  const usable = METHODS.filter((method) => method === 'none' || secret !== undefined);
  const allowed = usable.filter((method) => supported.length === 0 || supported.includes(method));
  const method =
    allowed.find((each) => each === client.token_endpoint_auth_method) ??
    allowed[0] ??
    (secret === undefined ? 'none' : 'client_secret_post');
  if (method === 'client_secret_basic') {
    headers.set('authorization', `Basic ${btoa(`${formEncoded(id)}:${formEncoded(secret!)}`)}`);
    return;
  }
  params.set('client_id', id);
  if (method === 'client_secret_post') params.set('client_secret', secret!);
}

const formEncoded = (text: string): string => encodeURIComponent(text).replaceAll('%20', '+');

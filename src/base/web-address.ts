/**
 * Addresses of WebSockets, as users write them.
 */

/**
 * Returns `ws(s)://host:port/path` for `http(s)://` or `ws(s)://host:port`; an address with a path stays unchanged.
 * Undefined for other schemes.
 */
export function webSocketAddress(address: string, path: string): string | undefined {
  const [, tls, authority, rest] = /^(?:http|ws)(s?):\/\/([^/?#]+)(.*)$/.exec(address) ?? [];
  if (authority === undefined) return undefined;
  if (rest !== '' && rest !== '/') return address;
  return `ws${tls}://${authority}${path}`;
}

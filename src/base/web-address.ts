/** Addresses of WebSockets, as users write them. Used by the clients of sessions, and by pages. */

/** `ws(s)://host:port/path` of `http(s)://` or `ws(s)://host:port`; one with a path stays. Undefined for other schemes. */
export function webSocketAddress(address: string, path: string): string | undefined {
  const [, tls, authority, rest] = /^(?:http|ws)(s?):\/\/([^/?#]+)(.*)$/.exec(address) ?? [];
  if (authority === undefined) return undefined;
  if (rest !== '' && rest !== '/') return address;
  return `ws${tls}://${authority}${path}`;
}

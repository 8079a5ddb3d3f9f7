/**
 * Decides whether a request may come near anything at all: does it mean this server, and did it come from a page that may
 * talk to it? A page of another site that got a name to point here (DNS rebinding) or that posts blindly is refused.
 *
 * Called by `http.ts` before routing and before an upgrade; pure. Rule: SECURITY.md#threat-model, web pages.
 */
import type { IncomingMessage } from 'node:http';

export interface GuardOptions {
  /** The port the server is bound to. */
  readonly port: number;
  /** The address it is configured to bind to. */
  readonly host: string;
  /** Further names it is called by: `name` with any port, or `name:port`. */
  readonly allowedHosts: readonly string[];
  /** Origins of pages, besides its own, that may talk to it, e.g. `https://console.example.org`. */
  readonly allowedOrigins: readonly string[];
}

/** True = let it in. */
export type Guard = (request: Pick<IncomingMessage, 'rawHeaders'>) => boolean;

/** The loopback names under which a server is always reached. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** Addresses that mean "every interface" and so name no host. */
const WILDCARDS = new Set(['', '0.0.0.0', '::']);

/**
 * - Exactly one `Host`, naming this server and its port.
 * - At most one `Origin`: a page this server served itself, or one of `allowedOrigins`. `null` never is.
 * - `Sec-Fetch-Site: cross-site` only from `allowedOrigins`.
 */
export function requestGuard({ port, host, allowedHosts, allowedOrigins }: GuardOptions): Guard {
  const names = WILDCARDS.has(host) ? LOOPBACK_NAMES : [...LOOPBACK_NAMES, host.includes(':') ? `[${host}]` : host];
  const exact = new Set(names.map((name) => `${name.toLowerCase()}:${port}`));
  // Clients leave the port out when it is the one of the scheme.
  if (port === 80) for (const name of names) exact.add(name.toLowerCase());
  const anyPort = new Set<string>();
  for (const entry of allowedHosts) (HAS_PORT.test(entry) ? exact : anyPort).add(entry.toLowerCase());
  const origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase()));
  origins.delete('null');

  return ({ rawHeaders }) => {
    let hostHeader: string | undefined;
    let origin: string | undefined;
    let crossSite = false;
    // Only the raw list shows a header that was sent twice.
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index]!;
      if (name.length === 4) {
        if (name.toLowerCase() !== 'host') continue;
        if (hostHeader !== undefined) return false;
        hostHeader = rawHeaders[index + 1]!.toLowerCase();
      } else if (name.length === 6) {
        if (name.toLowerCase() !== 'origin') continue;
        if (origin !== undefined) return false;
        origin = rawHeaders[index + 1]!.toLowerCase();
      } else if (name.length === 14 && name.toLowerCase() === 'sec-fetch-site') {
        crossSite ||= rawHeaders[index + 1]!.toLowerCase() === 'cross-site';
      }
    }
    if (hostHeader === undefined) return false;
    if (!exact.has(hostHeader) && !anyPort.has(hostHeader.replace(HAS_PORT, ''))) return false;
    if (origin === undefined) return !crossSite;
    if (origins.has(origin)) return true;
    return !crossSite && (origin === `http://${hostHeader}` || origin === `https://${hostHeader}`);
  };
}

const HAS_PORT = /:\d{1,5}$/;

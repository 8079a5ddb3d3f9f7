/**
 * Decides whether a request may come near anything at all: does it mean this server, and did it come from a page that may
 * talk to it? A page of another site that got a name to point here (DNS rebinding) or that posts blindly is refused.
 *
 * It decides before routing and before an upgrade. Pure. Rule: SECURITY.md#threat-model, web pages.
 */
import type { IncomingMessage } from 'node:http';
import { shown } from '../../wire/codec.ts';

export interface GuardOptions {
  /** The port the server is bound to. */
  readonly port: number;
  /** The address it is configured to bind to. */
  readonly host: string;
  /** Further names of it: `name` with any port, or `name:port`. */
  readonly allowedHosts: readonly string[];
  /** Origins of pages, besides its own, that may talk to it, e.g. `https://console.example.org`. */
  readonly allowedOrigins: readonly string[];
}

/** The reason to refuse a request, for its sender; undefined lets it in. */
export type Guard = (request: Pick<IncomingMessage, 'rawHeaders'>) => string | undefined;

const ONE_HOST = 'a request needs exactly one Host header';
const ONE_ORIGIN = 'a request has at most one Origin header';
const OTHER_SITE = 'a page of another site sent this request';

/** The loopback names under which a server is always reached. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** Addresses that mean "every interface" and so name no host. */
const WILDCARDS = new Set(['', '0.0.0.0', '::']);

/**
 * Makes the guard of a port, with these rules:
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
        if (hostHeader !== undefined) return ONE_HOST;
        hostHeader = rawHeaders[index + 1]!.toLowerCase();
      } else if (name.length === 6) {
        if (name.toLowerCase() !== 'origin') continue;
        if (origin !== undefined) return ONE_ORIGIN;
        origin = rawHeaders[index + 1]!.toLowerCase();
      } else if (name.length === 14 && name.toLowerCase() === 'sec-fetch-site') {
        crossSite ||= rawHeaders[index + 1]!.toLowerCase() === 'cross-site';
      }
    }
    if (hostHeader === undefined) return ONE_HOST;
    const hostName = hostHeader.replace(HAS_PORT, '');
    if (!exact.has(hostHeader) && !anyPort.has(hostName)) {
      return `this server is not called ${shown(hostHeader)}: add ${shown(hostName)} to http.allowed_hosts where it is, as behind a forwarded port`;
    }
    if (origin === undefined) return crossSite ? OTHER_SITE : undefined;
    if (origins.has(origin)) return undefined;
    if (!crossSite && (origin === `http://${hostHeader}` || origin === `https://${hostHeader}`)) return undefined;
    return `pages of ${shown(origin)} may not use this server: add it to http.allowed_origins if they should`;
  };
}

const HAS_PORT = /:\d{1,5}$/;

/**
 * Reads the challenge of a server that refuses a request: the header `WWW-Authenticate`, in which servers name several schemes, in letters
 * of either case, with quotes or without (RFC 9110, section 11.6.1). Pure.
 */
import type { Challenge } from './authorization.ts';

const SCHEME = /(?:^|,)\s*(bearer|dpop)(?=\s|,|$)/gi;
const MAX_HEADER = 8_192;

/** Returns the challenge of the scheme `Bearer`, or `DPoP`; empty without one. */
export function challengeOf({ headers }: Response): Challenge {
  const header = (headers.get('www-authenticate') ?? '').slice(0, MAX_HEADER);
  // A word within quotes is not a scheme.
  const bare = header.replaceAll(/"(?:[^"\\]|\\.)*"/g, (quoted) => '"'.padEnd(quoted.length, '"'));
  for (const { index, 0: found } of bare.matchAll(SCHEME)) {
    const params = paramsOf(header.slice(index + found.length));
    const { scope, resource_metadata: address } = params;
    const resourceMetadataUrl = address === undefined ? undefined : (URL.parse(address) ?? undefined);
    if (scope !== undefined || resourceMetadataUrl !== undefined) return { scope, resourceMetadataUrl };
  }
  return {};
}

const PARAM = /^[\s,]*([\w-]{1,64})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/;

/** Returns the parameters up to the next scheme. */
function paramsOf(text: string): Readonly<Record<string, string | undefined>> {
  const params: Record<string, string | undefined> = Object.create(null);
  for (let rest = text; ; ) {
    const found = PARAM.exec(rest);
    if (found === null) return params;
    const [whole, name = '', quoted, plain = ''] = found;
    const value = quoted === undefined ? plain : quoted.replaceAll(/\\(.)/g, '$1');
    if (value !== '') params[name.toLowerCase()] ??= value;
    rest = rest.slice(whole.length);
  }
}

/**
 * The headers in which a request of the stateless revision repeats parts of its body, so that proxies can route it without
 * reading it. Header and body must agree. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type HeaderParam, headerText } from '../../mcp-endpoint/header-params.ts';
import { META_VERSION, metaOf, type Params } from '../../mcp-endpoint/protocol.ts';

/** The member of the params that `Mcp-Name` repeats, by method. */
const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

/** Returns the fault in the headers; undefined when they fit. */
export function headerMismatch(
  { kind, method, params }: { readonly kind: string; readonly method: string; readonly params: Params },
  headers: IncomingHttpHeaders,
): string | undefined {
  const version = headers['mcp-protocol-version'];
  const claimed = metaOf(params)[META_VERSION];
  if (version === undefined) return 'the MCP-Protocol-Version header is missing';
  if (claimed !== undefined && claimed !== version) {
    return 'the MCP-Protocol-Version header names another version than the body';
  }
  const named = headers['mcp-method'];
  if (named === undefined) return kind === 'notification' ? undefined : 'the Mcp-Method header is missing';
  if (named !== method) return 'the Mcp-Method header names another method than the body';
  const member = Object.hasOwn(NAMED, method) ? NAMED[method] : undefined;
  const value = member === undefined ? undefined : params[member];
  if (typeof value !== 'string') return undefined;
  const name = headers['mcp-name'];
  if (name === undefined) return 'the Mcp-Name header is missing';
  return decoded(String(name)) === value ? undefined : 'the Mcp-Name header names another thing than the body';
}

/** Returns the fault in the headers that repeat arguments of a call; undefined when they fit. */
export function paramMismatch(
  expected: readonly HeaderParam[],
  { arguments: args }: Params,
  headers: IncomingHttpHeaders,
): string | undefined {
  for (const param of expected) {
    const text = headerText(param, args);
    const header = headers[param.header];
    if (text === undefined && header === undefined) continue;
    const argument = param.path.join('.');
    if (header === undefined) return `the ${param.header} header, which repeats the argument ${argument}, is missing`;
    if (text === undefined || decoded(String(header)) !== text) {
      return `the ${param.header} header names another value than the argument ${argument}`;
    }
  }
  return undefined;
}

/** Decodes a header value: a value that a header cannot hold is sent in base64 between marks. */
export function decoded(value: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/s.exec(value)?.[1];
  if (encoded === undefined) return value;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded ? bytes.toString('utf8') : undefined;
}

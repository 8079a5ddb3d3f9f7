/**
 * What a principal may do with MCP servers, by its grant `mcp` and the configuration. Pure; asked by `plugin.ts` and for every
 * tool that is listed or called.
 */
import { type CommandRule, commandRule, fitsWords } from '../../base/wildcard.ts';
import type { Principal } from '../../host/context.ts';
import { grantOf, may, named } from '../../session/rights.ts';

/** What `grants.mcp` of a token may hold. */
export interface McpGrant {
  /** Servers of the configuration it may use; `*` stands for any letters. Default all. */
  readonly servers?: readonly string[];
  /** Command lines and addresses it may add for its sessions. Default none. */
  readonly register?: readonly string[];
  /** It may accept changed definitions. Default false. */
  readonly accept?: boolean;
}

const grant = (principal: Principal): McpGrant => (grantOf(principal, 'mcp') ?? {}) as McpGrant;

/** May use this server of the configuration, and see and call its tools. */
export const mayUseServer = (principal: Principal, server: string): boolean =>
  may(principal, 'use', 'mcp') && named(grant(principal).servers ?? ['*'], server);

export const mayAccept = (principal: Principal): boolean => grant(principal).accept ?? may(principal, 'administer');

/** What the principal may add: its own grant, or for administrators without one what the configuration has. */
export const registrable = (principal: Principal, configured: readonly string[]): readonly string[] =>
  grant(principal).register ?? (may(principal, 'administer') ? configured : []);

/**
 * The patterns that cover this command line: as many words, each of them alike, where `*` stands for any letters of one
 * word and a last `**` for any further words. In front of the words `NAME=pattern` allows a variable.
 */
export const coveringCommand = (patterns: readonly string[], argv: readonly string[]): CommandRule[] =>
  patterns.map(commandRule).filter(({ words }) => fitsWords(words, argv));

/** True when an address is below one of the patterns: the same origin, and its path at or below that of the pattern. */
export function coversUrl(patterns: readonly string[], url: URL): boolean {
  return patterns.some((pattern) => {
    if (!/^https?:\/\//.test(pattern) || !URL.canParse(pattern)) return false;
    const { origin, pathname } = new URL(pattern);
    const folder = pathname.endsWith('/') ? pathname : `${pathname}/`;
    return url.origin === origin && (url.pathname === pathname || url.pathname.startsWith(folder));
  });
}

/**
 * The rights of a principal to MCP servers, by its grant `mcp` and the configuration. Pure; checked also for every tool that is
 * listed or called.
 */
import { type CommandRule, commandRule, fitsWords } from '../../base/wildcard.ts';
import type { Principal } from '../../host/context.ts';
import { grantOf, may, named } from '../../session/rights.ts';

/** The members of `grants.mcp` of a token. */
export interface McpGrant {
  /** Servers of the configuration it may use; `*` stands for any letters. Default all. */
  readonly servers?: readonly string[];
  /** Command lines and addresses it may add for its sessions. Default none. */
  readonly register?: readonly string[];
  /** True: the principal may accept changed definitions. Default false. */
  readonly accept?: boolean;
}

const grant = (principal: Principal): McpGrant => (grantOf(principal, 'mcp') ?? {}) as McpGrant;

/** Returns true if the principal may use this server of the configuration, and see and call its tools. */
export const mayUseServer = (principal: Principal, server: string): boolean =>
  may(principal, 'use', 'mcp') && named(grant(principal).servers ?? ['*'], server);

export const mayAccept = (principal: Principal): boolean => grant(principal).accept ?? may(principal, 'administer');

/**
 * Returns the patterns of the servers that the principal may add: those of its grant, or for administrators without one those
 * of the configuration.
 */
export const registrable = (principal: Principal, configured: readonly string[]): readonly string[] =>
  grant(principal).register ?? (may(principal, 'administer') ? configured : []);

/**
 * Returns the patterns that cover this command line: the number of words must be equal, and each word must match, where `*`
 * stands for any letters of one word and a last `**` for any further words. In front of the words `NAME=pattern` allows a
 * variable.
 */
export const coveringCommand = (patterns: readonly string[], argv: readonly string[]): CommandRule[] =>
  patterns.map(commandRule).filter(({ words }) => fitsWords(words, argv));

/**
 * Returns true when an address is below one of the patterns: the origin is equal, and its path is at or below that of the
 * pattern.
 */
export function coversUrl(patterns: readonly string[], url: URL): boolean {
  return patterns.some((pattern) => {
    if (!/^https?:\/\//.test(pattern) || !URL.canParse(pattern)) return false;
    const { origin, pathname } = new URL(pattern);
    const folder = pathname.endsWith('/') ? pathname : `${pathname}/`;
    return url.origin === origin && (url.pathname === pathname || url.pathname.startsWith(folder));
  });
}

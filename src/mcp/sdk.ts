/**
 * Loads the official client of the Model Context Protocol, an optional peer, with the first server. The adapter file of
 * the package: the only one that names it.
 *
 * Public declarations must not name its types: users may not have the package.
 */
import { fail } from '../wire/errors.ts';

export type { AuthProvider, Client, InsufficientScopeError, Transport } from '@modelcontextprotocol/client';
export type McpSdk = typeof import('@modelcontextprotocol/client');

const PACKAGE = '@modelcontextprotocol/client';

/** Loads the package. Fails with `not_configured`, whose message names the package to install, if it cannot be loaded. */
export async function requireMcpClient(): Promise<void> {
  await loadMcpClient();
}

/** Returns the package. Fails as {@link requireMcpClient} does. */
export async function loadMcpClient(): Promise<McpSdk> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message;
    throw fail('not_configured', `MCP servers need the package ${PACKAGE}; ${why}`, undefined, error);
  }
}

/**
 * The MCP servers that clients name for their sessions: programs, in the folder of the session and counted as programs of its
 * owner, and addresses of streamable HTTP.
 *
 * Loaded with the first such session. `control/rounds/mcp-tools.ts` decides when they start.
 */
import { realpath } from 'node:fs/promises';
import { mcpServersOf, refusedMcpServers } from '../../acp/mcp-servers.ts';
import type { McpServer as AcpServer } from '../../acp/sdk.ts';
import type { PathGuard } from '../../base/workspace/protected-paths.ts';
import type { ConfigTrust } from '../../config/config.ts';
import type { OpenMcpServer } from '../../control/rounds/mcp-tools.ts';
import type { HostSlots } from '../../host/host-limits.ts';
import type { McpAddress } from '../../mcp/definition.ts';
import { McpServer } from '../../mcp/server.ts';
import { may } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';

export interface McpPeersOptions {
  /** Programs that may run at once, in shares of their owners. */
  readonly processes: HostSlots['processes'];
  readonly trust?: ConfigTrust | undefined;
  /** Protects paths from the programs of principals who are not administrators. */
  readonly guard?: PathGuard | undefined;
}

/** Makes servers that start when they are used. Rejects with `schema_violation` for one that cannot be reached from here. */
export function mcpPeers({ processes, trust, guard }: McpPeersOptions): OpenMcpServer {
  return async (given, { cwd, principal }) => {
    const { stdio, ...http } = addressOf(given);
    const cover =
      guard === undefined || may(principal, 'administer') ? undefined : { guard, workspace: await realpath(cwd) };
    return new McpServer({
      address: stdio === undefined ? http : { stdio: { ...stdio, cover } },
      cwd,
      // The user of the session answers.
      allowed: { elicitation: true },
      async acquire(signal) {
        await trust?.confirm();
        return stdio === undefined ? undefined : processes.acquire(principal.name, signal);
      },
    });
  };
}

/** Reads the server as its client named it: in the form of the Agent Client Protocol, or of configuration files. */
function addressOf(given: Readonly<Record<string, unknown>>): McpAddress {
  const here = { mcpCapabilities: { http: true, sse: false } };
  const [refused] = refusedMcpServers([given], here);
  if (refused !== undefined) throw fail('schema_violation', refused.reason);
  const server = mcpServersOf([given], here)[0] as AcpServer;
  const map = (pairs: readonly { name: string; value: string }[]) =>
    Object.fromEntries(pairs.map(({ name, value }) => [name, value]));
  if ('url' in server) return { http: { url: server.url, headers: map(server.headers) } };
  return { stdio: { command: server.command, args: server.args, env: map(server.env) } };
}

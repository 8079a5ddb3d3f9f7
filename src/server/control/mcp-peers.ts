/**
 * Connects sessions of this process to the MCP servers that their clients named: programs, in the folder of the session and
 * counted as programs of its owner, and addresses of streamable HTTP.
 *
 * Used by `control-assembly.ts`, which loads it with the first such session. `control/rounds/mcp-tools.ts` decides when.
 */
import { mcpServersOf, refusedMcpServers } from '../../acp/mcp-servers.ts';
import type { McpServer } from '../../acp/sdk.ts';
import type { ConfigTrust } from '../../config/config.ts';
import type { ConnectMcp, McpPeer, McpResult } from '../../control/rounds/mcp-tools.ts';
import type { HostSlots } from '../../host/host-limits.ts';
import { connectMcp, type McpAddress } from '../../mcp/connection.ts';
import { fail } from '../../wire/errors.ts';

export interface McpPeersOptions {
  /** Programs that may run at once, in shares of their owners. */
  readonly processes: HostSlots['processes'];
  readonly trust?: ConfigTrust | undefined;
}

/** Resolves `ended` when its server has closed it. */
type EndingPeer = McpPeer & { readonly ended: Promise<void> };

/** Connects. Rejects with `not_configured` without the client package, `schema_violation`, `over_capacity`, `unreachable`. */
export function mcpPeers({ processes, trust }: McpPeersOptions): ConnectMcp {
  return async (given, { cwd, principal, signal }) => {
    const address = addressOf(given);
    await trust?.confirm();
    const free = address.stdio === undefined ? undefined : await processes.acquire(principal.name, signal);
    try {
      const peer = await connectMcp(address, { cwd, signal }, async (connection): Promise<EndingPeer> => {
        let isClosed = false;
        const ended = connection.closed.then(() => {
          isClosed = true;
        });
        const tools = await connection.tools();
        return {
          tools: tools as McpPeer['tools'],
          get isClosed() {
            return isClosed;
          },
          call: async (name, args, options) => (await connection.call(name, args, options)) as McpResult,
          async close() {
            await connection.end();
            free?.();
          },
          ended,
        };
      });
      // A program that ends by itself leaves its place.
      void peer.ended.then(() => peer.close());
      return peer;
    } catch (error) {
      free?.();
      throw error;
    }
  };
}

/** The server as its client named it: in the form of the Agent Client Protocol, or of configuration files. */
function addressOf(given: Readonly<Record<string, unknown>>): McpAddress {
  const here = { mcpCapabilities: { http: true, sse: false } };
  const [refused] = refusedMcpServers([given], here);
  if (refused !== undefined) throw fail('schema_violation', refused.reason);
  const server = mcpServersOf([given], here)[0] as McpServer;
  const map = (pairs: readonly { name: string; value: string }[]) =>
    Object.fromEntries(pairs.map(({ name, value }) => [name, value]));
  if ('url' in server) return { http: { url: server.url, headers: map(server.headers) } };
  return { stdio: { command: server.command, args: server.args, env: map(server.env) } };
}

/**
 * The MCP servers of a session as the Agent Client Protocol has them. Pure.
 *
 * Clients write them as that protocol does, or as most configuration files do: `env` and `headers` as objects, `args`
 * left out. An entry of neither form is left out, because an agent would refuse the whole session for it, and reported
 * to the user.
 */
import type { AgentCapabilities, McpServer } from './sdk.ts';

type Given = Readonly<Record<string, unknown>>;

/** Returns the servers that the agent can connect to. */
export function mcpServersOf(servers: readonly Given[] = [], capabilities: AgentCapabilities): McpServer[] {
  return servers.map((server) => read(server, capabilities)).filter((server) => typeof server !== 'string');
}

/** Returns the servers that are left out, each with its name and the reason, for the user. */
export function refusedMcpServers(
  servers: readonly Given[] = [],
  capabilities: AgentCapabilities,
): { readonly name: string; readonly reason: string }[] {
  return servers.flatMap((server) => {
    const reason = read(server, capabilities);
    return typeof reason === 'string' ? [{ name: typeof server.name === 'string' ? server.name : '', reason }] : [];
  });
}

/** Returns the server in the form of the protocol, or the reason why it is left out. */
function read(server: Given, { mcpCapabilities }: AgentCapabilities): McpServer | string {
  const { type, name, url, command, args } = server;
  if (typeof name !== 'string') return 'it has no name';
  if (type === 'http' || type === 'sse') {
    if (typeof url !== 'string') return 'it has no url';
    if (mcpCapabilities?.[type] !== true) return `MCP servers over ${type} are not supported here`;
    return { type, name, url, headers: pairs(server.headers) };
  }
  if (typeof command !== 'string') return 'it has neither a command nor a type with an url';
  const words = Array.isArray(args) ? args.filter((word): word is string => typeof word === 'string') : [];
  return { name, command, args: words, env: pairs(server.env) };
}

function pairs(value: unknown): { name: string; value: string }[] {
  const entries = Array.isArray(value)
    ? value.map((pair: Given | null) => [pair?.name, pair?.value] as const)
    : Object.entries((value ?? {}) as object);
  return entries.flatMap(([name, text]) =>
    typeof name === 'string' && typeof text === 'string' ? [{ name, value: text }] : [],
  );
}

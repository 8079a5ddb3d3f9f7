/**
 * The MCP servers of a session as the Agent Client Protocol has them. Pure;
 * called by the `acp` backend of the control edge and the `acp` executor of the fleet.
 *
 * Clients write them as that protocol does, or as most configuration files do: `env` and `headers` as objects, `args` left
 * out. What is neither is left out, because an agent would refuse the whole session for it.
 */
import type { AgentCapabilities, McpServer } from './sdk.ts';

type Given = Readonly<Record<string, unknown>>;

/** The servers the agent can connect to. */
export function mcpServersOf(servers: readonly Given[] = [], { mcpCapabilities }: AgentCapabilities): McpServer[] {
  return servers.flatMap((server): McpServer[] => {
    const { type, name, url, command, args } = server;
    if (typeof name !== 'string') return [];
    if (type === 'http' || type === 'sse') {
      if (typeof url !== 'string' || mcpCapabilities?.[type] !== true) return [];
      return [{ type, name, url, headers: pairs(server.headers) }];
    }
    if (typeof command !== 'string') return [];
    const words = Array.isArray(args) ? args.filter((word): word is string => typeof word === 'string') : [];
    return [{ name, command, args: words, env: pairs(server.env) }];
  });
}

function pairs(value: unknown): { name: string; value: string }[] {
  const entries = Array.isArray(value)
    ? value.map((pair: Given | null) => [pair?.name, pair?.value] as const)
    : Object.entries((value ?? {}) as object);
  return entries.flatMap(([name, text]) =>
    typeof name === 'string' && typeof text === 'string' ? [{ name, value: text }] : [],
  );
}

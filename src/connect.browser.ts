/**
 * `connect` of pages: reaches a host over the browser's own WebSocket. The entry point `agent.browser.ts` exports it.
 * Nothing of Node is reached from here.
 */

import { webSocketAddress } from './base/web-address.ts';
import { ToolsClient } from './capabilities/tools/client.ts';
import { type Agent, type AskingOptions, connectBy, type KnownCapability, type Wanted } from './connect-by.ts';
import { connectBrowser } from './transport/browser-websocket.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from './transport/link.ts';
import { fail } from './wire/errors.ts';

/**
 * The clients of the capabilities that come with Handfast. `capabilities/index.ts` has their declarations, which lead
 * to plugins and with them to Node. The client of a capability that is not requested is a separate file that is not
 * loaded.
 */
const clients: Readonly<Record<string, Wanted>> = {
  tools: { name: 'tools', client: (agent) => new ToolsClient(agent) },
  env: { name: 'env', client: async (agent) => new (await import('./capabilities/env/client.ts')).EnvClient(agent) },
  learning: {
    name: 'learning',
    client: async (agent) => new (await import('./capabilities/learning/client.ts')).LearningClient(agent),
  },
  mcp: {
    name: 'mcp',
    client: async (agent) => new (await import('./capabilities/mcp/client.ts')).McpClient(agent),
  },
  memory: {
    name: 'memory',
    client: async (agent) => new (await import('./capabilities/memory/client.ts')).MemoryClient(agent),
  },
  planning: {
    name: 'planning',
    client: async (agent) => new (await import('./capabilities/planning/client.ts')).PlanningClient(agent),
  },
  proc: {
    name: 'proc',
    client: async (agent) => new (await import('./capabilities/proc/client.ts')).ProcClient(agent),
  },
  chains: {
    name: 'chains',
    client: async (agent) => new (await import('./capabilities/chains/client.ts')).ChainsClient(agent),
  },
  multi_agent: {
    name: 'multi_agent',
    client: async (agent) => new (await import('./capabilities/multi_agent/client.ts')).MultiAgentClient(agent),
  },
  skill: {
    name: 'skill',
    client: async (agent) => new (await import('./capabilities/skill/client.ts')).SkillClient(agent),
  },
  toolkits: {
    name: 'toolkits',
    client: async (agent) => new (await import('./capabilities/toolkits/client.ts')).ToolkitsClient(agent),
  },
};

/**
 * Connects a page to a host.
 *
 * @param address `ws(s)://host:port/ws` or `http(s)://host:port` (its `/ws`)
 * @throws unreachable, timeout, auth_failed, version_mismatch, no_caps, server_error, cancelled, usage
 */
export async function connect<const C extends KnownCapability = never>(
  address: string,
  options: AskingOptions<C> = {},
): Promise<Agent<C>> {
  const url = webSocketAddress(String(address), '/ws');
  if (url === undefined) throw fail('usage', `a page connects to ws(s)://host:port/ws, got ${JSON.stringify(address)}`);
  const { connectTimeoutMs: timeoutMs = 10_000, maxMessageBytes = DEFAULT_MAX_MESSAGE_BYTES } = options;
  const dial = (signal?: AbortSignal) => connectBrowser(url, { signal, timeoutMs, maxMessageBytes });
  return connectBy({ dial, reconnects: true }, (name) => clients[name], options);
}

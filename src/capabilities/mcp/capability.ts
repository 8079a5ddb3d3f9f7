/** The mcp capability as a value: its parts for hosts, agents and the command line. */
import { counted } from '../../base/counted.ts';
import { defineCapability } from '../../packages/capability.ts';
import { mcpOffer } from './offer.ts';
import type { McpOptions } from './plugin.ts';

export const mcp = defineCapability({
  name: 'mcp',
  about: 'Servers of the Model Context Protocol, and their tools',
  byDefault: true,
  // The start may require servers of the configuration.
  offer: (options) => (((options as McpOptions).servers ?? []).length === 0 ? mcpOffer : undefined),
  plugin: async (options) => (await import('./plugin.ts')).mcpPlugins(options as McpOptions),
  client: async (agent) => new (await import('./client.ts')).McpClient(agent),
  commands: async () => (await import('./commands.ts')).commands,
  localCommands: async () => (await import('./sign-in-commands.ts')).localCommands,
  async check(options) {
    const { servers = [] } = options as McpOptions;
    const { requireMcpClient } = await import('../../mcp/sdk.ts');
    try {
      await requireMcpClient();
    } catch (error) {
      const fix = 'npm install @modelcontextprotocol/client';
      const status = servers.length === 0 ? 'ok' : 'fail';
      return [{ status, message: (error as Error).message, fix }];
    }
    if (servers.length === 0) {
      const fix = 'name them: plugins: [{ use: mcp, options: { servers: [...] } }], see docs/mcp.md';
      return [{ status: 'ok', message: 'no servers; agents may add what is granted', fix }];
    }
    const off = servers.filter(({ disabled }) => disabled === true).length;
    return [
      {
        status: 'ok',
        message: `${counted(servers.length, 'server')}${off > 0 ? `, ${off} of them switched off` : ''}`,
      },
    ];
  },
});

/** The part of the mcp plugin that handshakes need. */
import type { PluginOffer } from '../../host/plugin.ts';

const names = { type: 'array', items: { type: 'string', minLength: 1, maxLength: 512 }, maxItems: 1_000 } as const;

export const mcpOffer = {
  grant: {
    type: 'object',
    properties: {
      servers: {
        ...names,
        description: 'Servers of the configuration it may use; * stands for any letters. Default all.',
      },
      register: { ...names, description: 'Command lines and addresses it may add for its sessions. Default none.' },
      accept: { type: 'boolean', description: 'It may accept changed definitions of tools. Default false.' },
    },
    additionalProperties: false,
  },
  // The host's own tools come first.
  tools: { priority: -1 },
  metadata: {
    messages: [
      'mcp/server/accept/req',
      'mcp/resource/unsubscribe/req',
      'mcp/resource/template/list/req',
      'mcp/complete/req',
      'mcp/elicit/req',
    ],
  },
} as const satisfies PluginOffer;

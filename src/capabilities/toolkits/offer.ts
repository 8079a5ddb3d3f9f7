/** What handshakes say of the toolkits plugin. Read by `plugin.ts`. */
import type { PluginOffer } from '../../host/plugin.ts';

const names = { type: 'array', items: { type: 'string', minLength: 1, maxLength: 128 }, maxItems: 1_000 } as const;

export const toolkitsOffer = {
  grant: {
    type: 'object',
    properties: {
      names: {
        ...names,
        description: 'Toolkits it may use; * stands for any letters. Default: those that are on by default.',
      },
      secrets: { ...names, description: 'Secrets of the host that its configurations may name. Default none.' },
    },
    additionalProperties: false,
  },
  // It replies for names that no toolkit has: asked last.
  priority: -1,
  // Where a toolkit is enabled, its tools take the place of others of the same name.
  tools: { priority: 1 },
  metadata: {
    messages: ['describe', 'disable', 'enable', 'search'].map((name) => `toolkit/${name}/req`),
  },
} as const satisfies PluginOffer;

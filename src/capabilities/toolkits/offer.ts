/** What handshakes say of the toolkits plugin. Read by `plugin.ts`. */
import type { PluginOffer } from '../../host/plugin.ts';

const names = { type: 'array', items: { type: 'string', minLength: 1, maxLength: 128 }, maxItems: 1_000 } as const;

export const toolkitsOffer: PluginOffer = {
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
  metadata: {
    messages: ['describe', 'disable', 'enable', 'search'].map((name) => `toolkit/${name}/req`),
  },
};

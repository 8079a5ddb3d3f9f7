/** The part of the toolkits plugin that handshakes need. */
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
  // It replies for names that no toolkit has, so it is asked last.
  priority: -1,
  // Tools of an enabled toolkit replace others of the same name.
  tools: { priority: 1 },
  metadata: {
    messages: ['describe', 'disable', 'enable', 'search'].map((name) => `toolkit/${name}/req`),
  },
} as const satisfies PluginOffer;

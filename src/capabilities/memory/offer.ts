/** The part of the memory plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';

const spaceNames = { type: 'array', items: { type: 'string' }, default: [] } as const;

export const memoryOffer = (): PluginOffer => ({
  grant: {
    type: 'object',
    properties: { read: spaceNames, write: spaceNames },
    additionalProperties: false,
  },
  metadata: {
    messages: ['memory/history/req', 'memory/publish/req', 'memory/spaces/req', 'memory/stats/req', 'memory/watch/req'],
  },
});

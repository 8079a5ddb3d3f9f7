/** What handshakes need of the memory plugin, apart from its code, which hosts load later. Read by `capability.ts` and `plugin.ts`. */
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

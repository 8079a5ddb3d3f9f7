/** What handshakes need of the planning plugin, apart from its code, which hosts load later. Read by `capability.ts` and `plugin.ts`. */
import type { PluginOffer } from '../../host/plugin.ts';

const MiB = 1024 * 1024;

/** @param options.quotaBytes of plans, tasks and history of one principal; default 256 MiB */
export const planningOffer = ({
  quotaBytes = 256 * MiB,
}: {
  readonly quotaBytes?: number | undefined;
}): PluginOffer => ({
  store: { quotaBytes, opened: 'first-request' },
  grant: {
    type: 'object',
    properties: {
      access: { enum: ['read', 'write'], default: 'write' },
      share: { type: 'boolean', default: true },
    },
    additionalProperties: false,
  },
});

/** The part of the env plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';
import type { Durability } from './durable.ts';

/**
 * @param environments number of environments on offer
 * @param durability as in the options; without it no store is needed, and several hosts of one user may run concurrently
 */
export const envOffer = (environments: number, durability: Durability | undefined): PluginOffer => ({
  grant: {
    type: 'object',
    properties: { environments: { type: 'array', items: { type: 'string' } } },
    additionalProperties: false,
  },
  metadata: {
    environments,
    messages: ['env/check/req', 'env/contains/req', 'env/list/req', 'env/sample/req', 'env/spaces/req'],
  },
  ...(durability !== undefined && { store: { opened: 'first-request' } }),
});

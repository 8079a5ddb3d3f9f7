/** The part of the proc plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';

/** The requests that A2E 1.0 does not have. */
const MESSAGES = ['ack', 'read', 'resize'].map((name) => `proc/${name}/req`);

export const procOffer = (): PluginOffer => ({
  grant: {
    type: 'object',
    properties: {
      programs: { type: 'array', items: { type: 'string' } },
      max_processes: { type: 'integer', minimum: 0 },
    },
    additionalProperties: false,
  },
  metadata: { messages: MESSAGES },
});

/** The env capability as a value: what hosts, agents and the command line need of it. Listed in `capabilities/index.ts`. */
import { defineCapability } from '../../packages/capability.ts';
import { EnvClient } from './client.ts';

export const env = defineCapability({
  name: 'env',
  about: 'Environments with the Gymnasium contract: episodes of steps, observations and rewards',
  byDefault: true,
  plugin: async (options) => (await import('./plugin.ts')).envPlugin(options),
  client: (agent) => new EnvClient(agent),
});

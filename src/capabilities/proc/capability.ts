/** The proc capability as a value: what hosts, agents and the command line need of it. Listed in `capabilities/index.ts`. */
import { defineCapability } from '../../packages/capability.ts';
import { procOffer } from './offer.ts';
import type { ProcPluginOptions } from './processes.ts';

export const proc = defineCapability({
  name: 'proc',
  about: 'Programs that agents start, write to, read and end; only those that are named',
  byDefault: true,
  offer: procOffer,
  plugin: async (options) => (await import('./plugin.ts')).procPlugin(options as ProcPluginOptions),
  client: async (agent) => new (await import('./client.ts')).ProcClient(agent),
  check(options) {
    const { programs = [] } = options as ProcPluginOptions;
    if (programs.length > 0) {
      return [{ status: 'ok', message: `${programs.join(', ')}; with the rights of the host, outside any sandbox` }];
    }
    return [{ status: 'ok', message: 'no program may run that neither `programs` of its options nor a grant names' }];
  },
  commands: async () => (await import('./commands.ts')).commands,
});

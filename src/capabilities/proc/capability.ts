/** The proc capability as a value: its parts for hosts, agents and the command line. */
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
  async check(options) {
    const { programs = [] } = options as ProcPluginOptions;
    const terminals = (await import('../../base/pseudo-terminal.ts')).whyNoTerminals();
    const withTerminals = terminals === undefined ? 'on pipes and terminals' : `on pipes; ${terminals}`;
    if (programs.length > 0) {
      const message = `${programs.join(', ')}; with the rights of the host, outside any sandbox; ${withTerminals}`;
      return [{ status: 'ok', message }];
    }
    const fix = 'name programs: plugins: [{ use: proc, options: { programs: [make] } }], or grant them to a token';
    return [{ status: 'ok', message: `no program may run: none is named; ${withTerminals}`, fix }];
  },
  commands: async () => (await import('./commands.ts')).commands,
});

/** The multi_agent capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';
import { multiAgentOffer } from './offer.ts';
import type { MultiAgentPluginOptions } from './plugin.ts';

export const multiAgent = defineCapability({
  name: 'multi_agent',
  about: 'Subagents that agents make, give tasks to and wait for; only of kinds that are configured',
  byDefault: true,
  offer: (options) => multiAgentOffer(options as MultiAgentPluginOptions),
  plugin: async (options) => (await import('./plugin.ts')).multiAgentPlugin(options as MultiAgentPluginOptions),
  client: async (agent) => new (await import('./client.ts')).MultiAgentClient(agent),
  commandName: 'agents',
  commands: async () => (await import('./commands.ts')).commands,
  check(options) {
    const { kinds = [] } = options as MultiAgentPluginOptions;
    const names = kinds.map(({ name }) => name).join(', ');
    if (names !== '') return [{ status: 'ok', message: names }];
    const fix = 'name kinds: plugins: [{ use: multi_agent, options: { kinds: [...] } }], see docs/multi-agent.md';
    return [{ status: 'ok', message: 'no kind of subagent is configured, so none can be made', fix }];
  },
});

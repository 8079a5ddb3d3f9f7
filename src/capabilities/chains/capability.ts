/** The chains capability as a value: its parts for hosts, agents and the command line. */
import { counted } from '../../base/counted.ts';
import { nextTurn } from '../../base/next-turn.ts';
import { defineCapability } from '../../packages/capability.ts';
import { CHAIN_DEFAULTS, chainsOffer } from './offer.ts';
import type { ChainsOptions } from './plugin.ts';

/** Parts of the plugin's code; each loads the modules that the next part needs. */
const PARTS: readonly (() => Promise<unknown>)[] = [
  () => import('./messages.ts'),
  () => import('../multi_agent/messages.ts'),
  () => import('../proc/messages.ts'),
  () => import('./definition/read.ts'),
  () => import('./calls.ts'),
  () => import('./runs.ts'),
];

export const chains = defineCapability({
  name: 'chains',
  about: 'Chains of calls, as graphs that run in parallel and continue after the host was killed',
  byDefault: true,
  offer: (options) => chainsOffer(options as ChainsOptions),
  // Agents never load the plugin. Loading all of its code at once would hold the host: it includes the messages of five
  // capabilities.
  async plugin(options) {
    for (const load of PARTS) {
      await load();
      await new Promise<void>(nextTurn);
    }
    return (await import('./plugin.ts')).chainsPlugin(options as ChainsOptions);
  },
  check(options) {
    const { durable, maxNodes, maxRunning } = { ...CHAIN_DEFAULTS, ...(options as ChainsOptions) };
    const survive = durable ? 'runs are journaled and can be resumed' : 'runs are journaled where their request asks';
    return [
      {
        status: 'ok',
        message: `chains of at most ${counted(maxNodes, 'node')}, ${counted(maxRunning, 'run')} of a principal; ${survive}`,
      },
    ];
  },
  client: async (agent) => new (await import('./client.ts')).ChainsClient(agent),
  commandName: 'chain',
  commands: async () => (await import('./commands.ts')).commands,
  localCommands: async () => (await import('./local-commands.ts')).localCommands,
});

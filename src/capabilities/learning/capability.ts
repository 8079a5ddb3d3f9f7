/** The learning capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { learningOffer } from './offer.ts';
import type { LearningOptions } from './plugin.ts';

export const learning = defineCapability({
  name: 'learning',
  about: 'Chooses among tools, skills, models and prompts, and learns from rewards',
  byDefault: true,
  offer: (options) => learningOffer({ ...DEFAULT_LIMITS, ...(options as LearningOptions) }),
  plugin: async (options) => (await import('./plugin.ts')).learningPlugin(options as LearningOptions),
  check(options) {
    const { maxChoices, logRows } = { ...DEFAULT_LIMITS, ...(options as LearningOptions) };
    return [
      { status: 'ok', message: `at most ${maxChoices} choices of each agent, with their last ${logRows} decisions` },
    ];
  },
  client: async (agent) => new (await import('./client.ts')).LearningClient(agent),
  commands: async () => (await import('./commands.ts')).commands,
});

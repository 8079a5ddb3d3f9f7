/** The planning capability as a value: its parts for hosts, agents and the command line. */
import { counted } from '../../base/counted.ts';
import { defineCapability } from '../../packages/capability.ts';
import { noteOnRetry } from './dispatched.ts';
import { PLAN_LIMITS, planningOffer } from './offer.ts';
import type { PlanningOptions } from './plugin.ts';

export const planning = defineCapability({
  name: 'planning',
  about: 'Plans of tasks with dependencies, that agents claim, follow and finish',
  byDefault: true,
  offer: (options) => planningOffer(options as PlanningOptions),
  // Agents never load the plugin.
  plugin: async (options) => (await import('./plugin.ts')).planningPlugin(options as PlanningOptions),
  check(options) {
    const { maxPlans, maxTasks } = { ...PLAN_LIMITS, ...(options as PlanningOptions) };
    return [
      {
        status: 'ok',
        message: `at most ${counted(maxPlans, 'plan')} of ${counted(maxTasks, 'task')} of each principal; its agents share them`,
      },
    ];
  },
  client: async (agent) => new (await import('./client.ts')).PlanningClient(agent),
  commandName: 'plan',
  retryNote: noteOnRetry,
  commands: async () => (await import('./commands.ts')).commands,
});

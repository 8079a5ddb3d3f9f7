/** The skill capability as a value: its parts for hosts, agents and the command line. */
import { defineCapability } from '../../packages/capability.ts';
import { skillOffer } from './offer.ts';
import type { SkillPluginOptions } from './plugin.ts';
import { skillRoots } from './roots.ts';

export const skill = defineCapability({
  name: 'skill',
  about: 'Skills of trusted folders, whose code runs in a sandbox',
  byDefault: true,
  offer: (options) => skillOffer((options as SkillPluginOptions).tier),
  plugin: async (options) => (await import('./plugin.ts')).skillPlugin(options as SkillPluginOptions),
  // Writing there decides which code runs with the rights of the next caller.
  trustedPaths: (options, { workspace }) => skillRoots((options as SkillPluginOptions).roots, workspace),
  check: async (options) => (await import('./check.ts')).checkTier(options as SkillPluginOptions),
  client: async (agent) => new (await import('./client.ts')).SkillClient(agent),
  commands: async () => (await import('./commands.ts')).commands,
  localCommands: async () => (await import('./commands.ts')).localCommands,
});

/** What handshakes need of the skill plugin, apart from its code, which hosts load later. Read by `capability.ts` and `plugin.ts`. */
import type { PluginOffer } from '../../host/plugin.ts';
import type { Tier } from './sandbox/sandbox.ts';

/** What a principal may be granted within the capability. */
export interface SkillGrant {
  /** Skills it may use; `*` stands for any letters. Default all. */
  readonly skills?: readonly string[];
  /** Runs at once. */
  readonly max_runs?: number;
}

/** @param tier that the configuration requires */
export const skillOffer = (tier: Tier = 'quickjs'): PluginOffer => ({
  grant: {
    type: 'object',
    properties: {
      skills: {
        type: 'array',
        items: { type: 'string', minLength: 1, maxLength: 256 },
        maxItems: 1_000,
        description: 'Skills it may use; * stands for any letters. Default all.',
      },
      max_runs: { type: 'integer', minimum: 0, description: 'Runs at once. Default: as configured.' },
    },
    additionalProperties: false,
  },
  // Which sandbox is in force is known once the plugin has tried it.
  metadata: { messages: ['skill/describe/req'], sandbox: { tier, in_force: null } },
});

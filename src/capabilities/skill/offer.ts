/** The part of the skill plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';
import type { Tier } from './sandbox/sandbox.ts';

/** The grants of a principal within the capability. */
export interface SkillGrant {
  /** Skills it may use; `*` stands for any letters. Default all. */
  readonly skills?: readonly string[];
  /** Maximum number of concurrent runs. */
  readonly max_runs?: number;
}

/** @param tier required by the configuration */
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
  // The sandbox in force is known once the plugin has tried it.
  metadata: { messages: ['skill/describe/req'], sandbox: { tier, in_force: null } },
});

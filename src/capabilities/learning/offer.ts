/** The part of the learning plugin that handshakes need, apart from its code, which hosts load later. */
import { POLICY_NAMES } from '../../base/bandits/settings.ts';
import type { PluginOffer } from '../../host/plugin.ts';
import type { LearningLimits } from './limits.ts';

export const learningOffer = (limits: LearningLimits): PluginOffer => ({
  store: { quotaBytes: limits.quotaBytes, opened: 'first-request' },
  grant: {
    type: 'object',
    properties: {
      record: { type: 'boolean', default: true },
      refine: { type: 'boolean', default: true },
    },
    additionalProperties: false,
  },
  metadata: {
    policies: POLICY_NAMES,
    messages: ['learn/decide/req', 'learn/records/req', 'learn/evaluate/req', 'learn/forget/req'],
    max_choices: limits.maxChoices,
    max_options: limits.maxOptions,
    max_features: limits.maxFeatures,
  },
});

/** The part of the planning plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';

const MiB = 1024 * 1024;

/** Plans of one principal and tasks of one plan, where the options name none. */
export const PLAN_LIMITS = { maxPlans: 1_000, maxTasks: 20_000 } as const;

/** The requests that A2E 1.0 does not have. */
const MESSAGES = [
  ...['plan/archive', 'plan/configure', 'plan/delete', 'plan/share', 'plan/show'],
  ...[
    'task/archive',
    'task/claim',
    'task/comment',
    'task/delete',
    'task/ready',
    'task/release',
    'task/renew',
    'task/show',
  ],
  ...['history', 'markdown', 'watch'],
].map((name) => `planning/${name}/req`);

/** @param options.quotaBytes of plans, tasks and history of one principal; default 256 MiB */
export const planningOffer = ({
  quotaBytes = 256 * MiB,
}: {
  readonly quotaBytes?: number | undefined;
}): PluginOffer => ({
  store: { quotaBytes, opened: 'first-request' },
  grant: {
    type: 'object',
    properties: {
      access: { enum: ['read', 'write'], default: 'write' },
      share: { type: 'boolean', default: true },
    },
    additionalProperties: false,
  },
  metadata: { messages: MESSAGES },
});

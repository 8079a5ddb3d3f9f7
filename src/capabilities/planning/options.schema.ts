/**
 * The members of `options` of the `planning` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults
 * of absent members.
 */
import { group, integer, optional } from '../../config/shared.schema.ts';

export const options = group('Plans of tasks.', {
  max_plans: optional(integer('Plans of one principal. Default 1,000.', [1, 100_000])),
  max_tasks: optional(integer('Tasks of one plan. Default 20,000.', [1, 100_000])),
  quota_bytes: optional(
    integer('Bytes of plans, tasks and history of one principal. Default 256 MiB.', [65_536, 64 * 1024 ** 3]),
  ),
  lease_ms: optional(
    integer('Duration of a lease whose claim names none, in milliseconds. Default 60,000.', [100, 86_400_000]),
  ),
  max_lease_ms: optional(
    integer('Longest lease a claim may ask for, in milliseconds. Default one day.', [100, 604_800_000]),
  ),
  max_loaded_tasks: optional(
    integer(
      'Tasks in memory, of all principals, past which idle plans are unloaded. Default 200,000.',
      [1, 10_000_000],
    ),
  ),
});

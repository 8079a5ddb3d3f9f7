/**
 * What `options` of the `env` plugin may hold in `handfast.yaml`; never imported at run time. What is left out here is left to
 * the plugin, which has its own defaults.
 */
import { group, integer, optional } from '../../config/shared.schema.ts';

export const options = group('Environments with the Gymnasium contract.', {
  max_episodes: optional(
    integer('Episodes of one session at once; the oldest that has ended makes room. Default 256.', [1, 10_000]),
  ),
  max_principal_episodes: optional(
    integer('Episodes of one principal at once, in all its sessions. Default 1,024.', [1, 100_000]),
  ),
  stored_steps: optional(
    integer('Transitions of an episode that can be read again, the newest. Default 1,000.', [0, 1_000_000]),
  ),
  stored_bytes: optional(integer('Their size in bytes, estimated. Default 256 KiB.', [0, 1024 * 1024 * 1024])),
  max_batch: optional(integer('Steps of one env/batch_step/req. Default 1,024.', [1, 65_536])),
});

/**
 * The members of `options` of the `chains` plugin in `handfast.yaml`; never imported at run time. The plugin has the defaults
 * of absent members.
 */
import { flag, group, integer, optional } from '../../config/shared.schema.ts';

export const options = group('Chains of calls, and their runs.', {
  durable: flag('Runs whose request does not say are journaled.', true),
  max_nodes: optional(integer('Nodes of one chain. Default 10,000.', [1, 100_000])),
  max_depth: optional(integer('Nodes on the longest path of a chain. Default 10,000.', [1, 100_000])),
  max_parallel: optional(integer('Nodes of one run at once. Default 256.', [1, 1_000])),
  max_items: optional(integer('Items of one map. Default 1,000,000.', [1, 10_000_000])),
  max_output_chars: optional(
    integer('Characters of all outputs of one run, as JSON. Default 64 Mi.', [1_024, 1_073_741_824]),
  ),
  max_runs: optional(
    integer('Stored runs of one principal; the oldest that ended are deleted past it. Default 1,000.', [1, 100_000]),
  ),
  max_running: optional(integer('Runs of one principal at once. Default 32.', [1, 1_000])),
  max_chains: optional(integer('Stored chains of one principal, each version counted. Default 1,000.', [1, 100_000])),
  quota_bytes: optional(
    integer('Bytes of runs and stored chains of one principal. Default 512 MiB.', [65_536, 64 * 1024 ** 3]),
  ),
});

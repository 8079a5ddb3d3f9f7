/**
 * The error codes of the chains capability, each with the row of the error table it behaves like. A failed run is a reply with
 * `success: false` and its error; these codes are for refused requests, and for nodes.
 *
 * @see docs/chains.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('chains', {
  /** An expression has no value: it is invalid for its data, or exceeds its steps; see `detail.reason`. */
  expression: 'schema_violation',
  /** The definition has problems; `detail.problems` has them with their positions. */
  invalid: 'schema_violation',
  /** The principal has no such stored chain, or no such version of it. */
  unknown_chain: 'not_found',
  /** This principal has no such run. */
  unknown_run: 'not_found',
  /** The run has no such node, or the node does not wait for such a reply. */
  unknown_node: 'not_found',
  /** A run with this id has not ended; resume or cancel it. */
  exists: 'duplicate_conflict',
  /** The newest version is another one; `detail.version` has it. */
  conflict: 'duplicate_conflict',
  /** The state of the run does not allow it; `detail.state` has it. */
  state: 'denied',
  /** Nodes may have run and are not idempotent; `detail.nodes` has their ids, `detail.ways` the possible decisions. */
  uncertain: 'denied',
  /** A limit of the host is reached; `detail.limit` names it. */
  full: 'quota_exceeded',
  /** Outputs, items or nodes exceed a limit; `detail.max` has it. */
  too_large: 'too_large',
  /** The budget of the run is used up; `detail.budget` names the exhausted part. */
  budget: 'quota_exceeded',
  /** A node did not end within its `timeout_ms`. */
  node_timeout: 'timeout',
  /** An approver denied the question of a wait node. */
  denied: 'denied',
  /** The run has stopped; its nodes end with it. */
  stopped: 'cancelled',
  /** The host has no kind of subagent that the node needs; the message names the missing configuration. */
  kind: 'not_configured',
  /** This host does not run nodes of this kind. */
  unsupported: 'capability_missing',
});

/**
 * The error codes of the mcp capability, each with the row of the error table it behaves like. Those that A2E 1.0 names are
 * spelt as it spells them.
 *
 * Thrown by the plugin and the servers behind it. @see docs/mcp.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('mcp', {
  /** There is no such server for this principal. */
  server_not_found: { row: 'not_found', code: 'mcp_server_not_found' },
  /** It cannot be started, or is not started again yet; `detail.health`, `detail.stderr`, `detail.retry_after_ms`. */
  server_unavailable: { row: 'unreachable', code: 'mcp_server_unavailable' },
  /** It has no such tool. */
  tool_not_found: { row: 'unknown_tool', code: 'mcp_tool_not_found' },
  /** No server lists this resource, or the server has none of this address. */
  resource_not_found: { row: 'not_found', code: 'mcp_resource_not_found' },
  /** No server lists this prompt. */
  prompt_not_found: { row: 'not_found', code: 'mcp_prompt_not_found' },
  /** The connection was lost while the request ran; `detail.may_have_run`. */
  transport_error: { row: 'connection_lost', code: 'mcp_transport_error' },
  /** It replied with an error, or with what cannot be read. */
  protocol_error: { row: 'tool_error', code: 'mcp_protocol_error' },
  /** The one who was asked refused, or may not be asked; `mcp_sampling_refused` for every question of a server. */
  refused: { row: 'tool_denied', code: 'mcp_sampling_refused' },
  /** The definition of the tool is not the accepted one. */
  tool_changed: { row: 'tool_denied', code: 'tool_changed' },
  /** The principal may not add this server; `detail.register` has what it may. */
  not_allowed: 'unauthorized',
  /** The session has as many servers as it may. */
  full: 'quota_exceeded',
  /** A field of the server does not fit; `detail.field` names it. */
  invalid: 'schema_violation',
});

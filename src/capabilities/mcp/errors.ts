/**
 * The error codes of the mcp capability, each with the row of the error table it behaves like. The codes that A2E 1.0 names
 * have its spelling. @see docs/mcp.md#errors
 */
import { capabilityErrors } from '../../wire/errors.ts';

export const failure = capabilityErrors('mcp', {
  /** This principal has no such server. */
  server_not_found: { row: 'not_found', code: 'mcp_server_not_found' },
  /** The server cannot be started, or its restart waits; `detail.health`, `detail.stderr`, `detail.retry_after_ms`. */
  server_unavailable: { row: 'unreachable', code: 'mcp_server_unavailable' },
  /** The server has no such tool. */
  tool_not_found: { row: 'unknown_tool', code: 'mcp_tool_not_found' },
  /** No server lists this resource, or the server has none of this address. */
  resource_not_found: { row: 'not_found', code: 'mcp_resource_not_found' },
  /** No server lists this prompt. */
  prompt_not_found: { row: 'not_found', code: 'mcp_prompt_not_found' },
  /** The connection was lost while the request ran; `detail.may_have_run`. */
  transport_error: { row: 'connection_lost', code: 'mcp_transport_error' },
  /** The server replied with an error, or with an unreadable message. */
  protocol_error: { row: 'tool_error', code: 'mcp_protocol_error' },
  /** The asked party refused, or may not be asked; `mcp_sampling_refused` for every question of a server. */
  refused: { row: 'tool_denied', code: 'mcp_sampling_refused' },
  /** The definition of the tool is not the accepted one. */
  tool_changed: { row: 'tool_denied', code: 'tool_changed' },
  /** The principal may not add this server; `detail.register` has the allowed patterns. */
  not_allowed: 'unauthorized',
  /** The session has reached its maximum of servers. */
  full: 'quota_exceeded',
  /** A field of the server does not fit; `detail.field` names it. */
  invalid: 'schema_violation',
});

/**
 * Rights to the parts of a session: backend, model provider, MCP servers, approvals. Checked for the caller who chooses, and
 * for the owner when a turn starts, because defaults and rights change in between.
 *
 * @see docs/security/rights.md
 */
import { givenVariables, maySet, refusedVariable } from '../../../base/child-environment.ts';
import type { SessionSettings } from '../../../protocol/session-types.ts';
import type { Principal } from '../../../session/principal.ts';
import { may, must, variableRights } from '../../../session/rights.ts';
import { fail } from '../../../wire/errors.ts';
import type { Backend } from '../../contract/backend.ts';

/** Returns the program or address of an MCP server; `''`, which only an administrator is granted, where it names none. */
function serverOf({ command, url }: Readonly<Record<string, unknown>>): string {
  if (typeof command === 'string') return command;
  return typeof url === 'string' ? url : '';
}

/** Fails with `tool_denied` for a variable of a server that the principal may not set. An administrator may set all. */
function variablesAllowed(principal: Principal, { env }: Readonly<Record<string, unknown>>): void {
  if (may(principal, 'administer')) return;
  const rights = variableRights(principal);
  for (const [name, value] of givenVariables(env)) {
    if (typeof name !== 'string' || typeof value !== 'string' || maySet(name, value, rights)) continue;
    throw refusedVariable(name, rights.remedy?.(name));
  }
}

/**
 * Fails with `unauthorized` for the first setting the principal may not choose for a session of this owner, with `tool_denied`
 * for a variable.
 */
export function mustBeAllowed(
  principal: Principal,
  owner: string,
  { backend, provider, mcpServers = [], approvals }: SessionSettings,
): void {
  if (backend !== undefined) must(principal, 'backend', backend);
  if (provider !== undefined) must(principal, 'provider', provider);
  for (const server of mcpServers) {
    must(principal, 'mcp_server', serverOf(server as Readonly<Record<string, unknown>>));
    variablesAllowed(principal, server as Readonly<Record<string, unknown>>);
  }
  // A session that allows without asking answers its own approvals.
  if (approvals === 'allow') must(principal, 'approve', owner);
}

/**
 * Fails with `unauthorized` unless the owner of a session may have it run, or compressed, on this backend now; for the
 * principal of a subagent with `session_closed` once that has ended.
 */
export function mustRun(owner: Principal, settings: SessionSettings, backend: Pick<Backend, 'name' | 'modelOf'>): void {
  if (owner.subagent !== undefined) {
    // Its settings were chosen by the configuration, or by a user whose right to do so was checked.
    if (may(owner, 'use', 'multi_agent')) return;
    throw fail('session_closed', 'the subagent of this session has ended; fork the session to continue it');
  }
  const provider = backend.modelOf(settings)?.provider ?? undefined;
  mustBeAllowed(owner, owner.name, { ...settings, backend: backend.name, ...(provider && { provider }) });
}

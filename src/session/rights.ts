/**
 * Decides the rights of a principal. The only place that does, for every edge: at the handshake and on every message,
 * in operator routes, for workers that join, and for actions of a backend or a capability on a principal's behalf.
 *
 * Default deny: an action that no grant names is refused. @see docs/security/rights.md
 */
import { sep } from 'node:path';
import type { VariableRights } from '../base/child-environment.ts';
import { fitsWildcard } from '../base/wildcard.ts';
import { capabilityOf } from '../protocol/a2e.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import { GUARDED_RISKS, type Principal, type Reach, type ToolRules } from './principal.ts';

/** A tool as rights see it. */
export interface ToolFacts {
  readonly name: string;
  readonly risks?: readonly string[];
}

/** A worker that joins. */
export interface WorkerFacts {
  readonly name: string;
  /** Its pool; undefined = none. */
  readonly pool?: string;
}

/** A folder a session is to work in, as real paths. */
export interface FolderFacts {
  readonly path: string;
  /** The folder that is open to every principal with sessions. */
  readonly workspace: string;
}

/** The owner to ask with for the sessions of all owners at once. No name of a principal equals it. */
export const EVERY_OWNER = Symbol('every owner');

/** The owner of a session or task: one principal by name, all, or `undefined`: any at all. */
export type Owner = string | typeof EVERY_OWNER | undefined;

/** The actions, each with its object. */
export interface Actions {
  /** Negotiate and call a capability, by its name. */
  use: string;
  /** See and call a tool. */
  call: ToolFacts;
  /** Read a session of this owner. */
  read: Owner;
  /** Create, steer, end or delete a session of this owner. */
  drive: Owner;
  /** Answer approvals of a session of this owner. */
  approve: Owner;
  /** Run a session on the backend of this name. */
  backend: string;
  /** Use the model provider of this name in a session. */
  provider: string;
  /** Give a session an MCP server, by the program or address it names. */
  mcp_server: string;
  /** Work in a folder. */
  folder: FolderFacts;
  /** Set an environment variable for a program, by its name. */
  variable: string;
  /** Change keys, addresses, sign-ins and defaults of the server. */
  settings: undefined;
  /** Hand in tasks, and read and change those of this owner. */
  submit: Owner;
  /** See and change every task and worker of the fleet. */
  operate: undefined;
  /** Announce, accept and deliver as this worker. */
  work: WorkerFacts;
  /** Read status, metrics, the audit and the journal of a session of this owner. */
  observe: Owner;
  /** End the server, and other actions of administrators only. */
  administer: undefined;
}

export type Action = keyof Actions;

/** Actions on a session of the control edge. */
export type SessionAction = 'read' | 'drive' | 'approve';

/** The object of an action; none where the action has none. */
type ObjectOf<A extends Action> = undefined extends Actions[A] ? [object?: Actions[A]] : [object: Actions[A]];

/** Returns the standard name of a capability for its other spellings, else the name itself. */
const nameOf = (capability: string): string => capabilityOf(capability) ?? capability;

/** Returns true when one of the names is this one; `*` stands for any letters. */
export function named(names: readonly string[] | undefined, name: string): boolean {
  return names?.some((one) => one === name || (one.includes('*') && fitsWildcard(one, name))) ?? false;
}

/** Returns true when a grant of this reach covers a session of this owner. */
const reaches = (reach: Reach | undefined, { name }: Principal, owner: Owner): boolean =>
  reach === 'all' || (reach === 'own' && (owner === undefined || owner === name));

function mayUse(principal: Principal, capability: string): boolean {
  const { capabilities, tools, admin } = principal;
  const wanted = nameOf(capability);
  if (grantOf(principal, capability) !== undefined) return true;
  // Tools that are named are granted; rules that only deny grant nothing.
  if (wanted === 'tools' && (tools?.allow ?? tools?.risks) !== undefined) return true;
  if (capabilities === undefined) return admin === true;
  return capabilities.some((allowed) => allowed === '*' || nameOf(allowed) === wanted);
}

/** Returns true when the rules allow this tool: deny wins, and with an allow list only tools that it names are allowed. */
export function permits({ allow, deny, denyRisks }: ToolRules, { name, risks = [] }: ToolFacts): boolean {
  if (allow !== undefined && !named(allow, name)) return false;
  return !named(deny, name) && !risks.some((risk) => denyRisks?.includes(risk));
}

function mayCall({ tools = {}, admin }: Principal, tool: ToolFacts): boolean {
  if (!permits(tools, tool)) return false;
  const { allow, risks: granted } = tools;
  const { name, risks = [] } = tool;
  if (admin === true || allow?.includes(name)) return true;
  return risks.every((risk) => !GUARDED_RISKS.includes(risk) || granted?.includes(risk));
}

const withinFolder = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : `${folder}${sep}`);

/** One rule for each action; for administrators it applies only if their own rules narrow their rights. */
const answers: { readonly [A in Action]: (principal: Principal, object: Actions[A]) => boolean } = {
  use: mayUse,
  call: mayCall,
  read: (principal, owner) => reaches(principal.sessions?.read, principal, owner),
  drive: (principal, owner) => reaches(principal.sessions?.drive, principal, owner),
  approve: (principal, owner) => reaches(principal.sessions?.approve, principal, owner),
  backend: ({ backends }, name) => named(backends, name),
  provider: ({ providers }, name) => providers === undefined || named(providers, name),
  mcp_server: ({ mcpServers }, program) => named(mcpServers, program),
  folder: ({ folders = [] }, { path, workspace }) =>
    [workspace, ...folders].some((folder) => withinFolder(path, folder)),
  variable: ({ env }, name) => named(env, name),
  settings: ({ settings }) => settings === true,
  submit: ({ fleet, name }, owner) =>
    fleet?.operate === true || (fleet?.submit === true && (owner === undefined || owner === name)),
  operate: ({ fleet }) => fleet?.operate === true,
  work: ({ fleet }, { name, pool }) =>
    named(fleet?.worker, name) && (fleet?.pools === undefined || (pool !== undefined && named(fleet.pools, pool))),
  // A subagent has the name of its principal and not its rights over the sessions of it.
  observe: ({ observe, name, subagent }, owner) => observe === true || (owner === name && subagent === undefined),
  administer: () => false,
};

/** Actions in which an administrator's own lists still count. */
const NARROWED: ReadonlySet<Action> = new Set(['use', 'call']);

/** Returns true when the principal may do this. */
export function may<A extends Action>(principal: Principal, action: A, ...[object]: ObjectOf<A>): boolean {
  if (principal.within !== undefined && !may(principal.within, action, ...([object] as ObjectOf<A>))) return false;
  if (principal.admin === true && !NARROWED.has(action)) return true;
  return answers[action](principal, object as Actions[A]);
}

/** Fails with `unauthorized` unless the principal may do this; the message names the action and the grant that is missing. */
export function must<A extends Action>(principal: Principal, action: A, ...object: ObjectOf<A>): void {
  if (may(principal, action, ...object)) return;
  throw refusal(principal, action);
}

/** The grant for each action, in the words of the configuration. */
const missing: Readonly<Record<Action, string>> = {
  use: 'capabilities',
  call: 'tools',
  read: 'sessions.read',
  drive: 'sessions.drive',
  approve: 'sessions.approve',
  backend: 'backends',
  provider: 'providers',
  mcp_server: 'mcp_servers',
  folder: 'folders',
  variable: 'env',
  settings: 'settings',
  submit: 'fleet.submit',
  operate: 'fleet.operate',
  work: 'fleet.worker',
  observe: 'observe',
  administer: 'admin',
};

/** Returns the error of an action that was not granted. */
export const refusal = ({ name }: Pick<Principal, 'name'>, action: Action): HandfastError =>
  fail('unauthorized', `${name} may not do this: the grant ${missing[action]} is missing`, { grant: missing[action] });

/** Returns the configured grant of the principal within a capability, unchecked; undefined without a grant. */
export function grantOf({ grants }: Pick<Principal, 'grants'>, capability: string): unknown {
  if (grants === undefined) return undefined;
  const wanted = nameOf(capability);
  return Object.entries(grants).find(([name]) => nameOf(name) === wanted)?.[1];
}

/**
 * Returns the rights to environment variables that requests of the principal may set.
 * @param rule returns true for a variable with this value that the rule of the program names
 * @param how names that rule in the message of a refused variable
 */
export function variableRights(
  principal: Principal,
  rule: (name: string, value: string) => boolean = () => false,
  how?: (name: string) => string | undefined,
): VariableRights {
  return {
    named: (name, value) =>
      rule(name, value) || (principal.env?.includes(name) === true && may(principal, 'variable', name)),
    covered: (name) => may(principal, 'variable', name),
    remedy(name) {
      const granted = `the grant env: [${name}] of ${principal.name} allows it`;
      // Administrators have every grant.
      if (principal.admin === true) return how?.(name);
      return how === undefined ? granted : `${how(name)}, or ${granted}`;
    },
  };
}

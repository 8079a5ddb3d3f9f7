/**
 * Roles: named sets of grants, and their combination. The configuration gives tokens roles; the resulting principal has
 * one flat set of grants, which `rights.ts` reads.
 *
 * @see docs/security/rights.md
 */
import { fail } from '../wire/errors.ts';
import type { FleetGrants, Grants, Principal, Reach, SessionGrants, ToolRules } from './principal.ts';

const own: SessionGrants = { read: 'own', drive: 'own', approve: 'own' };
const all: SessionGrants = { read: 'all', drive: 'all', approve: 'all' };

/** The roles of every configuration. The configuration's own roles are added to them. */
export const ROLES = Object.freeze({
  /** Everything. */
  admin: { admin: true },
  /** Sees and steers every session and task, and reads the audit and journals; has no tools. */
  operator: { sessions: all, fleet: { submit: true, operate: true }, observe: true, backends: ['*'] },
  /** Calls tools of the environment; guarded risks and other capabilities are named beside the role. */
  agent: { capabilities: ['tools'] },
  /** Has its own sessions on the built-in backends, whose models edit files of the workspace. */
  client: {
    sessions: own,
    backends: ['model', 'rehearsal'],
    capabilities: ['tools'],
    tools: { risks: ['destructive'] },
  },
  /** Reads every session. */
  viewer: { sessions: { read: 'all' } },
  /** Joins the fleet as the worker of its name. */
  worker: {},
} as const satisfies Record<string, Grants>);

export type RoleName = keyof typeof ROLES;

const union = <Item>(...lists: readonly (readonly Item[] | undefined)[]): readonly Item[] | undefined => {
  const given = lists.filter((list) => list !== undefined);
  return given.length === 0 ? undefined : [...new Set(given.flat())];
};

/** Returns the union of lists whose absence means all: it stays absent when one of them is absent. */
const unionOrAll = <Item>(a: readonly Item[] | undefined, b: readonly Item[] | undefined) =>
  a === undefined || b === undefined ? undefined : union(a, b);

const wider = (a: Reach | undefined, b: Reach | undefined): Reach | undefined => (a === 'all' ? a : (b ?? a));

function joinSessions(a: SessionGrants | undefined, b: SessionGrants | undefined): SessionGrants | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return { read: wider(a.read, b.read), drive: wider(a.drive, b.drive), approve: wider(a.approve, b.approve) };
}

function joinTools(a: ToolRules | undefined, b: ToolRules | undefined): ToolRules | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return {
    // A list of allowed names narrows: beside a role without one it still does.
    allow: union(a.allow, b.allow),
    deny: union(a.deny, b.deny),
    denyRisks: union(a.denyRisks, b.denyRisks),
    risks: union(a.risks, b.risks),
  };
}

function joinFleet(a: FleetGrants | undefined, b: FleetGrants | undefined): FleetGrants | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return {
    worker: union(a.worker, b.worker),
    pools: a.worker === undefined ? b.pools : b.worker === undefined ? a.pools : unionOrAll(a.pools, b.pools),
    submit: a.submit === true || b.submit === true,
    operate: a.operate === true || b.operate === true,
  };
}

/**
 * Returns both sets of grants together: the rights that either grants, without those that either denies. Limits of the
 * second come first.
 */
export function joinGrants(a: Grants, b: Grants): Grants {
  return {
    capabilities: union(a.capabilities, b.capabilities),
    tools: joinTools(a.tools, b.tools),
    grants: a.grants && b.grants ? { ...a.grants, ...b.grants } : (b.grants ?? a.grants),
    sessions: joinSessions(a.sessions, b.sessions),
    backends: union(a.backends, b.backends),
    providers: union(a.providers, b.providers),
    mcpServers: union(a.mcpServers, b.mcpServers),
    folders: union(a.folders, b.folders),
    env: union(a.env, b.env),
    settings: a.settings === true || b.settings === true,
    fleet: joinFleet(a.fleet, b.fleet),
    observe: a.observe === true || b.observe === true,
    limits: a.limits && b.limits ? { ...a.limits, ...b.limits } : (b.limits ?? a.limits),
    admin: a.admin === true || b.admin === true,
  };
}

/** Drops empty members, so that equal rights are equal values. */
const said = (grants: Grants): Grants =>
  Object.fromEntries(Object.entries(grants).filter(([, value]) => value !== undefined && value !== false)) as Grants;

/**
 * Returns the principal of this name with its roles and its own grants.
 *
 * Fails with `config_invalid` for a role that is neither in {@link ROLES} nor in `custom`.
 */
export function principalWith(
  name: string,
  roles: readonly string[],
  grants: Grants = {},
  custom: Readonly<Record<string, Grants>> = {},
): Principal {
  let joined: Grants = {};
  for (const role of roles)
    joined = joinGrants(joined, role === 'worker' ? { fleet: { worker: [name] } } : roleOf(role, custom));
  // An administrator has every capability; only its own list narrows that, not the list of a lesser role.
  if (joined.admin === true) joined = { ...joined, capabilities: undefined };
  return Object.freeze({ name, ...said(joinGrants(joined, grants)) });
}

function roleOf(role: string, custom: Readonly<Record<string, Grants>>): Grants {
  if (Object.hasOwn(custom, role)) return custom[role] as Grants;
  if (Object.hasOwn(ROLES, role)) return ROLES[role as RoleName];
  throw fail('config_invalid', `no role is named ${JSON.stringify(role)}`, { role });
}

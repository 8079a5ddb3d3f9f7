/**
 * The rights of principals, out of a configuration: for `handfast config check` and `handfast caps --as`.
 */
import type { HostConfig } from '../../config/config.ts';
import { LOCAL_PRINCIPAL } from '../../session/auth.ts';
import type { Grants, Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import { sessionShare } from '../../session/shares.ts';
import { fail } from '../../wire/errors.ts';
import { snake } from '../output/snake-case.ts';
import type { Terminal } from '../output/terminal.ts';

/** Returns all principals that the configuration accepts, the owner of the local token first. */
export const principalsOf = ({ auth }: HostConfig): readonly Principal[] => [
  LOCAL_PRINCIPAL,
  ...auth.grants.map(({ principal }) => principal),
];

/** Returns the principal of this name. Fails with `not_found`, which lists all names. */
export function principalNamed(config: HostConfig, name: string): Principal {
  const all = principalsOf(config);
  const found = all.find((principal) => principal.name === name);
  if (found !== undefined) return found;
  throw fail('not_found', `no principal is named ${name}; there are: ${all.map((one) => one.name).join(', ')}`, {
    name,
  });
}

/** Grants in the order they are shown in, each as one word or a few. */
const shown: { readonly [Grant in keyof Grants]-?: (principal: Principal) => string | undefined } = {
  admin: (principal) => (may(principal, 'administer') ? 'everything' : undefined),
  capabilities: ({ capabilities }) => capabilities?.join(', '),
  tools: ({ tools }) => rules(tools),
  grants: ({ grants }) => grants && Object.keys(grants).join(', '),
  sessions: ({ sessions }) => rules(sessions),
  backends: ({ backends }) => backends?.join(', '),
  providers: ({ providers }) => providers?.join(', '),
  mcpServers: ({ mcpServers }) => mcpServers?.join(', '),
  folders: ({ folders }) => folders?.join(', '),
  env: ({ env }) => env?.join(', '),
  settings: ({ settings }) => (settings === true ? 'yes' : undefined),
  fleet: ({ fleet }) => rules(fleet),
  observe: ({ observe }) => (observe === true ? 'yes' : undefined),
  limits: ({ limits }) => rules(limits),
};

const rules = (group: object | undefined): string | undefined =>
  group &&
  Object.entries(group)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => {
      if (value === true) return snake(name);
      return `${snake(name)} ${Array.isArray(value) ? value.join(', ') : value}`;
    })
    .join('; ');

/** Returns the grants of a principal as lines of name and value; none for one that may only perform the handshake and ping. */
export function grantLines(principal: Principal): readonly (readonly [grant: string, value: string])[] {
  return (Object.keys(shown) as (keyof Grants)[]).flatMap((grant) => {
    const value = shown[grant](principal);
    return value === undefined || value === '' ? [] : [[snake(grant), value] as const];
  });
}

/** Returns the maximum number of sessions of a principal at once, on each edge; undefined for one without a limit. */
export function sessionsAtOnce(
  principal: Principal,
  { limits, control }: HostConfig,
): { readonly environment: number; readonly control: number } | undefined {
  const perPrincipal = limits.maxSessionsPerPrincipal;
  const share = (total: number): number => Math.min(total, sessionShare(principal, { perPrincipal, total }));
  if (may(principal, 'administer') && principal.limits?.maxSessions === undefined) return undefined;
  return { environment: share(limits.maxSessions), control: share(control.maxSessions) };
}

/** Prints every principal, or the one of this name, with its grants. */
export function printPrincipals(config: HostConfig, name: string | undefined, terminal: Terminal): void {
  const principals = name === undefined ? principalsOf(config) : [principalNamed(config, name)];
  const rows = principals.flatMap((principal) => {
    const granted = grantLines(principal);
    if (granted.length === 0) return [[principal.name, 'handshake, ping', 'nothing else is granted']];
    const most = sessionsAtOnce(principal, config);
    const lines = [...granted];
    if (most !== undefined)
      lines.push(['sessions_at_once', `environment ${most.environment}; control ${most.control}`]);
    return lines.map(([grant, value], index) => [index === 0 ? principal.name : '', grant, value]);
  });
  terminal.table(['PRINCIPAL', 'GRANT', 'WHAT'], rows);
}

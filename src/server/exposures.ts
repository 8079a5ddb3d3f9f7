/**
 * Warnings for operators about protected paths: the paths that lie where the tools of all principals work, and the principals
 * who may run programs, which pass them by.
 *
 * Shown by `handfast config check`, and logged at a start.
 */

import { canCover } from '../base/workspace/path-cover.ts';
import { shell } from '../capabilities/tools/builtin/index.ts';
import type { HostConfig } from '../config/config.ts';
import { restricted } from '../session/auth.ts';
import type { Principal } from '../session/principal.ts';
import { grantOf, may } from '../session/rights.ts';
import { protectedInWorkspace } from './protected-paths.ts';

/** Returns a line for each protected path in the workspace; none where all principals are administrators. */
export function exposedPaths(config: HostConfig): string[] {
  if (restricted(config.auth.grants).length === 0) return [];
  return protectedInWorkspace(config).map(
    ({ path, deny }) =>
      `${path} is in the workspace: restricted tools cannot ${deny === 'all' ? 'use' : 'change'} it, but it is safer outside`,
  );
}

/** True where a rule of the capability `proc` lets the principal start a program, by itself or with the toolkit `process`. */
function hasPrograms(principal: Principal, { plugins }: HostConfig): boolean {
  const plugin = plugins.find(({ use }) => use === 'proc');
  if (plugin === undefined || !(may(principal, 'use', 'proc') || may(principal, 'use', 'toolkits'))) return false;
  const granted = (grantOf(principal, 'proc') as { readonly programs?: readonly string[] } | undefined)?.programs;
  return ((granted ?? plugin.options.programs ?? []) as readonly string[]).length > 0;
}

/**
 * Returns a line for each restricted principal that may run programs, where nothing can cover protected paths for them.
 *
 * @param isCovered whether something can; the default tries it, which starts a program
 */
export async function exposingPrincipals(
  config: HostConfig,
  isCovered: () => boolean | Promise<boolean> = canCover,
): Promise<string[]> {
  const mayRun = restricted(config.auth.grants).filter(
    (principal) => may(principal, 'call', shell()) || hasPrograms(principal, config),
  );
  if (mayRun.length === 0 || (await isCovered())) return [];
  return mayRun.map(
    ({ name }) =>
      `${name} may run programs, which can read and change every file of this user; install bubblewrap to cover protected paths, or do not grant it`,
  );
}

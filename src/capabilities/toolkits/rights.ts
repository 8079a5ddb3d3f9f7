/**
 * The rights of a principal to toolkits, by its grant `toolkits`. Tools have separate rules, by name and risk. Pure.
 *
 * Checked for every toolkit and tool that is listed or called.
 */
import type { Principal } from '../../host/context.ts';
import { grantOf, may, named } from '../../session/rights.ts';
import type { AnyToolkit } from './toolkit.ts';

/** The members of `grants.toolkits` of a token. */
interface ToolkitsGrant {
  /** Toolkits it may use; `*` stands for any letters. Default: toolkits that are on by default; administrators all. */
  readonly names?: readonly string[];
  /** Secrets that its configurations may name. Default none; administrators all. */
  readonly secrets?: readonly string[];
}

const grant = (principal: Principal): ToolkitsGrant => (grantOf(principal, 'toolkits') ?? {}) as ToolkitsGrant;

export function mayUseToolkit(principal: Principal, { name, enabled }: Pick<AnyToolkit, 'name' | 'enabled'>): boolean {
  if (!may(principal, 'use', 'toolkits')) return false;
  const { names } = grant(principal);
  return names === undefined ? enabled === true || may(principal, 'administer') : named(names, name);
}

export function mayNameSecret(principal: Principal, name: string): boolean {
  const { secrets } = grant(principal);
  return secrets === undefined ? may(principal, 'administer') : named(secrets, name);
}

/**
 * Which tools a principal may see and call: by name pattern and by risk flag. Deny wins. Pure.
 */
import type { Principal, ToolRules } from '../../host/context.ts';
import type { AnyTool } from './tool.ts';

/** True when the rules let this tool through. */
export type ToolFilter = (tool: AnyTool) => boolean;

const matcher = (patterns: readonly string[]): RegExp =>
  new RegExp(
    `^(?:${patterns.map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('\\*', '.*')).join('|')})$`,
  );

/** Compiles rules; undefined rules let everything through. */
export function toolFilter(rules: ToolRules | undefined): ToolFilter {
  if (rules === undefined) return () => true;
  const allow = rules.allow === undefined ? undefined : matcher(rules.allow);
  const deny = rules.deny === undefined || rules.deny.length === 0 ? undefined : matcher(rules.deny);
  const risks = new Set(rules.denyRisks);
  return (tool) =>
    (allow === undefined || allow.test(tool.name)) &&
    !deny?.test(tool.name) &&
    !tool.risks?.some((risk) => risks.has(risk));
}

/**
 * The tools of one principal. What runs programs can do all that the host's user can, so it is only for administrators and
 * for principals whose rules name the tool itself, not by a pattern.
 */
export function principalFilter({ admin, tools: rules }: Pick<Principal, 'admin' | 'tools'>): ToolFilter {
  const permitted = toolFilter(rules);
  if (admin === true) return permitted;
  const named = new Set(rules?.allow);
  return (tool) => permitted(tool) && (tool.risks?.includes('exec') !== true || named.has(tool.name));
}

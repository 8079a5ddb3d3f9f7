/**
 * Which tools a principal may see and call: by name pattern and by risk flag. Deny wins. Pure.
 */
import type { ToolRules } from '../../host/context.ts';
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

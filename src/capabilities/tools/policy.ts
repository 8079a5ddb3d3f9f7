/**
 * Decides which tools a principal may see and call: by name pattern and by risk flag. Deny wins. Pure.
 */
import type { ToolRules } from '../../host/context.ts';
import { permits } from '../../session/rights.ts';
import type { AnyTool } from './tool.ts';

/** Returns true when the rules allow a tool. */
export type ToolFilter = (tool: AnyTool) => boolean;

/** Returns the filter of these rules; undefined rules allow every tool. */
export const toolFilter =
  (rules: ToolRules = {}): ToolFilter =>
  (tool) =>
    permits(rules, tool);

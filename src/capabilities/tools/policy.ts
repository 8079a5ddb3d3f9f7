/**
 * Which tools a principal may see and call: by name pattern and by risk flag. Deny wins. Pure.
 */
import type { ToolRules } from '../../host/context.ts';
import { permits } from '../../session/rights.ts';
import type { AnyTool } from './tool.ts';

/** True when the rules let this tool through. */
export type ToolFilter = (tool: AnyTool) => boolean;

/** The filter of these rules; undefined rules let everything through. */
export const toolFilter =
  (rules: ToolRules = {}): ToolFilter =>
  (tool) =>
    permits(rules, tool);

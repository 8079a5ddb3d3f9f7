/**
 * `handfast/tools`: for authors of tools. Loads no host; `toolsPlugin` makes tools available in one.
 */

import './base/node-version.ts';

export type { Log } from './base/log.ts';
export type {
  ElicitationAnswer as McpElicitationAnswer,
  McpRoot,
  SamplingAnswer as McpSamplingAnswer,
} from './capabilities/mcp/client.ts';
export {
  askModel,
  askPerson,
  askRoots,
  type ModelQuestion,
  type PersonQuestion,
  type QuestionOptions,
} from './capabilities/mcp/tool-questions.ts';
export { type ToolkitsPluginOptions, toolkitsPlugins } from './capabilities/toolkits/plugin.ts';
export type { SecretSettings } from './capabilities/toolkits/secrets.ts';
export {
  type AnyToolkit,
  defineToolkit,
  type Secret,
  type Toolkit,
  type ToolkitAccess,
} from './capabilities/toolkits/toolkit.ts';
export { type BuiltinToolsOptions, builtinTools } from './capabilities/tools/builtin/index.ts';
export {
  type ToolOffer,
  type ToolsPlugin,
  type ToolsPluginOptions,
  toolsPlugin,
} from './capabilities/tools/plugin.ts';
export {
  type AnyTool,
  type JsonSchema,
  type Risk,
  result,
  type ShapedResult,
  type StandardResult,
  type StandardSchema,
  type ToolDefinition,
  tool,
} from './capabilities/tools/tool.ts';
export type { CallContext, EventKind, Principal, SessionView, ToolRules } from './host/context.ts';
export type { FleetGrants, Grants, Reach, SessionGrants } from './session/principal.ts';
export { fail, HandfastError } from './wire/errors.ts';

/**
 * The options of the `multi_agent` plugin for a kind of subagents whose tasks are tasks of the fleet. Part of the
 * schema of these options; never imported at run time except for its type.
 */
import { PRIORITIES } from '../protocol/fleet-words.ts';
import type { Static } from '../wire/schema.ts';
import type { Settings } from './setting.ts';
import { choice, fleetName, group, list, optional, text, word } from './shared.schema.ts';

export const fleetKind = group(
  'Tasks of the fleet that this server runs (handfast fleet up --config FILE). {} = tasks that demand what they say; what is said here holds for all of them.',
  {
    pool: optional(fleetName('Only workers of this pool.')),
    min_tier: optional(text('Lowest tier of the model.', 'a tier', 'sonnet')),
    required_mcp: list({ default: [], description: 'MCP servers their worker must have, healthy.' }, word('A server.')),
    required_capabilities: list({ default: [], description: 'Tools their worker must have.' }, word('A tool.')),
    access: optional(choice('Whether they may change the repository.', ['read', 'write'])),
    priority: optional(choice('Their priority.', PRIORITIES)),
  },
);

export type FleetKindSettings = Settings<Static<typeof fleetKind>>;

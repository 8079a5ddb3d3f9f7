/**
 * The list of the built-in capabilities, the only one for agents, hosts, the command line and the generators.
 *
 * Loading it loads declarations and clients; plugins are loaded by hosts that use them.
 */
import type { Capability } from '../packages/capability.ts';
import { chains } from './chains/capability.ts';
import { env } from './env/capability.ts';
import { learning } from './learning/capability.ts';
import { mcp } from './mcp/capability.ts';
import { memory } from './memory/capability.ts';
import { multiAgent } from './multi_agent/capability.ts';
import { planning } from './planning/capability.ts';
import { proc } from './proc/capability.ts';
import { skill } from './skill/capability.ts';
import { toolkits } from './toolkits/capability.ts';
import { tools } from './tools/capability.ts';

export const builtinCapabilities: readonly Capability[] = [
  tools,
  chains,
  env,
  learning,
  mcp,
  memory,
  multiAgent,
  planning,
  proc,
  skill,
  toolkits,
];

/** Returns the built-in capability of a name. */
export const builtinCapability = (name: string): Capability | undefined =>
  builtinCapabilities.find((capability) => capability.name === name);

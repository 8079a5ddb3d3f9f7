/**
 * The worker's environment as an MCP server of an agent: by its address where the agent connects to addresses, else as a
 * program, which every agent of the protocol can start.
 */
import { fileURLToPath } from 'node:url';
import type { AgentCapabilities } from '../../../acp/sdk.ts';
import { nodeProgram } from '../../../base/node-program.ts';
import type { ExecutorEnvironment } from '../executor.ts';
import { environmentValues } from '../programs/cli.ts';

/** Returns the server in the form of the protocol. */
export function environmentServer(
  environment: ExecutorEnvironment,
  { mcpCapabilities }: AgentCapabilities,
): Record<string, unknown> {
  const { name, url, token } = environment;
  if (mcpCapabilities?.http === true) return { type: 'http', name, url, headers: { Authorization: `Bearer ${token}` } };
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  const bridge = fileURLToPath(new URL(`./mcp-bridge${extension}`, import.meta.url));
  const [command, ...options] = nodeProgram();
  return { name, command, args: [...options, bridge], env: environmentValues(environment) };
}

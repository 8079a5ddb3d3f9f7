/**
 * Probes whether an MCP server responds, and lists its tools, as `mcp/server.ts` connects to every server.
 *
 * A probe is bounded, and a process it started has ended when it resolves.
 */
import { counted } from '../../base/counted.ts';
import type { McpState } from '../../mcp/definition.ts';
import { McpServer } from '../../mcp/server.ts';
import type { Health } from '../../protocol/fleet.ts';
import type { McpServerOptions, ProbeFinding, ProbeOptions } from './mcp-servers.ts';

/** Longest time that one server may take, milliseconds. */
const PROBE_MS = 3000;

/** Makes one probe. Never rejects. */
export async function probeMcpServer(server: McpServerOptions, options: ProbeOptions): Promise<ProbeFinding> {
  if (server.disabled === true) return { health: 'disabled', tools: [], detail: 'switched off in the configuration' };
  if (server.stdio === undefined && server.http === undefined) {
    return { health: 'unknown', tools: [], detail: 'no command and no address to ask it at' };
  }
  const { cwd, signal, timeoutMs = PROBE_MS } = options;
  const probed = new McpServer({ address: server, cwd, startTimeoutMs: timeoutMs });
  await probed.start(signal).catch(() => {});
  const { tools, health } = probed;
  await probed.close();
  if (health.state === 'ready') {
    return { health: 'ok', tools: tools.map(({ name }) => name), detail: counted(tools.length, 'tool') };
  }
  return { health: HEALTH_OF[health.state] ?? 'unknown', tools: [], detail: health.detail };
}

/** Other states: the probe was given up before it found anything. */
const HEALTH_OF: Partial<Record<McpState, Health>> = {
  failed: 'error',
  needs_auth: 'auth_required',
  timeout: 'timeout',
};

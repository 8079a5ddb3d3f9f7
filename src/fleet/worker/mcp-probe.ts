/**
 * Asks an MCP server whether it lives and what tools it has, over a connection of `mcp/connection.ts`.
 *
 * Called by `worker.ts` for its facts. A probe is bounded, and what it started has ended when it resolves.
 */
import { connectMcp, type McpConnection } from '../../mcp/connection.ts';
import type { Health } from '../../protocol/fleet.ts';
import type { McpServerOptions, ProbeFinding, ProbeOptions } from './mcp-servers.ts';

/** How long one server may take. */
const PROBE_MS = 3000;
/** One probe. Never rejects. */
export async function probeMcpServer(server: McpServerOptions, options: ProbeOptions): Promise<ProbeFinding> {
  if (server.disabled === true) return { health: 'disabled', tools: [], detail: 'switched off in the configuration' };
  if (server.stdio === undefined && server.http === undefined) {
    return { health: 'unknown', tools: [], detail: 'no command and no address to ask it at' };
  }
  const { signal, timeoutMs = PROBE_MS } = options;
  const late = AbortSignal.timeout(timeoutMs);
  const bound = signal === undefined ? late : AbortSignal.any([late, signal]);
  let attempt: McpConnection | undefined;
  try {
    const onAttempt = (each: McpConnection): void => {
      attempt = each;
    };
    const tools = await connectMcp(server, { cwd: options.cwd, signal: bound, onAttempt }, async (connection) => {
      const found = await connection.tools();
      await connection.end();
      return found.map(({ name }) => name);
    });
    return { health: 'ok', tools, detail: `${tools.length} tools` };
  } catch (thrown) {
    const why = attempt?.ended ?? thrown;
    return { health: healthOf(thrown, attempt, late, signal), tools: [], detail: oneLine(why, late, timeoutMs) };
  }
}

function healthOf(
  thrown: unknown,
  attempt: McpConnection | undefined,
  late: AbortSignal,
  signal?: AbortSignal,
): Health {
  if (attempt?.unauthorized === true) return 'auth_required';
  if (late.aborted || (thrown as { code?: unknown }).code === 'REQUEST_TIMEOUT') return 'timeout';
  return signal?.aborted === true ? 'unknown' : 'error';
}

function oneLine(thrown: unknown, late: AbortSignal, timeoutMs: number): string {
  if (late.aborted) return `no answer within ${timeoutMs} ms`;
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.replace(/\s+/g, ' ').slice(0, 280);
}

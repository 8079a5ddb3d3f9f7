/**
 * Asks an MCP server whether it lives and what tools it has. The adapter file of the official client of the Model Context
 * Protocol: the only file that names the package. It is an optional peer, loaded when a worker has servers to probe.
 *
 * Called by `worker.ts` for its facts. A probe is bounded, and what it started has ended when it resolves.
 */
import type { Client, Transport } from '@modelcontextprotocol/client';
import { programEnvironment, startProgram } from '../../base/program.ts';
import type { Health } from '../../protocol/fleet.ts';
import { fail } from '../../wire/errors.ts';
import type { McpServerOptions, ProbeFinding, ProbeOptions } from './mcp-servers.ts';

/** The package. */
export type McpClient = typeof import('@modelcontextprotocol/client');

const PACKAGE = '@modelcontextprotocol/client';
const CLIENT = { name: 'handfast', version: '1.0.0' };
/** How long one server may take. */
const PROBE_MS = 3000;
/** How long a server that was asked to end may take before SIGTERM, and before SIGKILL. */
const LEAVE_MS = 200;
const TERMINATE_MS = 300;
/** How long ending the session with a server over HTTP may take. */
const GOODBYE_MS = 300;

/** Loads the client. Fails with `not_configured`, whose message names the package to install. */
export async function loadMcpClient(): Promise<McpClient> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message;
    throw fail('not_configured', `probing MCP servers needs the package ${PACKAGE}; ${why}`, undefined, error);
  }
}

/** One probe. Never rejects. */
export async function probeMcpServer(server: McpServerOptions, options: ProbeOptions): Promise<ProbeFinding> {
  if (server.disabled === true) return { health: 'disabled', tools: [], detail: 'switched off in the configuration' };
  if (server.stdio === undefined && server.http === undefined) {
    return { health: 'unknown', tools: [], detail: 'no command and no address to ask it at' };
  }
  const { signal, timeoutMs = PROBE_MS } = options;
  const late = AbortSignal.timeout(timeoutMs);
  const bound = signal === undefined ? late : AbortSignal.any([late, signal]);
  let attempt: Attempt | undefined;
  try {
    const sdk = await loadMcpClient();
    for (const mode of ['legacy', 'auto'] as const) {
      attempt = new Attempt(server, options.cwd, bound);
      try {
        const tools = await attempt.tools(sdk, mode);
        return { health: 'ok', tools, detail: `${tools.length} tools` };
      } catch (thrown) {
        // A server of a later generation only refuses the older opening; everything else would happen again.
        if (mode === 'auto' || bound.aborted || !attempt.answered || attempt.unauthorized) throw thrown;
      } finally {
        await attempt.end();
      }
    }
    throw fail('runtime_error', 'not reached');
  } catch (thrown) {
    const why = attempt?.ended ?? thrown;
    return { health: healthOf(thrown, attempt, late, signal), tools: [], detail: oneLine(why, late, timeoutMs) };
  }
}

function healthOf(thrown: unknown, attempt: Attempt | undefined, late: AbortSignal, signal?: AbortSignal): Health {
  if (attempt?.unauthorized === true) return 'auth_required';
  if (late.aborted || (thrown as { code?: unknown }).code === 'REQUEST_TIMEOUT') return 'timeout';
  return signal?.aborted === true ? 'unknown' : 'error';
}

function oneLine(thrown: unknown, late: AbortSignal, timeoutMs: number): string {
  if (late.aborted) return `no answer within ${timeoutMs} ms`;
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return text.replace(/\s+/g, ' ').slice(0, 280);
}

/** One connection to a server. */
class Attempt {
  /** The server sent any response. */
  answered = false;
  unauthorized = false;
  /** Its program ended by itself. */
  ended: Error | undefined;
  readonly #server: McpServerOptions;
  readonly #cwd: string;
  readonly #bound: AbortSignal;
  #end: () => Promise<void> = async () => {};

  constructor(server: McpServerOptions, cwd: string, bound: AbortSignal) {
    this.#server = server;
    this.#cwd = cwd;
    this.#bound = bound;
  }

  async tools(sdk: McpClient, mode: 'legacy' | 'auto'): Promise<readonly string[]> {
    const client = new sdk.Client(CLIENT, { versionNegotiation: { mode } });
    // What a server sends on its own, or too late, is none of a probe's business.
    client.onerror = () => {};
    const signal = this.#bound;
    const transport =
      this.#server.stdio === undefined ? this.#overHttp(sdk, client) : await this.#asProgram(this.#server.stdio);
    return untilAborted(signal, async () => {
      await client.connect(transport, { signal });
      if (client.getServerCapabilities()?.tools === undefined) return [];
      const { tools } = await client.listTools(undefined, { signal });
      return tools.map(({ name }) => name);
    });
  }

  /** Leaves, and sees to it that nothing that was started stays. Bounded, never rejects. */
  async end(): Promise<void> {
    await this.#end();
  }

  #overHttp(sdk: McpClient, client: Client): Transport {
    const { url, headers } = this.#server.http as NonNullable<McpServerOptions['http']>;
    const goodbye = new AbortController();
    const transport = new sdk.StreamableHTTPClientTransport(new URL(url), {
      requestInit: headers === undefined ? {} : { headers },
      fetch: async (address, init) => {
        const limits = [goodbye.signal, ...(init?.signal ? [init.signal] : [])];
        const response = await fetch(address, { ...init, signal: AbortSignal.any(limits) });
        this.answered = true;
        if (response.status === 401 || response.status === 403) this.unauthorized = true;
        return response;
      },
    });
    this.#end = async () => {
      const timer = setTimeout(() => goodbye.abort(), GOODBYE_MS);
      // So that the server need not store the session until it expires.
      await transport.terminateSession().catch(() => {});
      clearTimeout(timer);
      goodbye.abort();
      await client.close().catch(() => {});
    };
    return transport;
  }

  async #asProgram({ command, args = [], env }: NonNullable<McpServerOptions['stdio']>): Promise<Transport> {
    const stop = new AbortController();
    const transport: Transport = {
      start: async () => {},
      send: async (message) => program.write(`${JSON.stringify(message)}\n`),
      close: async () => program.write(null),
    };
    const program = await startProgram({
      argv: [command, ...args],
      cwd: this.#cwd,
      env: programEnvironment(env),
      stdin: 'open',
      signal: stop.signal,
      terminateMs: TERMINATE_MS,
      maxStdoutBytes: 0,
      onLine: (line) => {
        try {
          transport.onmessage?.(JSON.parse(line));
          this.answered = true;
        } catch {
          // A line that is not a message: some servers print one before they start the protocol.
        }
      },
    });
    const ended = program.ended.then(({ code, stderr }) => {
      const said = stderr.trim().split('\n').at(-1) ?? '';
      this.ended ??= fail('connection_lost', `the server ended with code ${code}: ${said}`);
      transport.onclose?.();
    });
    this.#end = async () => {
      program.write(null);
      const timer = setTimeout(() => stop.abort(), LEAVE_MS);
      await ended;
      clearTimeout(timer);
    };
    return transport;
  }
}

/** `work`, or the signal's reason, whichever is first: an SDK's own handling of signals is not relied on. */
function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(signal.reason);
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', aborted));
  });
}

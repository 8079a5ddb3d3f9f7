/**
 * A connection to an MCP server, as a program on its pipes or over streamable HTTP. The adapter file of the official client of
 * the Model Context Protocol: the only file that names the package. It is an optional peer, loaded with the first server.
 *
 * Called by probes of the fleet's workers (`fleet/worker/mcp-probe.ts`) and for the servers of sessions
 * (`server/control/mcp-peers.ts`). What a connection started has ended when `end` resolves.
 */
import type { Client, Transport } from '@modelcontextprotocol/client';
import { programEnvironment, startProgram } from '../base/program.ts';
import { fail } from '../wire/errors.ts';

/** The package. */
export type McpClient = typeof import('@modelcontextprotocol/client');

const PACKAGE = '@modelcontextprotocol/client';
const CLIENT = { name: 'handfast', version: '1.0.0' };
/** How long a server that was asked to end may take before SIGTERM, and before SIGKILL. */
const LEAVE_MS = 200;
const TERMINATE_MS = 300;
/** How long ending the session with a server over HTTP may take. */
const GOODBYE_MS = 300;

/** Where a server is: a program that is started, or an address of streamable HTTP. */
export interface McpAddress {
  readonly stdio?: {
    readonly command: string;
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  };
  readonly http?: { readonly url: string; readonly headers?: Readonly<Record<string, string>> };
}

/** Loads the client. Fails with `not_configured`, whose message names the package to install. */
export async function loadMcpClient(): Promise<McpClient> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message;
    throw fail('not_configured', `MCP servers need the package ${PACKAGE}; ${why}`, undefined, error);
  }
}

/**
 * Connects to a server: as most servers open a connection, else as those of a later generation do. `use` gets the open
 * connection; the connection ends when it rejects. The caller ends it otherwise.
 *
 * Rejects as the client does, with `unreachable` for a program that cannot be started, and with the reason of `signal`.
 * @param onAttempt gets each connection before it is opened
 */
export async function connectMcp<Result>(
  server: McpAddress,
  { cwd, signal, onAttempt }: { cwd: string; signal: AbortSignal; onAttempt?: (attempt: McpConnection) => void },
  use: (connection: McpConnection) => Promise<Result>,
): Promise<Result> {
  const sdk = await loadMcpClient();
  for (const mode of ['legacy', 'auto'] as const) {
    const attempt = new McpConnection(server, cwd, signal);
    onAttempt?.(attempt);
    try {
      await attempt.open(sdk, mode);
      return await use(attempt);
    } catch (thrown) {
      await attempt.end();
      // A server of a later generation only refuses the older opening; everything else would happen again.
      if (mode === 'auto' || signal.aborted || !attempt.answered || attempt.unauthorized) throw thrown;
    }
  }
  throw fail('runtime_error', 'not reached');
}

/** One connection to a server. */
export class McpConnection {
  /** The server sent any response. */
  answered = false;
  unauthorized = false;
  /** Its program ended by itself. */
  ended: Error | undefined;
  readonly #server: McpAddress;
  readonly #cwd: string;
  readonly #bound: AbortSignal;
  readonly #closed = Promise.withResolvers<void>();
  #client: Client | undefined;
  #end: () => Promise<void> = async () => {};

  constructor(server: McpAddress, cwd: string, bound: AbortSignal) {
    this.#server = server;
    this.#cwd = cwd;
    this.#bound = bound;
  }

  /** Opens it within the time of the signal. */
  async open(sdk: McpClient, mode: 'legacy' | 'auto'): Promise<void> {
    const client = new sdk.Client(CLIENT, { versionNegotiation: { mode } });
    // What a server sends on its own, or too late, belongs to no request.
    client.onerror = () => {};
    client.onclose = () => this.#closed.resolve();
    this.#client = client;
    const signal = this.#bound;
    const transport =
      this.#server.stdio === undefined ? this.#overHttp(sdk, client) : await this.#asProgram(this.#server.stdio);
    await untilAborted(signal, () => client.connect(transport, { signal }));
  }

  /** Resolves when the server, or this side, has closed it. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Its tools; none where it has no such capability. */
  async tools(signal = this.#bound): Promise<Awaited<ReturnType<Client['listTools']>>['tools']> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.tools === undefined) return [];
    return (await untilAborted(signal, () => client.listTools(undefined, { signal }))).tools;
  }

  /** Calls a tool. Rejects as the client does, and with the reason of `signal`. */
  call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: { signal: AbortSignal; timeoutMs: number; onProgress: (text: string) => void },
  ): Promise<Awaited<ReturnType<Client['callTool']>>> {
    const { signal, timeoutMs: timeout, onProgress } = options;
    const onprogress = ({ progress, total, message = '' }: { progress: number; total?: number; message?: string }) =>
      onProgress(total === undefined ? message : `${Math.round((100 * progress) / total)} % ${message}`.trim());
    const settings = { signal, timeout, resetTimeoutOnProgress: true, onprogress };
    const client = this.#client as Client;
    return untilAborted(signal, () => client.callTool({ name, arguments: { ...args } }, settings));
  }

  /** Leaves, and sees to it that nothing that was started stays. Bounded, never rejects. */
  async end(): Promise<void> {
    await this.#end();
  }

  #overHttp(sdk: McpClient, client: Client): Transport {
    const { url, headers } = this.#server.http as NonNullable<McpAddress['http']>;
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

  async #asProgram({ command, args = [], env }: NonNullable<McpAddress['stdio']>): Promise<Transport> {
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

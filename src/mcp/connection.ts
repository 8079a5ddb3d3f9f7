/**
 * A connection to an MCP server, as a program on its pipes or over streamable HTTP. The adapter file of the official client of
 * the Model Context Protocol: the only file that names the package. It is an optional peer, loaded with the first server.
 *
 * Called by `server.ts`, which decides when a server runs. What a connection started has ended when `end` resolves.
 */
import type { Client, Transport } from '@modelcontextprotocol/client';
import { programEnvironment, startProgram } from '../base/program.ts';
import { orAborted } from '../base/race.ts';
import { fail } from '../wire/errors.ts';
import type {
  McpAddress,
  McpContents,
  McpInfo,
  McpProgress,
  McpPrompt,
  McpPromptText,
  McpResource,
  McpResult,
  McpTool,
} from './definition.ts';

// Declarations of this file that others see must not name its types: their users may not have the package.
type McpClient = typeof import('@modelcontextprotocol/client');

const PACKAGE = '@modelcontextprotocol/client';
const CLIENT = { name: 'handfast', version: '1.0.0' };
/** How long a server that was asked to end may take before SIGTERM, and before SIGKILL. */
const LEAVE_MS = 200;
const TERMINATE_MS = 300;
/** How long ending the session with a server over HTTP may take. */
const GOODBYE_MS = 300;
/** Longest message of a program, in characters: a result may hold a picture. */
const MAX_MESSAGE_CHARS = 16 * 1024 * 1024;
/** Most pages of a list, and most entries. */
const MAX_PAGES = 64;
const MAX_ENTRIES = 2_000;
/** Lines of standard error that are shown. */
const STDERR_LINES = 5;
const MAX_LINE = 500;

/** Fails with `not_configured`, whose message names the package to install, where it cannot be loaded. */
export async function requireMcpClient(): Promise<void> {
  await loadMcpClient();
}

async function loadMcpClient(): Promise<McpClient> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (error) {
    const missing = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
    const why = missing ? `it is not installed: npm install ${PACKAGE}` : (error as Error).message;
    throw fail('not_configured', `MCP servers need the package ${PACKAGE}; ${why}`, undefined, error);
  }
}

export interface ConnectOptions {
  readonly cwd: string;
  /** Bounds the opening. */
  readonly signal: AbortSignal;
  /** Gets each connection before it is opened. */
  readonly onAttempt?: (attempt: McpConnection) => void;
  /** Gets each notification that belongs to no call. */
  readonly onNotification?: (method: string, params: Readonly<Record<string, unknown>>) => void;
}

/**
 * Connects to a server and reads its tools: as most servers open a connection, else as those of a later generation do. The
 * caller ends the connection.
 *
 * Rejects as the client does, with `unreachable` for a program that cannot be started, and with the reason of `signal`.
 */
export async function connectMcp(
  server: McpAddress,
  { cwd, signal, onAttempt, onNotification }: ConnectOptions,
): Promise<McpConnection> {
  const sdk = await loadMcpClient();
  for (const mode of ['legacy', 'auto'] as const) {
    const attempt = new McpConnection(server, cwd, signal);
    onAttempt?.(attempt);
    try {
      await attempt.open(sdk, mode, onNotification);
      await attempt.listTools(signal);
      return attempt;
    } catch (thrown) {
      await attempt.end();
      // A server of a later generation only refuses the older opening; everything else would happen again.
      if (mode === 'auto' || signal.aborted || !attempt.answered || attempt.unauthorized) throw thrown;
    }
  }
  throw fail('runtime_error', 'not reached');
}

export interface McpCallOptions {
  readonly signal: AbortSignal;
  /** Longest time without progress. */
  readonly timeoutMs: number;
  readonly onProgress?: (progress: McpProgress) => void;
}

/** One connection to a server. */
export class McpConnection {
  /** The server sent any response. */
  answered = false;
  unauthorized = false;
  /** The server no longer knows the HTTP session: what was sent last was not done. */
  expired = false;
  isClosed = false;
  /** Its program ended by itself. */
  ended: Error | undefined;
  /** As the last listing had them. */
  tools: readonly McpTool[] = [];
  /** Messages that were not understood: noise between messages, and what was too long. */
  dropped = 0;
  readonly #server: McpAddress;
  readonly #cwd: string;
  readonly #bound: AbortSignal;
  readonly #closed = Promise.withResolvers<void>();
  #client: Client | undefined;
  #stderr: () => string = () => '';
  #end: () => Promise<void> = async () => {};

  constructor(server: McpAddress, cwd: string, bound: AbortSignal) {
    this.#server = server;
    this.#cwd = cwd;
    this.#bound = bound;
  }

  /**
   * Opens it within the time of the signal.
   * @internal
   */
  async open(sdk: McpClient, mode: 'legacy' | 'auto', onNotification: ConnectOptions['onNotification']): Promise<void> {
    const client = new sdk.Client(CLIENT, { versionNegotiation: { mode }, listMaxPages: MAX_PAGES });
    // What a server sends too late belongs to no request.
    client.onerror = () => {};
    client.onclose = () => {
      this.isClosed = true;
      this.#closed.resolve();
    };
    if (onNotification !== undefined) {
      client.fallbackNotificationHandler = async ({ method, params = {} }) => onNotification(method, params);
    }
    this.#client = client;
    const signal = this.#bound;
    const transport =
      this.#server.stdio === undefined ? this.#overHttp(sdk, client) : await this.#asProgram(this.#server.stdio);
    // An SDK's own handling of signals is not relied on.
    await orAborted(client.connect(transport, { signal }), signal);
  }

  /** Resolves when the server, or this side, has closed it. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Who the server says it is. */
  get info(): McpInfo {
    const { name = '', version = '' } = this.#client?.getServerVersion() ?? {};
    return { name, version, protocol: this.#client?.getNegotiatedProtocolVersion() ?? '' };
  }

  /** The last lines of its standard error. */
  get stderr(): readonly string[] {
    const lines = this.#stderr().trimEnd().split('\n');
    return lines
      .slice(-STDERR_LINES)
      .filter((line) => line !== '')
      .map((line) => line.slice(0, MAX_LINE));
  }

  /** Reads its tools, all pages; none where it has no such capability. */
  async listTools(signal: AbortSignal): Promise<readonly McpTool[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.tools === undefined) return this.tools;
    const { tools } = await orAborted(client.listTools(undefined, { signal }), signal);
    this.tools = bounded(tools, 'tools') as readonly McpTool[];
    return this.tools;
  }

  /** Its resources, all pages; none where it has no such capability. */
  async resources(signal: AbortSignal): Promise<readonly McpResource[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.resources === undefined) return [];
    const { resources } = await orAborted(client.listResources(undefined, { signal }), signal);
    return bounded(resources, 'resources') as readonly McpResource[];
  }

  /** Its prompts, all pages; none where it has no such capability. */
  async prompts(signal: AbortSignal): Promise<readonly McpPrompt[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.prompts === undefined) return [];
    const { prompts } = await orAborted(client.listPrompts(undefined, { signal }), signal);
    return bounded(prompts, 'prompts') as readonly McpPrompt[];
  }

  async read(uri: string, { signal, timeoutMs: timeout }: McpCallOptions): Promise<readonly McpContents[]> {
    const reading = (this.#client as Client).readResource({ uri }, { signal, timeout });
    return (await orAborted(reading, signal)).contents as readonly McpContents[];
  }

  async prompt(
    name: string,
    args: Readonly<Record<string, string>>,
    { signal, timeoutMs: timeout }: McpCallOptions,
  ): Promise<McpPromptText> {
    const getting = (this.#client as Client).getPrompt({ name, arguments: { ...args } }, { signal, timeout });
    return (await orAborted(getting, signal)) as McpPromptText;
  }

  /** From now on the server notifies of changes of a resource. Rejects where it offers no subscriptions. */
  async subscribe(uri: string, signal: AbortSignal): Promise<void> {
    await orAborted((this.#client as Client).subscribeResource({ uri }, { signal }), signal);
  }

  async unsubscribe(uri: string, signal: AbortSignal): Promise<void> {
    await orAborted((this.#client as Client).unsubscribeResource({ uri }, { signal }), signal);
  }

  /** Calls a tool. Rejects as the client does, and with the reason of `signal`. */
  call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    { signal, timeoutMs: timeout, onProgress }: McpCallOptions,
  ): Promise<McpResult> {
    const settings = { signal, timeout, resetTimeoutOnProgress: true, ...(onProgress && { onprogress: onProgress }) };
    const called = (this.#client as Client).callTool({ name, arguments: { ...args } }, settings);
    return orAborted(called as Promise<McpResult>, signal);
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
        if (response.status === 404 && transport.sessionId !== undefined) this.expired = true;
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

  async #asProgram({ command, args = [], env, onlyEnv }: NonNullable<McpAddress['stdio']>): Promise<Transport> {
    const stop = new AbortController();
    const transport: Transport = {
      start: async () => {},
      send: async (message) => program.write(`${JSON.stringify(message)}\n`),
      close: async () => program.write(null),
    };
    const program = await startProgram({
      argv: [command, ...args],
      cwd: this.#cwd,
      env: onlyEnv ?? programEnvironment(env),
      stdin: 'open',
      signal: stop.signal,
      terminateMs: TERMINATE_MS,
      maxStdoutBytes: 0,
      maxLineChars: MAX_MESSAGE_CHARS,
      onLine: (line) => {
        const message = line.length < MAX_MESSAGE_CHARS ? parsed(line) : tooLong(line);
        if (message === undefined) {
          // Some servers print lines of their own before they start the protocol.
          this.dropped += 1;
          return;
        }
        this.answered = true;
        transport.onmessage?.(message);
      },
    });
    this.#stderr = () => program.stderr;
    const ended = program.ended.then(({ code }) => {
      const last = this.stderr.at(-1);
      this.ended ??= fail(
        'connection_lost',
        `the server ended with code ${code}${last === undefined ? '' : `: ${last}`}`,
      );
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

function bounded<T>(entries: readonly T[], what: string): readonly T[] {
  if (entries.length <= MAX_ENTRIES) return entries;
  throw fail('too_large', `the server has ${entries.length} ${what}, more than ${MAX_ENTRIES}`);
}

type Message = Parameters<NonNullable<Transport['onmessage']>>[0];

/** The message of a line; undefined for one that is not JSON. */
function parsed(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}

/** In place of a response that is too long: an error for the request it names, so that its caller does not wait. */
function tooLong(line: string): Message | undefined {
  const id = /"id"\s*:\s*(\d+)/.exec(line.slice(0, 200))?.[1];
  if (id === undefined) return undefined;
  const message = `the response has more than ${MAX_MESSAGE_CHARS} characters`;
  return { jsonrpc: '2.0', id: Number(id), error: { code: -32_603, message } };
}

/**
 * A connection to an MCP server, as a program on its pipes or over streamable HTTP, by the official client of the Model
 * Context Protocol.
 *
 * `server.ts` decides when a server runs. Everything that a connection started has ended when `end` resolves.
 */
import { childEnvironment } from '../base/child-environment.ts';
import { type ProgramOptions, programEnvironment } from '../base/program.ts';
import { orAborted } from '../base/race.ts';
import { sleep } from '../base/sleep.ts';
import { startCovered } from '../base/workspace/path-cover.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { AskedCallers, ELICITATION_COMPLETE, type McpAllowed, type McpAnswerer, type McpAsk } from './asks.ts';
import type { McpAuthorization } from './authorization.ts';
import { acceptsAll, checkedResult } from './checked-result.ts';
import type {
  McpAddress,
  McpCompleted,
  McpCompletion,
  McpContents,
  McpInfo,
  McpLogLevel,
  McpProgress,
  McpPrompt,
  McpPromptText,
  McpResource,
  McpResult,
  McpTemplate,
  McpTool,
} from './definition.ts';
import { type EraStore, type McpEra, memoryEra } from './era.ts';
import { bounded, MAX_PAGES, namedOnce } from './list-bounds.ts';
import { Listening } from './listening.ts';
import { NotificationThrottle } from './notification-throttle.ts';
import { OverHttp } from './over-http.ts';
import { type Message, MessageReader } from './read-message.ts';
import { type Client, type InsufficientScopeError, loadMcpClient, type McpSdk, type Transport } from './sdk.ts';
import { StatelessTasks, TASKS_EXTENSION } from './stateless-tasks.ts';
import { callAsTask, needsTask, type TaskRequest } from './tasks.ts';
import { MAX_MESSAGE } from './too-long.ts';

const CLIENT = { name: 'handfast', version: '1.0.0' };
/** Time for a server that should end before SIGTERM, and before SIGKILL. */
const LEAVE_MS = 200;
const TERMINATE_MS = 300;
/** Time for ending the session with a server over HTTP. */
const GOODBYE_MS = 300;
/** Longest wait for a stream of notifications to open. */
const LISTEN_MS = 30_000;
/** Numbers of errors: a question that the asked user refused, and an unknown method. */
const REFUSED = -1;
const METHOD_NOT_FOUND = -32_601;
/** Lines of standard error that are shown. */
const STDERR_LINES = 5;
const MAX_LINE = 500;

export interface ConnectOptions {
  readonly cwd: string;
  /** Bounds the opening. */
  readonly signal: AbortSignal;
  /** Requests that the server may make. Default none. */
  readonly allowed?: McpAllowed | undefined;
  /** The sign-in of a server over HTTP. */
  readonly authorization?: McpAuthorization | undefined;
  /** The generation of the protocol that it spoke last. Default: not known. */
  readonly era?: EraStore | undefined;
  /** The least level of messages that the server is to send. Default: it decides. */
  readonly logLevel?: McpLogLevel | undefined;
  /** Gets each connection before it is opened. */
  readonly onAttempt?: (attempt: McpConnection) => void;
  /** Gets each notification that belongs to no call. */
  readonly onNotification?: (method: string, params: Readonly<Record<string, unknown>>) => void;
  /** Called when a stream of a server over HTTP was cut off: the server may have ended. */
  readonly onDoubt?: (connection: McpConnection) => void;
}

/**
 * Connects to a server and reads its tools: in the generation of the protocol that it spoke last, else as most servers open a
 * connection, else as those of the later generation do. The caller ends the connection.
 *
 * Rejects as the client does, with `unreachable` for a program that cannot be started, and with the reason of `signal`.
 */
export async function connectMcp(
  server: McpAddress,
  { cwd, signal, allowed, authorization, era = memoryEra(), logLevel, ...on }: ConnectOptions,
): Promise<McpConnection> {
  const { onAttempt, onNotification, onDoubt } = on;
  const sdk = await loadMcpClient();
  const known = await era.read();
  const modes = known === 'stateless' ? (['auto', 'legacy'] as const) : (['legacy', 'auto'] as const);
  for (const mode of modes) {
    const attempt = new McpConnection(server, cwd, signal, allowed, authorization, onDoubt);
    onAttempt?.(attempt);
    let isOpen = false;
    try {
      await attempt.open(sdk, mode, onNotification);
      isOpen = true;
      await attempt.listTools(signal);
      if (logLevel !== undefined) await attempt.log(sdk, logLevel, signal);
      if (attempt.era !== known) await era.write(attempt.era);
      return attempt;
    } catch (thrown) {
      await attempt.end();
      // A server of one generation only refuses the opening of the other; everything else would happen again.
      const isRefused = !isOpen && attempt.answered && !attempt.unauthorized && !signal.aborted;
      if (isRefused && mode !== modes[1]) continue;
      // An unreachable server proves nothing about its generation.
      if (known !== undefined && (isRefused || (signal.aborted && !isOpen))) await era.write(undefined);
      throw thrown;
    }
  }
  throw fail('runtime_error', 'not reached');
}

export interface McpCallOptions {
  readonly signal: AbortSignal;
  /** Longest time without progress. */
  readonly timeoutMs: number;
  readonly onProgress?: (progress: McpProgress) => void;
  /** Answers the requests that the server makes meanwhile, as far as it may make them. */
  readonly answerer?: McpAnswerer | undefined;
}

/** One connection to a server. */
export class McpConnection {
  isClosed = false;
  /** Its program ended by itself. */
  ended: Error | undefined;
  /** As the last listing had them. */
  tools: readonly McpTool[] = [];
  /** Number of messages that were not understood: noise between messages, and messages that were too long. */
  dropped = 0;
  readonly #server: McpAddress;
  readonly #cwd: string;
  readonly #bound: AbortSignal;
  readonly #allowed: McpAllowed;
  readonly #callers: AskedCallers;
  readonly #authorization: McpAuthorization | undefined;
  readonly #closed = Promise.withResolvers<void>();
  readonly #reader = new MessageReader(() => this.era === 'stateless');
  #http: OverHttp | undefined;
  #hasPrinted = false;
  readonly #onDoubt: ConnectOptions['onDoubt'];
  /** Tools that are called as tasks. */
  #tasks: ReadonlySet<string> = new Set();
  /** Follows the tasks of a server without sessions, where it offers them. */
  #statelessTasks: StatelessTasks | undefined;
  #logMeta: Readonly<Record<string, unknown>> | undefined;
  #client: Client | undefined;
  #listening: Listening | undefined;
  #stderr: () => string = () => '';
  #end: () => Promise<void> = async () => {};

  constructor(
    server: McpAddress,
    cwd: string,
    bound: AbortSignal,
    allowed: McpAllowed = {},
    authorization?: McpAuthorization,
    onDoubt?: ConnectOptions['onDoubt'],
  ) {
    this.#onDoubt = onDoubt;
    this.#authorization = authorization;
    this.#server = server;
    this.#cwd = cwd;
    this.#bound = bound;
    this.#allowed = allowed;
    this.#callers = new AskedCallers(allowed.answerer);
  }

  /**
   * Opens it within the time of the signal.
   * @internal
   */
  async open(sdk: McpSdk, mode: 'legacy' | 'auto', onNotification: ConnectOptions['onNotification']): Promise<void> {
    const { sampling, elicitation, roots } = this.#allowed;
    const capabilities = {
      ...(sampling && { sampling: {} }),
      // A field that an accepted answer leaves out gets the default of its schema.
      ...(elicitation && { elicitation: { form: { applyDefaults: true }, url: {} } }),
      ...(roots && { roots: {} }),
      // Of the generation without sessions alone.
      ...(mode === 'auto' && { extensions: { [TASKS_EXTENSION]: {} } }),
    };
    const client = new sdk.Client(CLIENT, {
      versionNegotiation: { mode },
      listMaxPages: MAX_PAGES,
      capabilities,
      jsonSchemaValidator: acceptsAll,
    });
    if (sampling) client.setRequestHandler('sampling/createMessage', this.#asked(sdk) as never);
    if (elicitation) client.setRequestHandler('elicitation/create', this.#asked(sdk) as never);
    if (roots) client.setRequestHandler('roots/list', () => ({ roots: roots.map((each) => ({ ...each })) }));
    // A message that a server sends too late belongs to no request.
    client.onerror = () => {};
    client.onclose = () => {
      this.isClosed = true;
      this.#callers.end();
      this.#closed.resolve();
    };
    client.fallbackNotificationHandler = async ({ method, params = {} }) => {
      // It concerns only the caller that was asked.
      if (method === ELICITATION_COMPLETE) this.#callers.completed(params);
      else onNotification?.(method, params);
    };
    this.#client = client;
    const signal = this.#bound;
    const transport =
      this.#server.stdio === undefined ? this.#overHttp(sdk, client) : await this.#asProgram(this.#server.stdio);
    // An SDK's own handling of signals is not relied on.
    await orAborted(client.connect(transport, { signal }), signal);
    if (this.era === 'stateless' && client.getServerCapabilities()?.extensions?.[TASKS_EXTENSION] !== undefined) {
      this.#statelessTasks = new StatelessTasks(transport);
    }
    const throttle = new NotificationThrottle();
    const read = transport.onmessage;
    transport.onmessage = (message, extra) => throttle.pass(message, () => read?.(message, extra));
    void this.closed.then(() => throttle.end());
    if (this.era === 'stateless') this.#listenOn(client);
  }

  /** Passes a question of the server on, and the reason of a refusal back. */
  #asked(sdk: McpSdk) {
    type Request = Pick<McpAsk, 'method' | 'params'>;
    type Context = { readonly mcpReq: { readonly id: string | number; readonly signal: AbortSignal } };
    return async ({ method, params }: Request, { mcpReq: { id, signal } }: Context) => {
      try {
        return await this.#callers.ask({ method, params, id: String(id), signal });
      } catch (thrown) {
        throw new sdk.ProtocolError(REFUSED, asError(thrown).message);
      }
    };
  }

  /** Opens the stream of a server without sessions, which sends only the notifications that a stream requests. */
  #listenOn(client: Client): void {
    const { tools, prompts, resources } = client.getServerCapabilities() ?? {};
    const lists = {
      ...(tools?.listChanged && { toolsListChanged: true }),
      ...(prompts?.listChanged && { promptsListChanged: true }),
      ...(resources?.listChanged && { resourcesListChanged: true }),
    };
    const listening = new Listening(async (uris) => {
      const filter = { ...lists, ...(uris.length > 0 && { resourceSubscriptions: [...uris] }) };
      const stream = await client.listen(filter, { timeout: LISTEN_MS });
      const { closed, honoredFilter } = stream;
      return { resources: honoredFilter.resourceSubscriptions ?? [], closed, close: () => stream.close() };
    });
    this.#listening = listening;
    void this.closed.then(() => listening.end());
    if (Object.keys(lists).length > 0) void listening.start();
  }

  /** Resolves when the server, or this side, has closed it. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** True once the server sent any response. */
  get answered(): boolean {
    return this.#http?.answered ?? this.#hasPrinted;
  }

  /** True if the server refused the last message for lack of a token. */
  get unauthorized(): boolean {
    return this.#http?.unauthorized === true;
  }

  /** True if the server no longer knows the HTTP session. */
  get expired(): boolean {
    return this.#http?.expired === true;
  }

  /** Returns true if the server refused a request because it does not know the session: it did not run the request. */
  forgot(thrown: unknown): boolean {
    return this.#http?.forgot(thrown) === true;
  }

  /** The server's name and version, as it sends them. */
  get info(): McpInfo {
    const { name = '', version = '' } = this.#client?.getServerVersion() ?? {};
    return { name, version, protocol: this.#client?.getNegotiatedProtocolVersion() ?? '' };
  }

  /** The generation of the protocol that was negotiated. */
  get era(): McpEra {
    return this.#client?.getProtocolEra() === 'modern' ? 'stateless' : 'sessions';
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
    this.tools = namedOnce(bounded(tools, 'tools') as readonly McpTool[]);
    const hasTasks =
      this.era === 'sessions' && client.getServerCapabilities()?.tasks?.requests?.tools?.call !== undefined;
    this.#tasks = new Set(hasTasks ? this.tools.filter(needsTask).map(({ name }) => name) : []);
    return this.tools;
  }

  /**
   * Makes the server send messages of this level and above, if it sends any. Rejects as a request does.
   * @internal
   */
  async log(sdk: McpSdk, level: McpLogLevel, signal: AbortSignal): Promise<void> {
    const client = this.#client as Client;
    if (client.getServerCapabilities()?.logging === undefined) return;
    // Without sessions each call carries the level.
    if (this.era === 'stateless') this.#logMeta = { [sdk.LOG_LEVEL_META_KEY]: level };
    else await orAborted(client.setLoggingLevel(level, { signal }), signal);
  }

  /** Returns its resources, all pages; none if it has no such capability. */
  async resources(signal: AbortSignal): Promise<readonly McpResource[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.resources === undefined) return [];
    const { resources } = await orAborted(client.listResources(undefined, { signal }), signal);
    return bounded(resources, 'resources') as readonly McpResource[];
  }

  /** Returns its templates of resources, all pages; none if it has no such capability. */
  async templates(signal: AbortSignal): Promise<readonly McpTemplate[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.resources === undefined) return [];
    try {
      const { resourceTemplates } = await orAborted(client.listResourceTemplates(undefined, { signal }), signal);
      return bounded(resourceTemplates, 'templates') as readonly McpTemplate[];
    } catch (thrown) {
      // A server with resources alone need not know the method.
      if ((thrown as { code?: unknown }).code === METHOD_NOT_FOUND) return [];
      throw thrown;
    }
  }

  /** Returns its prompts, all pages; none if it has no such capability. */
  async prompts(signal: AbortSignal): Promise<readonly McpPrompt[]> {
    const client = this.#client;
    if (client?.getServerCapabilities()?.prompts === undefined) return [];
    const { prompts } = await orAborted(client.listPrompts(undefined, { signal }), signal);
    return bounded(prompts, 'prompts') as readonly McpPrompt[];
  }

  async read(uri: string, { signal, timeoutMs: timeout, answerer }: McpCallOptions): Promise<readonly McpContents[]> {
    const client = this.#client as Client;
    const reading = () => client.readResource({ uri }, { signal, timeout });
    return (await orAborted(this.#callers.during(answerer, reading), signal)).contents as readonly McpContents[];
  }

  async prompt(
    name: string,
    args: Readonly<Record<string, string>>,
    { signal, timeoutMs: timeout, answerer }: McpCallOptions,
  ): Promise<McpPromptText> {
    const client = this.#client as Client;
    const getting = () => client.getPrompt({ name, arguments: { ...args } }, { signal, timeout });
    return (await orAborted(this.#callers.during(answerer, getting), signal)) as McpPromptText;
  }

  /** Returns the possible values of an argument; none if it has no such capability. */
  async complete(
    { of, argument: name, value, others }: McpCompletion,
    { signal, timeoutMs: timeout }: McpCallOptions,
  ): Promise<McpCompleted> {
    const client = this.#client as Client;
    if (client.getServerCapabilities()?.completions === undefined) return { values: [] };
    const ref =
      'prompt' in of
        ? ({ type: 'ref/prompt', name: of.prompt } as const)
        : ({ type: 'ref/resource', uri: of.uriTemplate } as const);
    const params = { ref, argument: { name, value }, context: { arguments: { ...others } } };
    return (await orAborted(client.complete(params, { signal, timeout }), signal)).completion;
  }

  /** Subscribes to changes of a resource. Rejects if the server offers no subscriptions. */
  async subscribe(uri: string, signal: AbortSignal): Promise<void> {
    const client = this.#client as Client;
    const subscribing: Promise<unknown> = this.#listening?.add(uri) ?? client.subscribeResource({ uri }, { signal });
    await orAborted(subscribing, signal);
  }

  async unsubscribe(uri: string, signal: AbortSignal): Promise<void> {
    const client = this.#client as Client;
    const ending: Promise<unknown> = this.#listening?.remove(uri) ?? client.unsubscribeResource({ uri }, { signal });
    await orAborted(ending, signal);
  }

  /** Calls a tool. Rejects as the client does, and with the reason of `signal`. */
  call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    { signal, timeoutMs: timeout, onProgress, answerer }: McpCallOptions,
  ): Promise<McpResult> {
    const tasks = this.#statelessTasks;
    // The messages of a task are progress, which its time starts again with.
    const onprogress = onProgress ?? (tasks && (() => {}));
    const settings = { signal, timeout, resetTimeoutOnProgress: true, ...(onprogress && { onprogress }) };
    const client = this.#client as Client;
    const request: TaskRequest = (method, params, until) =>
      client.request({ method, params }, anyResult, { signal: until, timeout });
    const meta = this.#logMeta && { _meta: this.#logMeta };
    const { outputSchema } = this.tools.find((each) => each.name === name) ?? {};
    const bare = () => client.callTool({ name, arguments: { ...args }, ...meta }, settings);
    const plainly = () => checkedResult(name, outputSchema, signal, bare);
    const calling = this.#tasks.has(name)
      ? () => callAsTask(request, name, args, { signal, timeoutMs: timeout, onProgress })
      : () => tasks?.during(plainly) ?? plainly();
    return orAborted(answerer === undefined ? calling() : this.#callers.during(answerer, calling), signal);
  }

  /**
   * Returns the error that a person has to sign in, for a request that failed for that reason; else undefined. Never
   * rejects.
   */
  async signInNeeded(thrown: unknown): Promise<HandfastError | undefined> {
    if (this.#authorization === undefined) return undefined;
    if (thrown instanceof HandfastError) return thrown.code === 'unauthorized' ? thrown : undefined;
    const {
      name,
      status,
      requiredScope: scope,
      resourceMetadataUrl,
    } = thrown as Partial<InsufficientScopeError> & {
      readonly status?: unknown;
    };
    if (name !== 'InsufficientScopeError' && status !== 401) return undefined;
    return this.#authorization.needed({ scope, resourceMetadataUrl });
  }

  /**
   * Returns true if the server may have received a request that got no response; undefined for another failure, and on
   * pipes.
   */
  mayHaveReceived(thrown: unknown): boolean | undefined {
    return typeof thrown === 'object' && thrown !== null ? this.#http?.mayHaveReceived(thrown) : undefined;
  }

  /** Asks the server for a sign of life. Rejects as a request does. */
  async check(signal: AbortSignal): Promise<void> {
    const client = this.#client as Client;
    await orAborted<unknown>(this.era === 'sessions' ? client.ping({ signal }) : client.discover({ signal }), signal);
  }

  /** Ends the connection, and ensures that nothing it started remains. Bounded, never rejects. */
  async end(): Promise<void> {
    await this.#end();
  }

  #overHttp(sdk: McpSdk, client: Client): Transport {
    const http = new OverHttp({
      sdk,
      address: this.#server.http as NonNullable<McpAddress['http']>,
      authorization: this.#authorization,
      reader: this.#reader,
      onDoubt: () => {
        if (!this.isClosed) this.#onDoubt?.(this);
      },
    });
    this.#http = http;
    this.#end = async () => {
      const left = new AbortController();
      // So that the server need not store the session until it expires.
      const leaving = http.transport.terminateSession().catch(() => {});
      await Promise.race([leaving.then(() => left.abort()), sleep(GOODBYE_MS, left.signal)]);
      http.end();
      await client.close().catch(() => {});
    };
    return http.transport;
  }

  async #asProgram({ command, args = [], env, onlyEnv, cover }: NonNullable<McpAddress['stdio']>): Promise<Transport> {
    const stop = new AbortController();
    // The caller of each request: a question within a response is one to the caller of that request.
    const callers = new Map<unknown, McpAnswerer>();
    const transport: Transport = {
      start: async () => {},
      send: async (message) => {
        const { current } = this.#callers;
        if (current !== undefined && 'id' in message && 'method' in message) callers.set(message.id, current);
        this.#reader.sent(message);
        program.write(`${JSON.stringify(message)}\n`);
      },
      close: async () => program.write(null),
    };
    const receive = (message: Message): void => {
      const id = 'method' in message ? undefined : message.id;
      const caller = callers.get(id);
      if (caller === undefined) return void transport.onmessage?.(message);
      callers.delete(id);
      this.#callers.within(caller, () => transport.onmessage?.(message));
    };
    const options: ProgramOptions = {
      argv: [command, ...args],
      cwd: this.#cwd,
      env: onlyEnv ?? programEnvironment(env, childEnvironment({}, process.env)),
      stdin: 'open',
      signal: stop.signal,
      terminateMs: TERMINATE_MS,
      maxStdoutBytes: 0,
      maxLineChars: MAX_MESSAGE,
      onLine: (line) => {
        const messages = line.length < MAX_MESSAGE ? this.#reader.text(line) : this.#reader.tooMany(line, 'characters');
        // Some servers print other lines before they start the protocol.
        if (messages.length === 0) this.dropped += 1;
        else this.#hasPrinted = true;
        for (const message of messages) receive(message);
      },
    };
    const program = await startCovered(options, { ...cover, signal: this.#bound }, () => {
      this.ended ??= fail('connection_lost', 'the server was ended: a protected file was replaced while it ran');
      stop.abort();
    });
    this.#stderr = () => program.stderr;
    let isLeaving = false;
    const ended = program.ended.then(({ code }) => {
      const last = this.stderr.at(-1);
      const why = `the server ended with code ${code}${last === undefined ? '' : `: ${last}`}`;
      if (!isLeaving) this.ended ??= fail('connection_lost', why);
      transport.onclose?.();
    });
    this.#end = async () => {
      isLeaving = true;
      program.write(null);
      const timer = setTimeout(() => stop.abort(), LEAVE_MS);
      await ended;
      clearTimeout(timer);
    };
    return transport;
  }
}

/** Results of requests that are checked where they are used. */
const anyResult = {
  '~standard': { version: 1, vendor: 'handfast', validate: (value: unknown) => ({ value }) },
} as const;

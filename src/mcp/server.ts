/**
 * One MCP server over time: started when it is first needed, started again after it was lost, asked for its tools,
 * called. This file decides health, backoff and accepted definitions, for every use of MCP servers in this project.
 *
 * Every wait is bounded, and `close` leaves no process.
 */
import { backoffMs } from '../base/backoff.ts';
import { orAborted } from '../base/race.ts';
import { type Clock, processTimer } from '../base/timer-queue.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import type { McpAllowed } from './asks.ts';
import type { McpAuthorization } from './authorization.ts';
import { connectMcp, type McpCallOptions, type McpConnection } from './connection.ts';
import type { McpAddress, McpHealth, McpInfo, McpLogLevel, McpResult, McpState } from './definition.ts';
import { type EraStore, memoryEra } from './era.ts';
import { clientProblem } from './http-problem.ts';
import { isUnreadable } from './read-message.ts';
import { acceptTools, memoryPins, type PinnedTool, type PinStore, pinned } from './tool-pins.ts';

export interface McpServerOptions {
  readonly address: McpAddress;
  /** The sign-in of a server over HTTP. Default: none, and the headers of its address have the credentials it demands. */
  readonly authorization?: McpAuthorization | undefined;
  /** Folder a program is started in, absolute. */
  readonly cwd: string;
  /** Longest start with the list of tools, milliseconds. Default 60,000: a package runner may first download the server. */
  readonly startTimeoutMs?: number;
  /**
   * Called before each start; the returned function is called when the started process has ended. Rejecting refuses the
   * start.
   */
  readonly acquire?: (signal: AbortSignal) => Promise<(() => void) | undefined>;
  /** Starts a lost server again by itself, not only with its next use. */
  readonly keepRunning?: boolean;
  /** The least level of messages that the server is to send, which are notifications. Default: it decides. */
  readonly logLevel?: McpLogLevel | undefined;
  /** Requests that the server may make. Default none. */
  readonly allowed?: McpAllowed | undefined;
  /** Called when the health or the tools have changed. */
  readonly onChange?: () => void;
  /** Gets each notification of the server that belongs to no call. */
  readonly onNotification?: (method: string, params: Readonly<Record<string, unknown>>) => void;
  /** The accepted definitions. Default: in memory. */
  readonly pins?: PinStore;
  /** The generation of the protocol that it spoke last. Default: in memory. */
  readonly era?: EraStore | undefined;
  readonly clock?: Clock;
  /** Returns 0 ≤ x < 1, for the jitter of the backoff. */
  readonly random?: () => number;
}

export const START_MS = 60_000;
/** The delay after the second failure in a row; the first is followed by a start at once. */
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;
/** Time after which a server counts as stable: a later failure is a first failure. */
const STABLE_MS = 10_000;
/** Longest reading of a list that has changed. */
const LIST_MS = 30_000;
/** Lists that follow one another within this time are one burst; after `MAX_BURST` of a burst each waits as long. */
const BURST_MS = 1_000;
const MAX_BURST = 5;
const MAX_DETAIL = 280;

export class McpServer {
  readonly #options: McpServerOptions;
  readonly #clock: Clock;
  readonly #pins: PinStore;
  readonly #era: EraStore;
  readonly #stop = new AbortController();
  #state: McpState = 'idle';
  #detail = '';
  #stderr: readonly string[] = [];
  #failure: unknown;
  #failures = 0;
  #retryAt = 0;
  #readyAt = 0;
  #cancelRetry: (() => void) | undefined;
  #starting: Promise<McpConnection> | undefined;
  #connection: McpConnection | undefined;
  /** The release functions that `acquire` returned, for each open connection. */
  readonly #acquired = new Map<McpConnection, (() => void) | undefined>();
  /** Work that must end before `close` resolves. */
  readonly #ending = new Set<Promise<void>>();
  #tools: readonly PinnedTool[] = [];
  #byName: ReadonlyMap<string, PinnedTool> = new Map();
  readonly #subscriptions = new Set<string>();
  readonly #checking = new Set<McpConnection>();
  #listing: Promise<void> | undefined;
  #listAgain = false;
  #listedAt = Number.NEGATIVE_INFINITY;
  #burst = 0;

  constructor(options: McpServerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? { monotonic: () => performance.now(), timer: processTimer };
    this.#pins = options.pins ?? memoryPins();
    this.#era = options.era ?? memoryEra();
  }

  get health(): McpHealth {
    return {
      state: this.#state,
      detail: this.#detail,
      stderr: this.#connection?.stderr ?? this.#stderr,
      failures: this.#failures,
      retryInMs: this.#connection === undefined ? Math.max(0, this.#retryAt - this.#clock.monotonic()) : 0,
    };
  }

  /** The server's name and version, as it sends them; undefined while it is not connected. */
  get info(): McpInfo | undefined {
    return this.#connection?.info;
  }

  /** The tools of the last list; unaccepted ones are marked and cannot be called. */
  get tools(): readonly PinnedTool[] {
    return this.#tools;
  }

  /**
   * Starts the server if it does not run. Rejects with the reason why it cannot be used, `unreachable`, `unauthorized`,
   * `timeout` or the error of `acquire`, and at once while a start would be too soon after failures.
   * @param signal ends the wait, not the start
   */
  async start(signal?: AbortSignal): Promise<void> {
    await this.#connected(signal);
  }

  /**
   * Calls a tool. Rejects as {@link start} does, as the client does, with the reason of the signal, with `tool_denied` for a
   * definition that was not accepted, with `timeout`, and with `connection_lost` when the server was lost while the call ran.
   */
  call(name: string, args: Readonly<Record<string, unknown>>, options: McpCallOptions): Promise<McpResult> {
    return this.use(options, (connection) => {
      this.#mustBeAccepted(name);
      return connection.call(name, args, options);
    });
  }

  /** Makes a request of the server by its connection. Rejects as {@link call} does. */
  async use<Result>(options: McpCallOptions, work: (connection: McpConnection) => Promise<Result>): Promise<Result> {
    const { signal } = options;
    for (let isFirst = true; ; isFirst = false) {
      const connection = this.#connection ?? (await this.#connected(signal));
      try {
        return await work(connection);
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        const needed = await connection.signInNeeded(thrown);
        if (needed !== undefined) {
          await this.#lost(connection, needed, 'needs_auth');
          throw needed;
        }
        const hasRun = asError(thrown).detail.may_have_run === true;
        if (connection.expired) {
          await this.#lost(connection, fail('connection_lost', 'the server no longer knows the session'));
          // The server did not run this call: a new session repeats it once. Other calls of the connection may have run.
          if (isFirst && !hasRun && connection.forgot(thrown)) continue;
        }
        if (hasRun) {
          void this.#check(connection);
          throw thrown;
        }
        const mayHaveRun = connection.mayHaveReceived(thrown);
        if (mayHaveRun === false) {
          await this.#lost(connection, whyOf('connection_lost', thrown));
          if (isFirst) continue;
          throw whyOf('unreachable', thrown);
        }
        if (mayHaveRun === true) {
          void this.#check(connection);
          throw lostDuringCall(whyOf('connection_lost', thrown).message, thrown);
        }
        if (isTimeout(thrown))
          throw fail('timeout', `no answer within ${options.timeoutMs} ms`, { may_have_run: true });
        const problem = isUnreadable(thrown)
          ? { message: asError(thrown).message, mayHaveRun: true }
          : clientProblem(thrown);
        if (problem !== undefined) {
          throw fail('tool_error', problem.message, problem.mayHaveRun ? { may_have_run: true } : {}, thrown);
        }
        if (!connection.isClosed || connection.forgot(thrown)) throw thrown;
        throw lostDuringCall(connection.ended?.message ?? 'the server closed the connection', thrown);
      }
    }
  }

  /** Subscribes to changes of a resource, which arrive as notifications, also after the server was started again. */
  async subscribe(uri: string, options: McpCallOptions): Promise<void> {
    await this.use(options, (connection) => connection.subscribe(uri, options.signal));
    this.#subscriptions.add(uri);
  }

  /** Ends a subscription; at the server too, if it runs. Never rejects. */
  async unsubscribe(uri: string): Promise<void> {
    this.#subscriptions.delete(uri);
    await this.#connection?.unsubscribe(uri, AbortSignal.timeout(LIST_MS)).catch(() => {});
  }

  /** Accepts definitions as they are now: those named, or all. */
  async accept(names?: readonly string[]): Promise<void> {
    this.#setTools(await acceptTools(this.#tools, this.#pins, names));
    this.#options.onChange?.();
  }

  /** Ends the server with all that it started. Bounded, never rejects; later uses reject. */
  async close(): Promise<void> {
    this.#cancelRetry?.();
    this.#stop.abort(fail('interrupted', 'the server was closed'));
    await this.#starting?.catch(() => {});
    this.#state = 'closed';
    if (this.#connection !== undefined) this.#end(this.#connection);
    this.#connection = undefined;
    await Promise.all(this.#ending);
  }

  async #connected(signal?: AbortSignal): Promise<McpConnection> {
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
    if (this.#connection !== undefined) return this.#connection;
    // A sign-in ends the delay; the file is read again in any case.
    const hasSignedIn = this.#state === 'needs_auth' && (await this.#options.authorization?.hasToken()) === true;
    const isTooSoon = this.#starting === undefined && this.#retryAt > this.#clock.monotonic();
    if (isTooSoon && !hasSignedIn) throw this.#failure;
    return orAborted(this.#startOnce(), signal);
  }

  #startOnce(): Promise<McpConnection> {
    this.#cancelRetry?.();
    this.#starting ??= this.#started().finally(() => {
      this.#starting = undefined;
    });
    this.#starting.catch(() => {});
    return this.#starting;
  }

  async #started(): Promise<McpConnection> {
    const {
      address,
      cwd,
      startTimeoutMs = START_MS,
      acquire,
      allowed,
      authorization,
      logLevel,
      onNotification,
    } = this.#options;
    const late = AbortSignal.timeout(startTimeoutMs);
    const signal = AbortSignal.any([late, this.#stop.signal]);
    this.#become('starting');
    this.#listAgain = false;
    let attempt: McpConnection | undefined;
    let release: (() => void) | undefined;
    try {
      release = await acquire?.(signal);
      const connection = await connectMcp(address, {
        cwd,
        signal,
        allowed,
        authorization,
        era: this.#era,
        logLevel,
        onAttempt: (each) => {
          attempt = each;
        },
        onDoubt: (connection) => void this.#check(connection),
        onNotification: (method, params) => {
          if (method === 'notifications/tools/list_changed') void this.#relist();
          onNotification?.(method, params);
        },
      });
      this.#setTools(await pinned(connection.tools, this.#pins));
      // A resource that no longer exists has no changes to report.
      await Promise.allSettled([...this.#subscriptions].map((uri) => connection.subscribe(uri, signal)));
      this.#acquired.set(connection, release);
      this.#connection = connection;
      this.#readyAt = this.#clock.monotonic();
      void connection.closed.then(() => this.#lost(connection));
      this.#become('ready');
      // A list that changed while the server was started.
      if (this.#listAgain) void this.#relist();
      return connection;
    } catch (thrown) {
      release?.();
      this.#stderr = attempt?.stderr ?? [];
      if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
      if (late.aborted) this.#failed('timeout', fail('timeout', `no answer within ${startTimeoutMs} ms`));
      else if (attempt?.unauthorized === true && asError(thrown).code !== 'unreachable') {
        this.#failed('needs_auth', (await attempt.signInNeeded(thrown)) ?? whyOf('unauthorized', thrown));
      } else this.#failed(isTimeout(thrown) ? 'timeout' : 'failed', whyOf('unreachable', attempt?.ended ?? thrown));
      throw this.#failure;
    }
  }

  #end(connection: McpConnection): void {
    const release = this.#acquired.get(connection);
    this.#acquired.delete(connection);
    const ending = connection.end().then(() => {
      release?.();
      this.#ending.delete(ending);
    });
    this.#ending.add(ending);
  }

  /** Handles the end of the connection, by itself or because it is of no use. */
  async #lost(connection: McpConnection, why?: HandfastError, state: McpState = 'failed'): Promise<void> {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#stderr = connection.stderr;
    if (this.#clock.monotonic() - this.#readyAt >= STABLE_MS) this.#failures = 0;
    this.#end(connection);
    const reason = why ?? connection.ended ?? fail('connection_lost', 'the server closed the connection');
    this.#failed(state, whyOf('connection_lost', reason));
  }

  /** Finds out whether a server over HTTP, of which a stream was cut off, is still there. Never rejects. */
  async #check(connection: McpConnection): Promise<void> {
    if (this.#connection !== connection || this.#checking.has(connection)) return;
    this.#checking.add(connection);
    try {
      await connection.check(AbortSignal.timeout(LIST_MS));
    } catch (thrown) {
      const isLost = connection.expired || connection.mayHaveReceived(thrown) !== undefined;
      if (isLost) await this.#lost(connection, whyOf('connection_lost', thrown));
    } finally {
      this.#checking.delete(connection);
    }
  }

  #failed(state: McpState, why: HandfastError): void {
    const { keepRunning = false, random } = this.#options;
    this.#failure = why;
    this.#failures += 1;
    const backoff = { firstDelayMs: FIRST_DELAY_MS, maxDelayMs: MAX_DELAY_MS, ...(random && { random }) };
    const delayMs = this.#failures === 1 ? 0 : backoffMs(this.#failures - 2, backoff);
    this.#retryAt = this.#clock.monotonic() + delayMs;
    if ((keepRunning || this.#subscriptions.size > 0) && state !== 'needs_auth') {
      this.#cancelRetry = this.#clock.timer(() => void this.#startOnce().catch(() => {}), delayMs);
    }
    this.#become(state, why.message);
  }

  #setTools(tools: readonly PinnedTool[]): void {
    this.#tools = tools;
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]));
  }

  #become(state: McpState, detail = ''): void {
    this.#state = state;
    this.#detail = detail;
    this.#options.onChange?.();
  }

  /** Reads the tools again; one reading at a time, and one more for changes while it ran. */
  async #relist(): Promise<void> {
    this.#listAgain = true;
    this.#listing ??= (async () => {
      while (this.#listAgain && this.#connection !== undefined) {
        await this.#pace();
        this.#listAgain = false;
        const tools = await this.#connection?.listTools(AbortSignal.timeout(LIST_MS)).catch(() => undefined);
        if (tools === undefined) continue;
        this.#setTools(await pinned(tools, this.#pins));
        this.#options.onChange?.();
      }
    })().finally(() => {
      this.#listing = undefined;
    });
    await this.#listing;
  }

  /** Waits before a list, so that a server whose tools change with every list is not listed continuously. */
  async #pace(): Promise<void> {
    const now = this.#clock.monotonic();
    this.#burst = now - this.#listedAt < BURST_MS ? this.#burst + 1 : 0;
    this.#listedAt = now;
    if (this.#burst < MAX_BURST) return;
    await new Promise<void>((resolve) => this.#clock.timer(resolve, BURST_MS));
    this.#listedAt = this.#clock.monotonic();
  }

  #mustBeAccepted(name: string): void {
    const tool = this.#byName.get(name);
    if (tool === undefined) throw fail('unknown_tool', `the server has no tool ${JSON.stringify(name.slice(0, 64))}`);
    if (tool.pin === 'accepted') return;
    const what = tool.pin === 'new' ? 'is new' : 'has changed';
    const message = `the definition of ${JSON.stringify(name)} ${what} since the tools of its server were accepted`;
    throw fail('tool_denied', message, { reason: 'tool_changed', tool: name, digest: tool.digest });
  }
}

const isTimeout = (thrown: unknown): boolean => (thrown as { code?: unknown }).code === 'REQUEST_TIMEOUT';

const lostDuringCall = (why: string, thrown: unknown): HandfastError =>
  fail('connection_lost', `${why}; the tool may or may not have taken effect`, { may_have_run: true }, thrown);

/** Returns the error in one line; a `HandfastError` unchanged. */
function whyOf(code: 'unreachable' | 'unauthorized' | 'connection_lost', thrown: unknown): HandfastError {
  const { message, cause } = asError(thrown);
  const problem = clientProblem(thrown);
  if (problem !== undefined) return fail(code, problem.message.slice(0, MAX_DETAIL), undefined, thrown);
  // `fetch failed` alone has too little information.
  const why = cause instanceof Error && cause !== thrown ? cause : (cause as Error | undefined)?.cause;
  const full = why instanceof Error && !message.includes(why.message) ? `${message}: ${why.message}` : message;
  const text = full.replace(/\s+/g, ' ').slice(0, MAX_DETAIL);
  if (thrown instanceof HandfastError && thrown.message === text) return thrown;
  return fail(code, text, undefined, thrown);
}

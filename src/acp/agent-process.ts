/**
 * One running agent: the child process, the protocol's connection to it, and its capabilities. The caller passes in the
 * function that starts the process.
 */
import { orAborted, withTimeout } from '../base/race.ts';
import type { Link, Message } from '../transport/link.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { linkStream } from './link-stream.ts';
import { type AgentLoan, capabilitiesOf, LOAN_METHODS, type LoanMethod, type LoanParams } from './loan.ts';
import { requestErrorOf } from './request-error.ts';
import {
  type AcpSdk,
  type AgentCapabilities,
  type ClientApp,
  type ClientConnection,
  type ClientContext,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  type InitializeResponse,
  loadAcp,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
} from './sdk.ts';
import type { AgentCommand, StartProgram } from './start-program.ts';

/** The requests and updates of an agent. */
export interface AgentClient {
  /** Receives a `session/update`, as the agent sent it. */
  update(sessionId: string, update: unknown): void;
  permission(request: RequestPermissionRequest): Promise<RequestPermissionResponse>;
  elicit(request: CreateElicitationRequest): Promise<CreateElicitationResponse>;
}

export interface AgentProcessOptions extends AgentCommand {
  readonly cwd: string;
  /** For messages. */
  readonly name: string;
  readonly version: string;
  readonly start: StartProgram;
  readonly client: AgentClient;
  /** The files and terminals it may use. Default: none. */
  readonly loan?: AgentLoan | undefined;
  /** Most bytes of one message. */
  readonly maxMessageBytes: number;
  /** Time for the process to start and to answer `initialize`, in milliseconds. */
  readonly startTimeoutMs: number;
  /**
   * Waits until the process may be started, and resolves with a function that is called once the process has ended.
   * Default: at once.
   */
  readonly acquire?: (signal: AbortSignal) => Promise<() => void>;
  /** Receives each line of stderr and each invalid line of stdout. */
  readonly log?: (line: string) => void;
}

/** Lines of stderr that a failure carries. */
const TAIL_LINES = 20;
const TAIL_LINE_CHARS = 200;

/** Time for a process to end by itself after its stdin is closed. */
const CLOSE_GRACE_MS = 2000;

/** The error code of agents without a sign-in. */
const AUTH_REQUIRED = -32000;

export class AgentProcess {
  readonly #name: string;
  readonly #link: Link;
  readonly #connection: ClientConnection;
  readonly #tail: readonly string[];
  #initialized: InitializeResponse | undefined;
  #alive = true;
  /** Resolves with the error of running and later calls, once the agent has ended. */
  readonly ended: Promise<HandfastError>;

  private constructor(name: string, link: Link, connection: ClientConnection, ended: Promise<string>, tail: string[]) {
    this.#name = name;
    this.#link = link;
    this.#connection = connection;
    this.#tail = tail;
    this.ended = ended.then((reason) => {
      this.#alive = false;
      connection.close();
      const detail = { agent: name, stderr: [...tail] };
      // The next turn starts it again.
      return new HandfastError('provider_error', `the agent ${name} ended: ${reason}`, { detail, retryable: true });
    });
  }

  /**
   * Starts an agent and performs the handshake. Fails with `not_configured` when it cannot be started or speaks another
   * version, with `provider_error` when it ends or stays silent, as `options.acquire` does, and with the reason of `signal`.
   */
  static async start(options: AgentProcessOptions, signal: AbortSignal): Promise<AgentProcess> {
    const sdk = await loadAcp();
    signal.throwIfAborted();
    const release = await options.acquire?.(signal);
    let agent: AgentProcess;
    try {
      agent = await AgentProcess.#started(sdk, options);
    } catch (error) {
      release?.();
      throw error;
    }
    void agent.ended.then(release);
    try {
      signal.throwIfAborted();
      await agent.#initialize(sdk.PROTOCOL_VERSION, options, signal);
      return agent;
    } catch (error) {
      agent.kill();
      throw error;
    }
  }

  static async #started(sdk: AcpSdk, options: AgentProcessOptions): Promise<AgentProcess> {
    const { name, command, args, env, cwd, maxMessageBytes, log } = options;
    const tail: string[] = [];
    const onStderr = (line: string): void => {
      tail.push(line.slice(0, TAIL_LINE_CHARS));
      if (tail.length > TAIL_LINES) tail.shift();
      log?.(line);
    };
    // Some programs believe PWD before the system.
    const settled = { command, args, env: { ...env, PWD: cwd }, cwd };
    const link = await options.start({ ...settled, onStderr, maxMessageBytes }).catch((error: unknown) => {
      throw fail(
        'not_configured',
        `the agent ${name} cannot be started: ${asError(error).message}`,
        { agent: name },
        error,
      );
    });
    // Read by hand, because a kind of update this SDK does not know must not be an error.
    const take = ({ method, params }: Message): boolean => {
      if (method !== 'session/update') return false;
      const { sessionId, update } = (params ?? {}) as { sessionId?: unknown; update?: unknown };
      if (typeof sessionId === 'string') options.client.update(sessionId, update);
      return true;
    };
    const { stream, closed } = linkStream(link, { skipped: log, take });
    const app = sdk
      .client({ name: 'handfast' })
      .onRequest('session/request_permission', ({ params }) => options.client.permission(params))
      .onRequest('elicitation/create', ({ params }) => options.client.elicit(params));
    if (options.loan !== undefined) lend(sdk, app, options.loan);
    const connection = app.connect(stream);
    return new AgentProcess(
      name,
      link,
      connection,
      closed.then(({ reason }) => reason),
      tail,
    );
  }

  async #initialize(version: number, options: AgentProcessOptions, signal: AbortSignal): Promise<void> {
    const answer = await this.call(
      (agent) =>
        agent.request('initialize', {
          protocolVersion: version,
          clientInfo: { name: 'handfast', version: options.version },
          clientCapabilities: {
            ...capabilitiesOf(options.loan?.offer),
            elicitation: { form: {} },
          },
        }),
      signal,
      options.startTimeoutMs,
    );
    if (answer.protocolVersion !== version) {
      const message = `the agent ${this.#name} speaks version ${answer.protocolVersion} of the protocol, not ${version}`;
      throw fail('not_configured', message, { agent: this.#name });
    }
    this.#initialized = answer;
  }

  /** The agent's capabilities. */
  get capabilities(): AgentCapabilities {
    return this.#initialized?.agentCapabilities ?? {};
  }

  get alive(): boolean {
    return this.#alive;
  }

  /**
   * Sends a request. Fails with the agent's error reply (`provider_error`, or `not_configured` when it wants a
   * sign-in), with the end of the agent, with `provider_error` after `timeoutMs` (which ends the agent), and with the
   * reason of `signal`.
   */
  async call<Result>(
    send: (agent: ClientContext) => Promise<Result>,
    signal: AbortSignal | undefined,
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const late = (): HandfastError => {
      // The request may still be half done in this process; the next turn has a fresh one.
      this.kill();
      return fail('provider_error', `the agent ${this.#name} did not answer within ${timeoutMs} ms`, this.#detail());
    };
    const ended = this.ended.then((error) => Promise.reject(error));
    try {
      return await orAborted(withTimeout(Promise.race([send(this.#connection.agent), ended]), timeoutMs, late), signal);
    } catch (error) {
      if (signal?.aborted) throw error;
      const { code } = error as { code?: unknown };
      // Reported by the stream that broke, not by the agent.
      if (code === 'too_large')
        throw fail('provider_error', `the agent ${this.#name}: ${asError(error).message}`, this.#detail());
      if (error instanceof HandfastError) throw error;
      // A closed connection fails its calls first; its reason follows a little later, bounded by its link.
      throw this.#connection.signal.aborted ? await this.ended : this.#refusal(error);
    }
  }

  /** Sends a notification. Does nothing once the agent has ended. */
  notify(send: (agent: ClientContext) => Promise<void>): void {
    send(this.#connection.agent).catch(() => {});
  }

  /** Stops the agent in order: closes its stdin, and terminates it if it does not exit. Bounded, never rejects. */
  async close(): Promise<void> {
    await this.#link.close('the session is closed', CLOSE_GRACE_MS);
    await this.ended;
  }

  /** Ends the agent, and all it started, at once. */
  kill(): void {
    this.#link.destroy('the agent was ended');
  }

  #refusal(error: unknown): HandfastError {
    const { code, message, data } = error as { code?: number; message?: string; data?: unknown };
    const detail = { ...this.#detail(), agent_code: code };
    if (code === AUTH_REQUIRED) {
      const ways = (this.#initialized?.authMethods ?? []).map(({ name, description }) => description ?? name);
      const how = ways.length === 0 ? '' : `: ${ways.join('; ')}`;
      return fail('not_configured', `the agent ${this.#name} wants you to sign in${how}`, detail, error);
    }
    const more = typeof data === 'object' && data !== null ? (data as { details?: unknown; message?: unknown }) : {};
    const why = [more.details, more.message].find((text) => typeof text === 'string' && text !== '');
    const text = why === undefined ? String(message) : `${message}: ${why}`;
    return fail('provider_error', `the agent ${this.#name} failed: ${text}`, detail, error);
  }

  #detail(): Record<string, unknown> {
    return { agent: this.#name, stderr: [...this.#tail] };
  }
}

/** Serves the methods of the parts that are lent; the others do not exist for the agent. */
function lend(sdk: AcpSdk, app: ClientApp, loan: AgentLoan): void {
  for (const [method, part] of Object.entries(LOAN_METHODS)) {
    if (!loan.offer[part]) continue;
    // The methods differ in their results alone, which `request` knows.
    app.onRequest(method as 'terminal/create', async ({ params }) => {
      try {
        return (await loan.request(method as LoanMethod, params as LoanParams)) as { terminalId: string };
      } catch (thrown) {
        throw requestErrorOf(sdk, thrown);
      }
    });
  }
}

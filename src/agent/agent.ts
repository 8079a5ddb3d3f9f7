/**
 * An agent's session with a host: the handshake's terms, calls, and resume after a lost link.
 *
 * `connect.ts` makes agents and adds the clients of the requested capabilities; `agent/addresses.ts` knows the
 * transports.
 * @see docs/architecture.md#resume
 */
import { nextTurn } from '../base/next-turn.ts';
import type { Call, CallEvent, CallOptions, MethodCaller } from '../connection/call.ts';
import { Connection, type ConnectionLimits, type ConnectionOwner, type Message } from '../connection/connection.ts';
import { KeptReplies } from '../connection/kept-replies.ts';
import type { CallLimits, OutgoingCalls } from '../connection/outgoing-calls.ts';
import {
  type ConnectionState,
  type Gap,
  type Opened,
  Reconnect,
  type ReconnectSettings,
  type StateChange,
  type Verdict,
} from '../connection/reconnect.ts';
import { readToken, type Token } from '../connection/token.ts';
import * as replies from '../protocol/a2e.replies.generated.ts';
import {
  type CapabilitiesChanged,
  type CapabilityGrant,
  capabilitiesChanged,
  capabilityNames,
  checkPing,
  EXTENSION_CANCEL,
  EXTENSION_CAPABILITIES,
  EXTENSION_JOURNAL,
  EXTENSION_RESUME,
  type HandshakeResp,
  isAdditionalCapability,
  journalFollow,
  ping,
} from '../protocol/a2e.ts';
import { answered, type Body, type Method, type Push, untyped } from '../protocol/method.ts';
import { type CloseInfo, DEFAULT_MAX_MESSAGE_BYTES, type Link } from '../transport/link.ts';
import { A2ECodec, isVerbatim, withoutEnvelope } from '../wire/a2e.ts';
import { shown } from '../wire/codec.ts';
import { MAX_REPLY_VALUES } from '../wire/depth.ts';
import { asError, fail, HandfastError } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import { type HandshakeOutcome, type Offer, performHandshake } from './handshake.ts';
import { type AskHandler, HostMessages, type PushListener } from './host-messages.ts';

export interface AgentOptions {
  /** Called when the offer or the lists of a granted capability changed; `agent.capabilities` is updated first. */
  readonly onCapabilityChanged?: (capability: string, granted: GrantedCapability) => void;
  /** Free name, shown in the host's log. Default `handfast-agent`. */
  readonly agentId?: string;
  /** Sent with each handshake; a function is called again for each link. Default: none is sent. */
  readonly token?: Token;
  /** Time limit of calls that bring none, in milliseconds. Default 60,000; 0 = none. */
  readonly timeoutMs?: number;
  /** Time for reaching the host and for the handshake. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Cancels connecting; has no effect once it is connected. */
  readonly signal?: AbortSignal;
  /** Calls in flight at once; never more than the host grants. */
  readonly maxParallel?: number;
  /** Maximum number of queued calls. Default 10,000. */
  readonly queueLimit?: number;
  /** False: a lost link ends the session. Default true where the host agrees. */
  readonly resume?: boolean;
  /** Longest message sent or accepted, in bytes. Default 1 MiB. */
  readonly maxMessageBytes?: number;
  /** Called for every change of the connection: opened, lost, resumed, closed. */
  readonly onState?: (change: StateChange) => void;
  /** Delays, bound and liveness of reconnecting. `maxMs` never exceeds the host's resume window, which is its default. */
  readonly reconnect?: ReconnectSettings;
  /**
   * Called when the host no longer has entries of the session that this side missed, with their cursors. The calls that
   * the entries belong to report `gaps` too.
   */
  readonly onGap?: (gap: Gap) => void;
  /** Called with lines that are not messages, e.g. banners on a host's stdout. */
  readonly onUnparsed?: (line: string) => void;
}

/** The terms of one capability. */
export interface GrantedCapability {
  readonly enabled: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** Opens a link to the host; called again for each reconnect. */
export type Dial = (signal: AbortSignal | undefined) => Promise<Link>;

/** Failures of an attempt after which the next may succeed. */
const retried: ReadonlySet<string> = new Set(['unreachable', 'connection_lost', 'timeout', 'server_error']);

/** The limits of an agent, which trusts its host more than a host trusts its agents. */
const connectionLimits: ConnectionLimits = {
  maxParallel: 64,
  queueLimit: 1024,
  maxDepth: 1024,
  maxValues: MAX_REPLY_VALUES,
  maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES,
  sendBufferBytes: 64 * 1024 * 1024,
  slowConsumerMs: 30_000,
  // A host may be busy for as long as the time limits of calls allow.
  writeStallMs: 0,
};

/** Codes a host ends a session with. */
const farewells: ReadonlySet<string> = new Set(['superseded', 'session_expired', 'interrupted', 'slow_consumer']);

const pingCall = answered(ping, replies.Pong);
const journalFollowCall = {
  ...answered(journalFollow, replies.JournalFollowResp),
  gapOf: (data: Readonly<Record<string, unknown>>) => (data.kind === 'gap' ? gapOf(data) : undefined),
};

export class AgentSession {
  readonly #dial: Dial;
  readonly #options: AgentOptions;
  readonly #capabilities: readonly string[];
  readonly #codec = new A2ECodec();
  readonly #connection: Connection;
  readonly #callLimits: CallLimits;
  #granted = new Map<string, GrantedCapability>();
  #extensions: ReadonlySet<string> = new Set();
  #resumeWindowMs = 0;
  /** The number of restarts of the host in this session. */
  #restarts = 0;
  /** Read before dialling, so that it does not count for the handshake timeout. */
  #token: string | undefined;
  readonly #link: Reconnect<HandshakeOutcome>;
  readonly #host = new HostMessages();
  #closing: Promise<void> | undefined;
  /** The last error of the host about the session: the reason it is about to end the link. */
  #farewell: HandfastError | undefined;
  sessionId = '';

  /** @param canReconnect true when dialling again may reach the same host */
  private constructor(dial: Dial, capabilities: readonly string[], options: AgentOptions) {
    this.#dial = dial;
    this.#options = options;
    this.#capabilities = capabilities;
    const { maxMessageBytes } = options;
    this.#connection = new Connection(
      this.#owner(),
      this.#codec,
      maxMessageBytes === undefined ? connectionLimits : { ...connectionLimits, maxMessageBytes },
    );
    this.#connection.checkPing = checkPing;
    this.#connection.keptReplies = new KeptReplies(2 * connectionLimits.maxParallel);
    this.#callLimits = {
      maxParallel: options.maxParallel ?? Number.POSITIVE_INFINITY,
      queueLimit: options.queueLimit ?? 10_000,
      timeoutMs: options.timeoutMs ?? 60_000,
    };
    const { reconnect, onState } = options;
    this.#link = new Reconnect(
      {
        dial: async (signal) => {
          this.#token = await readToken(options.token);
          return this.#dial(signal);
        },
        handshake: (link, signal) => this.#performHandshake(link, signal),
        open: (outcome) => this.#open(outcome),
        discard: (_outcome, link) => void link.close('closed by the agent'),
        verdict: ({ code }): Verdict => (retried.has(code) ? 'retry' : 'stop'),
        ended: (error) => this.#settle(error),
        ...(onState !== undefined && { onState }),
      },
      {
        ...reconnect,
        boundMs: () =>
          this.#extensions.has(EXTENSION_RESUME) && options.resume !== false
            ? Math.min(this.#resumeWindowMs, reconnect?.maxMs ?? Number.POSITIVE_INFINITY)
            : 0,
      },
    );
  }

  /**
   * Dials and performs the handshake; programs use `connect`. Rejects with `unreachable`, `timeout`, the host's reason, or `cancelled`.
   * @internal
   */
  static async open(dial: Dial, capabilities: readonly string[], options: AgentOptions): Promise<AgentSession> {
    const agent = new AgentSession(dial, capabilities, options);
    await agent.#link.connect(options.signal);
    // Listeners and handlers that are registered in this turn miss nothing.
    nextTurn(() => agent.#host.release());
    agent.#host.on(capabilitiesChanged, (changed) => agent.#onChanged(changed));
    return agent;
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  /** Resolves when the session is over: with the error that ended it, or undefined after `close()`. */
  get closed(): Promise<HandfastError | undefined> {
    return this.#link.closed;
  }

  /** The host's grant for each requested capability. */
  get capabilities(): ReadonlyMap<string, GrantedCapability> {
    return this.#granted;
  }

  /** Extensions agreed. */
  get extensions(): ReadonlySet<string> {
    return this.#extensions;
  }

  /** Requests the host runs at once for this session. */
  get maxParallel(): number {
    return this.#callLimits.maxParallel;
  }

  /** The outgoing calls; capability clients make their calls here. */
  get calls(): MethodCaller {
    return this.#calls;
  }

  get #calls(): OutgoingCalls {
    return this.#connection.calls(this.#callLimits);
  }

  /**
   * Calls `listener` for each push of a type, in order and, over a lost link, exactly once. While the promise that
   * `listener` returned is pending, the host is read no faster. Returns the function that removes the listener.
   */
  on<Content extends object>(push: Push<Content>, listener: PushListener<Content>): () => void {
    return this.#host.on(push, listener);
  }

  /**
   * Calls `listener` for each push that no listener of {@link on} gets: for code that forwards the pushes of
   * capabilities.
   * @internal
   */
  onOtherPush(listener: (type: string, content: Record<string, unknown>) => void): void {
    this.#host.onOther(listener);
  }

  /**
   * Serves a request of the host, which gets the reply exactly once, also over a lost link. A request without a handler
   * is refused with `no_handler`. Throws `usage` for a request that has one. Returns the function that ends it.
   */
  serve<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    handler: AskHandler<Body<Request>, Body<Reply>>,
  ): () => void {
    return this.#host.serve(method, handler);
  }

  /** Throws `capability_missing` unless the host granted it. */
  require(capability: string): void {
    const granted = this.#granted.get(capability);
    if (granted?.enabled) return;
    const reason =
      granted?.metadata.reason ??
      (this.#capabilities.includes(capability)
        ? 'the host does not have it'
        : `the agent did not ask for it; connect with capabilities: ['${capability}']`);
    throw new HandfastError('capability_missing', `capability ${capability} was not granted: ${reason}`, {
      capability,
    });
  }

  static {
    // A client that was asked for is a property of its agent. Without one, plain JavaScript would only see `undefined`.
    for (const name of capabilityNames) {
      const get = function (this: AgentSession): never {
        return this.withoutClient(name);
      };
      Object.defineProperty(AgentSession.prototype, name, { configurable: true, get });
    }
  }

  /**
   * Throws, for `agent.<name>` of a capability without a client here, an error that names the alternative.
   * @internal
   */
  withoutClient(name: string): never {
    this.require(name);
    throw fail('usage', `there is no client for ${shown(name)}; send its messages with agent.request(type, body)`);
  }

  /**
   * Checks that the host is there. `uptimeSeconds` is the age of the session, `hostUptimeSeconds` that of the host, which
   * other implementations of hosts do not report it.
   */
  async ping(
    options: CallOptions = {},
  ): Promise<{ roundTripMs: number; uptimeSeconds: number; hostUptimeSeconds?: number }> {
    const from = performance.now();
    const pong = await this.calls.call(pingCall, {}, options);
    const roundTripMs = performance.now() - from;
    const { uptime_seconds: uptimeSeconds = 0, host_uptime_seconds: hostUptimeSeconds } = pong;
    return { roundTripMs, uptimeSeconds, ...(hostUptimeSeconds !== undefined && { hostUptimeSeconds }) };
  }

  /**
   * Sends a message of any type and resolves with its reply, of any type: for messages this library has no
   * client for. Envelope fields in `body` are replaced.
   */
  request(type: string, body: Readonly<Record<string, unknown>> = {}, options: CallOptions = {}): Call<Message> {
    // The codec writes types as they are: all others are constants.
    if (!isVerbatim(type) || type === '') throw fail('usage', `${shown(String(type))} is not a valid message type`);
    return this.calls.call(untyped(type), withoutEnvelope({ ...body }) as never, options, (reply) => reply as Message);
  }

  /**
   * Reads a session's journal (extension handfast/journal): the entries after `after`, and with `follow` those that are
   * added later. Events carry `{cursor, ts, kind, request, body}` or `{kind: 'gap', from, to}` as their data.
   */
  journal(
    session = '',
    read: { after?: number; follow?: boolean; limit?: number } = {},
    options: CallOptions = {},
  ): Call<{ last: number }> {
    if (!this.#extensions.has(EXTENSION_JOURNAL)) {
      throw new HandfastError('capability_missing', 'the host keeps no journal for its agents');
    }
    const body = {
      session_id: session,
      after: read.after ?? 0,
      follow: read.follow ?? false,
      limit: read.limit ?? 1000,
    };
    return this.calls.call(journalFollowCall, body, { timeoutMs: 0, ...options }, ({ last }) => ({ last }));
  }

  /**
   * Ends the session: open calls are rejected with `connection_lost`, the host is notified, the link (and a host started by
   * this agent) ends. Bounded by the transport's own grace. Idempotent.
   */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      const link = this.#connection.link;
      if (link !== undefined) this.#connection.notify('shutdown', { timeout: 0 });
      void this.#link.close();
      this.#connection.detach();
      await link?.close('closed by the agent');
    })();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Returns the functions that the connection calls on its owner. */
  #owner(): ConnectionOwner {
    return {
      // Hosts that did not agree to it send none but those of plain A2E, which are ignored where no handler serves them.
      route: (incoming) =>
        this.#extensions.has(EXTENSION_CAPABILITIES) || this.#host.serves(incoming.type)
          ? this.#host.route(incoming)
          : 'ignore',
      notice: (incoming) => {
        const handled = this.#host.notice(incoming);
        if (handled === false) this.#connection.dropped++;
        return typeof handled === 'boolean' ? undefined : handled.then(() => {});
      },
      // An error that belongs to no request concerns the session: it is the reason for the next event.
      refused: (error) => {
        if (farewells.has(error.code)) this.#farewell = error;
      },
      malformed: (_error, raw) => this.#options.onUnparsed?.(raw ?? ''),
      failed: (_request, thrown) => asError(thrown),
      // The host sends no more replies.
      ended: () => void this.#connection.link?.close('the host ended the link'),
      linkLost: (cause) => this.#linkLost(cause),
    };
  }

  #linkLost(cause: CloseInfo): void {
    const error = this.#farewell ?? fail('connection_lost', `the link ended: ${cause.reason}`);
    // The error of the host was the end of the session, unless it only dropped a slow link.
    const final = error === this.#farewell && error.code !== 'slow_consumer';
    this.#link.lost(error, final ? 'stop' : 'retry');
  }

  #open(outcome: HandshakeOutcome): Opened {
    const { response } = outcome;
    const before = this.sessionId;
    this.#agree(response);
    this.#farewell = undefined;
    const ping = (): unknown => this.#ping();
    const terms = isObject(response.extensions) ? response.extensions[EXTENSION_RESUME] : undefined;
    if (response.session_id !== before || !isObject(terms) || terms.resumed !== true) {
      // Another session: work that the host had started is lost with the old one and must not silently run twice.
      this.#connection.cursor = 0;
      this.#connection.sent = 0;
      this.#restarts = 0;
      if (before !== '') {
        this.#calls.failSent(fail('session_expired', 'the host no longer has the session this call was made in'));
      }
      outcome.handOver(this.#connection);
      if (before !== '') this.#calls.resend(0);
      return { resumed: false, ping };
    }
    const calls = this.#calls;
    const gap = gapOf(terms.gap);
    const received = typeof terms.received === 'number' ? terms.received : 0;
    const known = calls.readIds(received);
    const restarts = typeof terms.restarts === 'number' ? terms.restarts : 0;
    const restarted = restarts > this.#restarts;
    this.#restarts = restarts;
    this.#connection.sent = received; // Both sides count from here again.
    // Runs before messages of the link are read: the first event after the gap shows which events are missing. A gap
    // after the replay comes from a host that ended: no event follows it.
    if (gap !== undefined && !(restarted && gap.from > this.#connection.cursor + 1)) {
      calls.doubtEvents(known, gap.to - gap.from + 1);
    }
    outcome.handOver(this.#connection);
    calls.resend(received);
    this.#connection.resendReplies(received);
    if (Array.isArray(terms.running)) {
      // The pong comes after the replay: a call that is then still open and not running has lost its reply. If this
      // link is lost before, the ping is sent again on the next one, after the rest of the replay.
      const running = new Set(terms.running.map(String));
      this.ping({ timeoutMs: 0 }).then(
        () => {
          calls.failLost(known, running);
          if (restarted)
            calls.endStreams(received, fail('interrupted', 'the host was restarted; open the stream again'));
          if (gap !== undefined) this.#connection.cursor = Math.max(this.#connection.cursor, gap.to);
        },
        () => {},
      );
    }
    if (gap !== undefined) queueMicrotask(() => this.#options.onGap?.(gap));
    return { resumed: true, ping, ...(gap !== undefined && { gap }) };
  }

  /** Sends a liveness probe. Other hosts may reply nothing while they work; calls have their own deadlines. */
  #ping(): boolean {
    if (this.#extensions.size === 0 && this.#calls.size > 0) return false;
    this.#connection.probe();
    return true;
  }

  async #performHandshake(link: Link, signal: AbortSignal): Promise<HandshakeOutcome> {
    link.setMaxMessageBytes(this.#connection.limits.maxMessageBytes);
    const extensions: Record<string, unknown> = { [EXTENSION_CANCEL]: {}, [EXTENSION_JOURNAL]: {} };
    const resume = this.sessionId === '' ? {} : { session_id: this.sessionId, cursor: this.#connection.cursor };
    if (this.#options.resume !== false) extensions[EXTENSION_RESUME] = resume;
    const wanted = this.#capabilities.filter(isAdditionalCapability);
    extensions[EXTENSION_CAPABILITIES] = wanted.length === 0 ? {} : { wanted };
    const offer: Offer = {
      agentId: this.#options.agentId ?? 'handfast-agent',
      capabilities: this.#capabilities.filter((name) => !isAdditionalCapability(name)),
      token: this.#token ?? '',
      extensions,
    };
    const timeoutMs = this.#options.connectTimeoutMs ?? 10_000;
    return performHandshake(link, this.#codec, offer, { timeoutMs, signal, onUnparsed: this.#options.onUnparsed });
  }

  #agree(response: HandshakeResp): void {
    this.sessionId = response.session_id ?? '';
    const agreed = isObject(response.extensions) ? response.extensions : {};
    const more = agreed[EXTENSION_CAPABILITIES];
    const additional = isObject(more) && Array.isArray(more.accepted) ? more.accepted.filter(isGrant) : [];
    this.#granted = new Map(
      // A capability may be listed twice, once per plugin; the last one counts, as it does for other clients.
      [...(response.accepted_caps ?? []), ...additional].map(({ capability, enabled = true, metadata = {} }) => [
        capability,
        { enabled, metadata },
      ]),
    );
    this.#extensions = new Set(Object.keys(agreed));
    const resume = agreed[EXTENSION_RESUME];
    this.#resumeWindowMs = isObject(resume) && typeof resume.window_ms === 'number' ? resume.window_ms : 0;
    this.#connection.cancels = this.#extensions.has(EXTENSION_CANCEL);
    const granted = response.max_parallel ?? 4;
    this.#callLimits.maxParallel = Math.max(1, Math.min(this.#options.maxParallel ?? granted, granted));
    // Hosts without the number count requests that wait like all others.
    const waiting = isObject(more) ? more.max_waiting : undefined;
    this.#callLimits.maxWaiting = typeof waiting === 'number' && waiting > 0 ? waiting : undefined;
  }

  /** A granted capability stays granted; whether the host can serve it now, and its metadata, may change. */
  #onChanged({ capability, enabled = true, metadata = {} }: Omit<CapabilitiesChanged, 'type'>): void {
    if (!this.#granted.has(capability)) return;
    this.#granted.set(capability, { enabled, metadata });
    this.#options.onCapabilityChanged?.(capability, { enabled, metadata });
  }

  /** Settles every call. `reason` is undefined when this side closed the session. */
  #settle(reason: HandfastError | undefined): void {
    if (reason === undefined) return this.#calls.close(() => fail('connection_lost', 'the agent was closed'));
    this.#calls.close((sent) => (sent ? reason : notSent(reason)));
  }
}

/**
 * Returns the error of a call that no link could carry. The error is the same on every transport, and repeating the
 * call is safe, because the host has received none of it. `detail.reason` has the cause of the lost link.
 */
function notSent(reason: HandfastError): HandfastError {
  if (reason.code !== 'connection_lost') return reason;
  const message = 'the host is not connected and the call was not sent; connect again, then repeat it';
  return fail('connection_lost', message, { reason: reason.message }, reason);
}

const isGrant = (grant: unknown): grant is CapabilityGrant => isObject(grant) && typeof grant.capability === 'string';

/** Returns the range of entries that the host reports as missing. */
function gapOf(gap: unknown): Gap | undefined {
  if (!isObject(gap)) return undefined;
  const { from, to } = gap;
  return typeof from === 'number' && typeof to === 'number' ? { from, to } : undefined;
}

export type { Call, CallEvent, CallOptions };

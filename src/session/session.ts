/**
 * A session of the host: state that a handshake opened and that outlives its links. It holds identity, principal and
 * terms, owns the connection, writes the journal, and decides the effect of a lost link.
 *
 * `host/handshake.ts` opens and resumes sessions, `session/registry.ts` finds and expires them.
 * @see docs/architecture.md#sessions and docs/architecture.md#resume
 */

import { within } from '../base/race.ts';
import { Connection, type ConnectionLimits, type ConnectionOwner, type EntryKind } from '../connection/connection.ts';
import type { CallLimits } from '../connection/outgoing-calls.ts';
import type { Route, RunningRequest } from '../connection/running-request.ts';
import type { Durability, Gap, Journal, JournalEntry, Page } from '../journal/journal.ts';
import {
  checkCancel,
  checkPing,
  checkShutdown,
  EXTENSION_CANCEL,
  EXTENSION_CAPABILITIES,
  plainHostRequests,
} from '../protocol/a2e.ts';
import type { Body, Method, Push } from '../protocol/method.ts';
import type { CloseInfo, Link } from '../transport/link.ts';
import { A2ECodec, NO_REQUEST } from '../wire/a2e.ts';
import { violation } from '../wire/check.ts';
import type { Address, Encoded, Incoming, Message } from '../wire/codec.ts';
import { type ErrorName, fail, HandfastError } from '../wire/errors.ts';
import type { AskOptions, Principal, SessionView } from './principal.ts';
import { may } from './rights.ts';
import { readLeftWork, type StoredSession } from './stored-session.ts';

/** The terms of the handshake. */
export interface Terms {
  /** Capabilities granted. */
  readonly granted: ReadonlySet<string>;
  /** Extensions agreed, by name. */
  readonly extensions: ReadonlySet<string>;
}

/** Members of the host that a session uses. */
export interface SessionHost {
  readonly uptimeMs: () => number;
  /** Returns the handler of this type in this session; an error to reply; undefined for an unknown type. */
  route(type: string, session: Session): Route | HandfastError | undefined;
  request(session: Session, incoming: Incoming, route: Route): RunningRequest;
  failed(session: Session, request: RunningRequest, thrown: unknown): HandfastError;
  replied(session: Session, request: RunningRequest, error: HandfastError | undefined, size: number): void;
  /**
   * Called when a handler was abandoned and still runs (`+1`), or an abandoned one has settled (`-1`), maybe after its
   * session.
   */
  abandoned(change: 1 | -1): void;
  /** Returns the error for a request that the former host had read and not replied to. */
  interrupted(session: Session, incoming: Incoming): HandfastError;
  /** Called when a message of the session was malformed or too long. */
  unread(session: Session, error: HandfastError): void;
  /** Called when the facts that a restarted host needs of the session have changed. */
  changed(session: Session): void;
  /** Called once when the session is over. */
  sessionClosed(session: Session, reason: ErrorName): void;
  /** Called when a journal write failed; the calls continue. */
  journalFailed(session: Session, error: unknown): void;
}

export interface SessionOptions {
  readonly id: string;
  readonly agentId: string;
  readonly principal: Principal;
  readonly terms: Terms;
  readonly host: SessionHost;
  readonly limits: ConnectionLimits;
  /** Journal of the entries; undefined = nothing is stored. */
  readonly journal: Journal | undefined;
  /** True when replies are on disk before they are sent. Default: they are volatile. */
  readonly durableReplies?: boolean | undefined;
  /** True when a lost link may be replaced. */
  readonly resumable: boolean;
  /** Set for a session of a former host, which waits for a link. */
  readonly stored?: StoredSession;
  /** Returns epoch milliseconds, for entries and messages. */
  readonly now?: () => number;
}

export type SessionState = 'open' | 'detached' | 'draining' | 'closed';

/** The steps of a resume that the gate does, in the order of their calls. */
export interface ResumeSteps {
  /** Returns false when the new link was lost meanwhile. */
  alive(): boolean;
  /** Sends the handshake reply, with the range of entries that is no longer stored, if any. */
  greet(gap: { from: number; to: number } | undefined): void;
  /** Hands the link to the session; called in the turn in which the replay has caught up. */
  take(): void;
}

/** Limits of a host's requests to an agent. */
const askLimits: CallLimits = { maxParallel: 16, queueLimit: 256, timeoutMs: 60_000 };
const ASK_TIMEOUT_MS = 60_000;

/**
 * Bound on the messages that an agent may have sent above the number of cursors, at a host that did not stop in order:
 * cancels and replies use none, and each belongs to a request that does.
 */
const READ_MARGIN = 1024 * 1024;

/** Entries replayed at a time. */
const REPLAY_PAGE = 256;

export class Session implements ConnectionOwner, SessionView {
  readonly id: string;
  readonly agentId: string;
  #principal: Principal;
  #terms: Terms;
  readonly connection: Connection;
  readonly resumable: boolean;
  readonly #codec: A2ECodec;
  readonly #host: SessionHost;
  readonly #journal: Journal | undefined;
  readonly #replies: Durability;
  /** The newest durable append. */
  #storing: Promise<void> | undefined;
  #state: SessionState = 'open';
  #controller: AbortController | undefined;
  /** By capability; those that were asked for. */
  #controllers: Map<string, AbortController> | undefined;
  #ending: { readonly code: ErrorName; readonly message: string } | undefined;
  #ended: HandfastError | undefined;
  /** The end of its last link, once it is over. */
  #left: Promise<void> | undefined;
  /** Grows with each link; a replay that was overtaken by a newer link stops. */
  #epoch = 0;
  /** Time at which it lost its link, monotonic milliseconds; 0 while it has one. */
  detachedAt = 0;
  /** Last time the idle sweep found it active, monotonic milliseconds. */
  activeAt = 0;
  /** Its connection's `arrivals` at that time. */
  arrivalsSeen = -1;
  /** True when it ends with its host and not for good: the next host takes it up. */
  suspended = false;
  /** Number of hosts that restored it after the one that opened it. */
  readonly restarts: number;
  /** The last cursor that the former host may have used; 0 without one. */
  readonly #takenUpAt: number;
  /** The newest entries of the former host, which it did not write. */
  #lost: Gap | undefined;
  /** Settled when the requests that the former host left have their replies. */
  #settled: Promise<void> | undefined;
  /** True until a first entry is stored: a host that restarts knows it from then on. */
  #isNew: boolean;

  constructor(options: SessionOptions) {
    this.id = options.id;
    this.agentId = options.agentId;
    this.#principal = options.principal;
    this.#terms = options.terms;
    this.resumable = options.resumable;
    this.#host = options.host;
    this.#journal = options.journal;
    this.#replies = options.durableReplies === true ? 'durable' : 'volatile';
    const { stored } = options;
    // Ids of the former host may be in use at the agent.
    const prefix = stored === undefined ? `${options.id.slice(0, 5)}-` : undefined;
    this.#codec = new A2ECodec(prefix, options.now);
    this.connection = new Connection(this, this.#codec, options.limits);
    this.restarts = stored === undefined ? 0 : stored.record.restarts + 1;
    this.#takenUpAt = stored?.last ?? 0;
    this.#isNew = stored === undefined && options.resumable;
    if (stored !== undefined) this.#takeUp(stored);
    this.connection.stamped = options.resumable;
    const { extensions } = options.terms;
    this.connection.checkPing = checkPing;
    // Peers that did not ask for the extension see plain A2E, and there `cancel` is unknown.
    this.connection.cancels = extensions.has(EXTENSION_CANCEL);
    const { uptimeMs } = options.host;
    if (extensions.size > 0) {
      this.connection.pongFacts = () => ({ host_uptime_seconds: Math.round(uptimeMs()) / 1000 });
    }
    if (options.journal !== undefined) this.connection.record = this;
  }

  /** Waits for a link, as it did at the host that ended. */
  #takeUp({ last, detachedMs, record }: StoredSession): void {
    this.#state = 'detached';
    this.detachedAt = performance.now() - detachedMs;
    this.connection.cursor = last;
    // The number of read messages is only known of a host that stopped in order. Otherwise no message may seem unread:
    // it may have run.
    this.connection.received = record.received ?? last + READ_MARGIN;
  }

  /** The last cursor of its journal. */
  get cursor(): number {
    return this.connection.cursor;
  }

  get state(): SessionState {
    return this.#state;
  }

  get principal(): Principal {
    return this.#principal;
  }

  /** The terms that hold in this session. They only shrink. */
  get terms(): Terms {
    return this.#terms;
  }

  /** Sets the changed rights of the principal; running requests whose grant is withdrawn end. */
  narrow(principal: Principal, terms: Terms): void {
    const { granted } = this.#terms;
    this.#principal = principal;
    this.#terms = terms;
    this.connection.requests.stopWhere(({ route, message }) => {
      const { capability } = route.method;
      if (!granted.has(capability) || terms.granted.has(capability)) return route.refuses?.(message, this);
      return withdrawn();
    });
    for (const [capability, controller] of this.#controllers ?? []) {
      if (may(principal, 'use', capability)) continue;
      this.#controllers?.delete(capability);
      controller.abort(withdrawn());
    }
  }

  /** Aborted when the session ends. Created at its first use. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#ending !== undefined) this.#controller.abort(this.#error());
    }
    return this.#controller.signal;
  }

  signalOf(capability: string): AbortSignal {
    this.#controllers ??= new Map();
    let controller = this.#controllers.get(capability);
    if (controller === undefined) {
      controller = new AbortController();
      if (this.#ending !== undefined) controller.abort(this.#error());
      else if (!may(this.#principal, 'use', capability)) controller.abort(withdrawn());
      else this.#controllers.set(capability, controller);
    }
    return controller.signal;
  }

  granted(capability: string): boolean {
    return this.terms.granted.has(capability);
  }

  push<Content extends object>({ push, capability }: Push<Content>, content: Content): boolean {
    if (this.#state === 'closed' || (capability !== '' && !this.granted(capability))) return false;
    this.connection.notify(push, content);
    return true;
  }

  async ask<Request extends object, Reply extends object>(
    method: Method<Request, Reply>,
    body: Body<Request>,
    { timeoutMs = ASK_TIMEOUT_MS, signal }: AskOptions = {},
  ): Promise<Body<Reply>> {
    const { request, capability } = method;
    if (capability !== '' && !this.granted(capability)) {
      throw new HandfastError('capability_missing', `capability ${capability} was not granted`, { capability });
    }
    if (!this.terms.extensions.has(EXTENSION_CAPABILITIES) && !plainHostRequests.has(request)) {
      throw fail('no_handler', `this agent serves no requests of hosts; it was asked ${request}`);
    }
    if (this.#state === 'closed') throw this.#error();
    const { requests } = this.connection;
    const calls = this.connection.calls(askLimits);
    requests.asked(1);
    return calls.call(method, body, { timeoutMs, ...(signal && { signal }) }).finally(() => requests.asked(-1));
  }

  /**
   * Gives the session a new link: entries that the old one missed go out first, then new ones. The old link, if one
   * still exists, gets `superseded` and is closed.
   *
   * @param after the last cursor the agent has
   */
  async resume(link: Link, after: number, steps: ResumeSteps): Promise<void> {
    const epoch = ++this.#epoch;
    this.#state = 'open';
    this.detachedAt = 0;
    const { connection } = this;
    this.#stopReading();
    const old = connection.detach();
    connection.startReplay();
    if (old !== undefined) {
      const error = fail('superseded', 'another link took this session over');
      old.send(this.#codec.failure(old.text, NO_REQUEST, error, 0));
      void old.close('superseded');
    }
    let first = true;
    let gap: Gap | undefined;
    let at = after;
    for (;;) {
      const written = connection.cursor;
      const page = await this.#page(at).catch((error) => {
        if (epoch === this.#epoch) this.linkLost({ clean: false, reason: 'the journal cannot be read' });
        throw error;
      });
      if (epoch !== this.#epoch || this.#state !== 'open') return void link.close('superseded');
      if (!steps.alive()) return this.linkLost({ clean: false, reason: 'the link ended during the replay' });
      if (first) {
        gap = page?.gap ?? this.#lostAfter(at);
        steps.greet(gap);
      } else if (page?.gap !== undefined && page.gap.to !== gap?.to) {
        // Retention overtook the replay itself: the reader must get the gap, and it can no longer be sent in order.
        void link.close('slow_consumer');
        return this.linkLost({ clean: false, reason: 'the replay was overtaken by retention' });
      }
      first = false;
      for (const entry of page?.entries ?? []) {
        at = entry.cursor;
        if (this.#isReplayed(entry)) link.send(link.text ? text(entry.body) : (value(entry.body) as Message));
      }
      // Caught up when no entry was written since the request for the entries just read.
      if (at >= connection.cursor || ((page?.entries.length ?? 0) === 0 && written === connection.cursor)) break;
      await link.drained();
    }
    steps.take();
    this.#host.changed(this);
  }

  /** Entries above a cursor, once all requests have their replies or run here. */
  async #page(after: number): Promise<Page | undefined> {
    if (this.#takenUpAt > 0) {
      this.#settled ??= this.#settleLeftWork();
      await this.#settled;
    }
    // A reply that is being stored can be read already, and must not be sent before it is.
    await this.#storing?.catch(() => {});
    return this.#journal?.read(this.id, after, REPLAY_PAGE);
  }

  /**
   * Replies to the requests that the former host left. The replies come after its lost entries, as entries like all
   * others.
   */
  async #settleLeftWork(): Promise<void> {
    const journal = this.#journal as Journal;
    const { requests, lost } = await readLeftWork(journal, this.id).catch((error) => {
      this.#settled = undefined;
      throw error;
    });
    this.#lost = lost;
    const { connection } = this;
    for (const { body } of requests) {
      const incoming = this.#codec.read(body as Encoded, connection.limits.maxDepth);
      connection.refuse(incoming, this.#host.interrupted(this, incoming));
    }
  }

  /** Returns the range that the former host lost, as far as it lies above a cursor. */
  #lostAfter(cursor: number): Gap | undefined {
    if (this.#lost === undefined || cursor >= this.#lost.to) return undefined;
    return { ...this.#lost, from: Math.max(this.#lost.from, cursor + 1) };
  }

  /** Requests to the agent end with the host that made them. */
  #isReplayed({ kind, cursor }: JournalEntry): boolean {
    return kind !== 'request' && (kind !== 'call' || cursor > this.#takenUpAt);
  }

  /**
   * Ends the session in good order: nothing new is accepted, running work may finish within `timeoutMs` with its reply, the
   * rest gets the error as its reply; then the link closes. Resolves when all messages were sent. Called twice, by the
   * agent and by a host that stops, the shorter time counts.
   */
  async drain(timeoutMs: number, code: ErrorName, message: string): Promise<void> {
    if (this.#state !== 'closed') {
      this.#state = 'draining';
      this.connection.endReplay();
      if (this.connection.busy > 0) {
        await within(this.connection.requests.drain(fail(code, message)), timeoutMs);
      }
      this.close(code, message);
    }
    await this.#left;
  }

  /** Ends the session now: running work is aborted, and gets the error as its reply if a link still exists. */
  close(code: ErrorName, message: string): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#ending = { code, message };
    this.#epoch++;
    this.connection.settle(() => this.#error());
    this.connection.endReplay();
    // Replies that wait for the disk leave before the link closes.
    const { held } = this.connection;
    if (held === undefined) this.#left = this.connection.detach()?.close(code);
    else this.#left = held.then(() => this.connection.detach()?.close(code));
    for (const controller of [this.#controller, ...(this.#controllers?.values() ?? [])]) {
      controller?.abort(this.#error());
    }
    this.#host.sessionClosed(this, code);
  }

  /** Returns the reason why it ended, created on demand: most sessions end without a pending request. */
  #error(): HandfastError {
    this.#ended ??= fail(this.#ending?.code ?? 'connection_lost', this.#ending?.message ?? 'the session is open');
    return this.#ended;
  }

  // ConnectionOwner.

  route({ type, message }: Incoming): Route | HandfastError | undefined {
    const route = this.#host.route(type, this);
    if (route !== undefined) return route;
    // The terms are fixed: a second handshake must not widen them.
    if (type === 'handshake/req') return fail('invalid_message', 'the handshake of this link has completed already');
    if (type !== 'cancel' || !this.connection.cancels) return undefined;
    checkCancel(message);
    return violation('cancel', checkCancel.errors);
  }

  asRequest({ type }: Incoming): boolean {
    const route = this.#host.route(type, this);
    return route !== undefined && 'run' in route;
  }

  request(incoming: Incoming, route: Route): RunningRequest {
    return this.#host.request(this, incoming, route);
  }

  failed(request: RunningRequest, thrown: unknown): HandfastError {
    return this.#host.failed(this, request, thrown);
  }

  replied(request: RunningRequest, error: HandfastError | undefined, size: number): void {
    this.#host.replied(this, request, error, size);
  }

  abandoned(change: 1 | -1): void {
    this.#host.abandoned(change);
  }

  notice({ type, message }: Incoming): undefined {
    if (type !== 'shutdown') {
      this.connection.dropped++;
      return;
    }
    this.suspended = false;
    const shutdown = message as Message;
    const seconds = checkShutdown(shutdown) && typeof shutdown.timeout === 'number' ? shutdown.timeout : 10;
    void this.drain(seconds * 1000, 'interrupted', 'the session was shut down before the work was done');
  }

  /** Readers of the journal end with the link they read over: see `Route.unrecorded`. */
  #stopReading(): void {
    if (this.connection.busy === 0) return;
    // Their events cannot be sent again.
    this.connection.requests.stopWhere(({ route }) =>
      route.unrecorded ? fail('connection_lost', 'the link was lost while the journal was read') : undefined,
    );
  }

  malformed(error: HandfastError, _raw: string | undefined, to: Address = NO_REQUEST): void {
    this.connection.refuse(to, error);
    this.#host.unread(this, error);
  }

  ended(): void {
    // The agent sends nothing more; it still gets its replies, except those that only a cancel would end.
    const { link, requests } = this.connection;
    requests.stopWhere(({ route, message }) =>
      route.endless?.(message) === true ? fail('connection_lost', 'the agent ended its input') : undefined,
    );
    void requests.idle().then(() => {
      // Meanwhile another link may have taken over, and then this one's end means nothing.
      if (this.#state !== 'open' || this.connection.link !== link) return;
      if (!this.resumable) return this.close('connection_lost', 'the agent ended the link');
      // A cut connection often looks like an orderly end; an agent that wants to end its session sends shutdown.
      this.connection.detach();
      void link?.close('the agent ended the link');
      this.linkLost({ clean: true, reason: 'the agent ended the link' });
    });
  }

  linkLost(cause: CloseInfo): void {
    if (this.#state === 'closed') return;
    this.connection.endReplay();
    if (this.resumable && this.#state === 'open') {
      this.#state = 'detached';
      this.detachedAt = performance.now();
      this.#stopReading();
      this.#host.changed(this);
      return;
    }
    this.close('connection_lost', `the link ended: ${cause.reason}`);
  }

  /** Recorder of the connection: refuses a request whose reply is known to find no space. */
  refuses(): HandfastError | undefined {
    const why = this.#replies === 'durable' ? this.#journal?.unwritable : undefined;
    if (why === undefined) return undefined;
    const message = `the reply could not be stored, and so the request was not run: ${why.message}`;
    return new HandfastError(why.code, message, { retryable: why.retryable, detail: why.detail, cause: why });
  }

  /** Recorder of the connection: tool traffic is volatile, so no request waits for it, unless replies are to be durable. */
  record(cursor: number, kind: EntryKind, request: string, body: Encoded, isReply = false): Promise<void> | undefined {
    if (this.#isNew) {
      this.#isNew = false;
      this.#host.changed(this);
    }
    const entry = { cursor, ts: this.#codec.now(), kind, request, body };
    const durability = isReply ? this.#replies : 'volatile';
    const stored = this.#journal?.append(this.id, [entry], durability, this.#principal.name);
    if (stored === undefined) return undefined;
    stored.catch((error) => this.#host.journalFailed(this, error));
    if (durability === 'volatile') return undefined;
    this.#storing = stored;
    return stored;
  }
}

const withdrawn = (): HandfastError => fail('capability_missing', 'the right to this capability was withdrawn');

const text = (body: string | object): string => (typeof body === 'string' ? body : JSON.stringify(body));
const value = (body: string | object): object => (typeof body === 'string' ? JSON.parse(body) : body);

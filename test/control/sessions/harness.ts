/** The sessions of a server without a wire: methods are called as `rpc/` calls them, events are written down. */

import type { Log } from '../../../src/base/log.ts';
import { ApprovalBroker, type ApprovalBrokerOptions } from '../../../src/control/approvals/broker.ts';
import type { Backend } from '../../../src/control/contract/backend.ts';
import type { PublishedEvent } from '../../../src/control/contract/events.ts';
import type { Handled, RpcCall } from '../../../src/control/contract/handlers.ts';
import { readPrompt } from '../../../src/control/rounds/prompt.ts';
import { EventHub } from '../../../src/control/sessions/log/event-hub.ts';
import { ServerEventLog } from '../../../src/control/sessions/log/server-events.ts';
import { createSessions, type Sessions, type SessionsOptions } from '../../../src/control/sessions/sessions.ts';
import { openSessionStore, type SessionStore } from '../../../src/control/sessions/store/store.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { type ParamsOf, type RpcMethod, readParams } from '../../../src/protocol/rpc-reader.ts';
import { sessionCreate, sessionSend } from '../../../src/protocol/session-rpc.ts';
import type { Snapshot } from '../../../src/protocol/session-types.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { resultValue } from '../../../src/wire/json.ts';
import { within } from '../../contract/recorder.ts';
import { type ScriptedBackend, scriptedBackend } from '../support/scripted-backend.ts';

export const QUIET: Log = { debug() {}, info() {}, warn() {}, error() {} };

const NO_SNAPSHOT = { sessions: { count: 0, ids: [] } } as unknown as Snapshot;

export const ALICE: Principal = { name: 'alice', ...ROLES.client, backends: ['*'] };
export const ROOT: Principal = { name: 'root', admin: true };

/** One event, as a client reads it. */
export interface SeenEvent {
  readonly type: string;
  readonly seq: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into payloads of all types
  readonly payload: Readonly<Record<string, any>>;
}

export type HarnessOptions = Partial<Omit<SessionsOptions, 'backends'>> & {
  readonly backend?: ScriptedBackend;
  readonly backends?: readonly Backend[];
  readonly broker?: ApprovalBrokerOptions;
};

export class Harness {
  readonly sessions: Sessions;
  readonly serverEvents: ServerEventLog;
  readonly backend: ScriptedBackend;
  readonly broker: ApprovalBroker;
  readonly store: SessionStore;
  readonly journal: Journal;
  readonly published: PublishedEvent[] = [];
  readonly #handlers: ReadonlyMap<string, Handled>;
  readonly #waiting = new Set<() => void>();

  private constructor(
    sessions: Sessions,
    parts: Pick<Harness, 'serverEvents' | 'backend' | 'broker' | 'store' | 'journal'>,
  ) {
    this.sessions = sessions;
    this.serverEvents = parts.serverEvents;
    this.backend = parts.backend;
    this.broker = parts.broker;
    this.store = parts.store;
    this.journal = parts.journal;
    const handlers = sessions.handlers((reason, { id }) =>
      this.serverEvents.emit('state.changed', { reason, snapshot: NO_SNAPSHOT, session_id: id }),
    );
    this.#handlers = new Map(handlers.map((handled) => [handled.method.name, handled]));
    sessions.events.listen((event) => {
      this.published.push(event);
      for (const look of this.#waiting) look();
    });
  }

  static async start(options: HarnessOptions = {}): Promise<Harness> {
    const { backend = scriptedBackend(), backends = [], ...rest } = options;
    const broker = new ApprovalBroker({ defaultMode: 'ask', ...options.broker });
    const store = options.store ?? openSessionStore({ file: ':memory:' });
    const journal = options.journal ?? memoryJournal({ retention: { maxEntries: 1e6, maxBytes: 1e9 } });
    const hub = new EventHub(QUIET);
    const serverEvents = await ServerEventLog.open({ journal, hub, now: options.now ?? Date.now });
    const sessions = await createSessions({
      log: QUIET,
      defaultBackend: backend.name,
      readPrompt: (prompt, places) => readPrompt(prompt, places),
      principalOf: (name) => ({ ...ALICE, name }),
      ...rest,
      store,
      journal,
      hub,
      serverEvents,
      approver: broker,
      backends: new Map([backend, ...backends].map((one) => [one.name, one])),
    });
    return new Harness(sessions, { serverEvents, backend, broker, store, journal });
  }

  /** Calls a method, as `principal`. */
  async call<Params extends object, Result>(
    method: RpcMethod<Params, Result>,
    params: Params,
    principal: Principal = ALICE,
  ): Promise<Result> {
    const handled = this.#handlers.get(method.name);
    if (handled === undefined) throw new Error(`no handler for ${method.name}`);
    const call: RpcCall = {
      caller: { connectionId: 'c', principal, clientName: null, clientVersion: null, transport: 'test' },
      signal: new AbortController().signal,
      yieldSlot: () => () => {},
      afterAnswer: (work) => setImmediate(work),
      replay: async (session) => this.sessions.events.lastSeq(session),
    };
    return resultValue(await handled.handle(readParams(handled.method, params), call)) as Result;
  }

  async create(params: ParamsOf<typeof sessionCreate> = {}): Promise<string> {
    return (await this.call(sessionCreate, params)).session_id;
  }

  /** Sends a prompt; returns its turn id. */
  async send(session_id: string, text: string, more: { enqueue?: boolean; images?: unknown } = {}): Promise<string> {
    return (await this.call(sessionSend, { session_id, text, ...more })).turn_id;
  }

  /** Sends a prompt and waits for the end of its turn. */
  async turn(session_id: string, text: string): Promise<string> {
    const turnId = await this.send(session_id, text);
    await this.ended(turnId);
    return turnId;
  }

  /** Returns events of a session (`''` = of the server) so far. */
  events(session: string): SeenEvent[] {
    return this.published.filter((event) => event.session === session).map(seen);
  }

  /** Returns the first event that fits, past or coming. */
  async event(fits: (event: SeenEvent) => boolean, what = 'an event'): Promise<SeenEvent> {
    const find = () => this.published.map(seen).find(fits);
    const found = find();
    if (found !== undefined) return found;
    const { promise, resolve } = Promise.withResolvers<SeenEvent>();
    const look = () => {
      const event = find();
      if (event !== undefined) resolve(event);
    };
    this.#waiting.add(look);
    return within(promise, what).finally(() => this.#waiting.delete(look));
  }

  /** Returns the terminal event of a turn. */
  ended(turnId: string): Promise<SeenEvent> {
    return this.event((event) => isTerminal(event) && event.payload.turn_id === turnId, `the end of ${turnId}`);
  }

  /** Resolves when the session is ready again after its newest event. */
  async ready(session: string): Promise<void> {
    await this.event(
      ({ type, payload, seq }) =>
        type === 'session.status' &&
        payload.session_id === session &&
        payload.pending === false &&
        seq >= this.sessions.events.lastSeq(session) - 2,
      'ready',
    );
  }

  async stop(): Promise<void> {
    await this.sessions.stop();
    this.broker.close();
    await this.journal.close();
    this.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

export const seen = ({ type, seq, params }: PublishedEvent): SeenEvent => ({ type, seq, payload: params.payload });

export const isTerminal = ({ type }: { readonly type: string }): boolean =>
  ['session.completed', 'session.interrupted', 'session.error'].includes(type);

/** Returns the events in short: `status thinking...`, `user hello`, `chunk Hi`, `completed end_turn`. */
export function inShort(events: readonly SeenEvent[]): string[] {
  return events.map(({ type, payload }) => {
    switch (type) {
      case 'session.status':
        return `status ${payload.status_label}`;
      case 'session.message.appended':
        return `${payload.message.kind} ${payload.message.text}`;
      case 'session.stream.chunk':
        return `chunk ${payload.chunk.segments[0].kind} ${payload.chunk.segments[0].text}`;
      case 'session.tool.call.started':
        return `started ${payload.data.call.callId}`;
      case 'session.tool.call.completed':
        return `done ${payload.data.executed.callId} ${payload.data.executed.ok}`;
      case 'session.tool.results':
        return `results ${payload.data.executed.length}`;
      case 'session.completed':
      case 'session.interrupted':
      case 'session.error':
        return `${type.slice('session.'.length)} ${payload.stop_reason}`;
      default:
        return type;
    }
  });
}

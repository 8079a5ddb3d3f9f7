/**
 * The parts of a control server that `rpc/` is tested against: a journal in memory whose oldest entries can be evicted, and
 * handlers for the needs of tests.
 */

import type { Log } from '../../../src/base/log.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { EventPage, EventSource, PublishedEvent, ServerEvents } from '../../../src/control/contract/events.ts';
import { type Handled, handles, type RpcCall } from '../../../src/control/contract/handlers.ts';
import type { ControlDeps } from '../../../src/control/rpc/control-parts.ts';
import type { RpcMethod } from '../../../src/protocol/rpc-reader.ts';
import { sessionCreate, sessionLoad, sessionRpcMethods } from '../../../src/protocol/session-rpc.ts';
import type { SessionState, Snapshot } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';
import { JsonRpcCodec } from '../../../src/wire/jsonrpc.ts';

/** Events in memory. */
export class FakeEvents implements EventSource, ServerEvents {
  readonly #listeners = new Set<(event: PublishedEvent) => void>();
  readonly #stored = new Map<string, { owner: string; events: PublishedEvent[]; last: number }>([
    ['', { owner: '', events: [], last: 0 }],
  ]);
  /** Number of page reads. */
  reads = 0;
  /** Awaited by every read before it looks. */
  beforeRead: (session: string) => unknown = () => undefined;

  open(session: string, owner = 'local'): void {
    this.#stored.set(session, { owner, events: [], last: 0 });
  }

  /** Publishes an event of a session, or with `''` of the server. */
  publish(session: string, type: string, payload: Record<string, unknown> = {}): PublishedEvent {
    const stored = this.#of(session);
    const seq = ++stored.last;
    const facts = session === '' ? payload : { session_id: session, ...payload };
    const params = { type, timestamp: '2026-01-01T00:00:00.000Z', payload: facts, seq };
    const line = new JsonRpcCodec({ calls: false }).notice(true, 'event', params) as string;
    const event = { session, owner: stored.owner, type, seq, line, params };
    stored.events.push(event);
    for (const listener of this.#listeners) listener(event);
    return event;
  }

  emit(type: string, payload: object): void {
    this.publish('', type, payload as Record<string, unknown>);
  }

  /** Drops the stored entries up to and with `seq`. */
  forget(session: string, seq: number): void {
    const stored = this.#of(session);
    stored.events = stored.events.filter((event) => event.seq > seq);
  }

  delete(session: string): void {
    this.#stored.delete(session);
  }

  /** True when the newest listener wants debug steps. */
  wantsDebug: () => boolean = () => false;

  listen(listener: (event: PublishedEvent) => void, wantsDebug: () => boolean): () => void {
    this.#listeners.add(listener);
    this.wantsDebug = wantsDebug;
    return () => this.#listeners.delete(listener);
  }

  async read(session: string, after: number, limit: number): Promise<EventPage> {
    this.reads++;
    await this.beforeRead(session);
    const { events, last } = this.#of(session);
    const page = events.filter(({ seq }) => seq > after).slice(0, limit);
    const next = page[0]?.seq ?? last + 1;
    return { events: page, last, ...(next > after + 1 && { gap: { from_seq: after + 1, to_seq: next - 1 } }) };
  }

  lastSeq(session: string): number {
    return this.#of(session).last;
  }

  settled(): undefined {
    return undefined;
  }

  ownerOf(session: string): string | undefined {
    return this.#stored.get(session)?.owner;
  }

  #of(session: string) {
    const stored = this.#stored.get(session);
    if (stored === undefined) throw fail('session_not_found', `unknown session: ${session}`, { session_id: session });
    return stored;
  }
}

export const emptySnapshot: Snapshot = {
  auth: {
    enabledProviders: [],
    hasOpenAiToken: false,
    hasOpenRouterKey: false,
    hasAntigravityToken: false,
    antigravityProfile: null,
  },
  onboarding: { completed: false },
  model: { selectedModel: '', selectedThinking: 'HIGH', selectedOpenRouterProvider: 'any', selectedProvider: null },
  sessions: { count: 0, ids: [] },
  skills: { count: 0, directories: [] },
};

const text = { as: 'string', needed: true, long: true } as const;
const testMethod = <Params extends object, Result>(
  name: string,
  takes: RpcMethod['takes'],
  params: RpcMethod['params'],
): RpcMethod<Params, Result> => ({ name, takes, params });

/** Methods only tests have. */
export const testMethods = {
  /** Answers with its text. */
  echo: testMethod<{ text: string }, { text: string }>('test.echo', 'required', { text }),
  /** Answers when its signal aborts, or `release` is called. */
  wait: testMethod<{ name?: string }, { waited: true }>('test.wait', 'optional', { name: { as: 'string' } }),
  /** Emits `count` events of a session before it answers, and others after. */
  emit: testMethod<{ session_id: string; count?: number; type?: string }, { emitted: number }>(
    'test.emit',
    'required',
    {
      session_id: text,
      count: { as: 'number' },
      type: { as: 'string' },
    },
  ),
  /** Fails as `how` says. */
  fail: testMethod<{ how: string; session_id?: string }, never>('test.fail', 'required', {
    how: text,
    session_id: { as: 'string' },
  }),
};

export interface FakeControl extends ControlDeps {
  readonly events: FakeEvents;
  /** Calls of `test.wait` that wait, by name. */
  readonly waiting: Map<string, { call: RpcCall; release: () => void }>;
  /** Reasons the server was ended with. */
  readonly ended: string[];
  /** Log records, as `level message`. */
  readonly logged: string[];
}

export interface FakeOptions {
  /** Runs when the server ends. */
  readonly onShutdown?: (control: FakeControl) => unknown;
  readonly more?: readonly Handled[];
}

/** Makes all of 1.0.0's methods that `rpc/` does not answer, as far as tests here need them. */
export function fakeControl({ onShutdown, more = [] }: FakeOptions = {}): FakeControl {
  const events = new FakeEvents();
  const waiting: FakeControl['waiting'] = new Map();
  const ended: string[] = [];
  const logged: string[] = [];
  const record =
    (level: string) =>
    (message: string): void =>
      void logged.push(`${level} ${message}`);
  const log: Log = { ...silentLog, warn: record('warn'), error: record('error') };
  const handlers: Handled[] = [
    handles(testMethods.echo, ({ text }) => ({ text }), 'none'),
    handles(
      testMethods.wait,
      ({ name }, call) => {
        const { promise, resolve, reject } = Promise.withResolvers<{ waited: true }>();
        const key = name ?? String(waiting.size);
        waiting.set(key, { call, release: () => resolve({ waited: true }) });
        if (!key.startsWith('deaf')) call.signal.addEventListener('abort', () => reject(call.signal.reason));
        return promise.finally(() => waiting.delete(key));
      },
      'none',
    ),
    handles(
      testMethods.emit,
      ({ session_id, count, type }) => {
        for (let at = 0; at < (count ?? 1); at++) events.publish(session_id, type ?? 'session.status', { at });
        return { emitted: count ?? 1 };
      },
      'none',
    ),
    handles(
      testMethods.fail,
      ({ how }) => {
        if (how === 'busy') throw fail('session_busy', 'session is busy; use enqueue=true to queue the prompt');
        if (how === 'cycle') {
          const result: Record<string, unknown> = {};
          result.itself = result;
          return result as never;
        }
        if (how === 'text') throw 'just a text';
        if (how === 'later') return Promise.reject(new TypeError('secret detail at /etc/passwd'));
        throw new TypeError('secret detail at /etc/passwd');
      },
      'none',
    ),
    handles(sessionCreate, ({ title }) => {
      const id = crypto.randomUUID();
      events.open(id);
      events.publish('', 'state.changed', { reason: 'session_created', session_id: id, snapshot: emptySnapshot });
      return { session_id: id, state: { id, title } as unknown as SessionState };
    }),
    handles(sessionLoad, async ({ session_id }, call) => ({
      session_id,
      state: {} as SessionState,
      replayed_to_seq: await call.replay(session_id),
    })),
    ...more,
  ];
  const control: FakeControl = {
    handlers,
    events,
    serverEvents: events,
    snapshot: () => emptySnapshot,
    async shutdown(reason) {
      ended.push(reason);
      await onShutdown?.(control);
    },
    log,
    waiting,
    ended,
    logged,
  };
  return control;
}

/** Makes a handler for every method of the protocol that has none, so that `methods` is complete; they answer `{}`. */
export function stubsFor(handlers: readonly Handled[], own: readonly string[]): readonly Handled[] {
  const known = new Set([...own, ...handlers.map(({ method }) => method.name)]);
  return Object.values(sessionRpcMethods)
    .filter(({ name }) => !known.has(name))
    .map((method) => ({ method, needs: 'none' as const, handle: () => ({}) }));
}
